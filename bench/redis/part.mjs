import { availableParallelism } from 'node:os'
import { absentRow } from '../lib/row.mjs'
import { inFlight } from './in-flight.mjs'
import { logAgainstGcra } from './log.mjs'
import { scriptFloor } from './script-floor.mjs'
import { isThere, startRedis } from './server.mjs'

const FULL = { rounds: 7, ms: 2000, warmUpMs: 1000, scriptCalls: 1_000_000 }
const QUICK = { rounds: 3, ms: 500, warmUpMs: 500, scriptCalls: 200_000 }
const GROUP = 'On Redis, 10,000 keys'

/** On Redis: one server, one Node process, both on this machine. */
export async function redisPart({ quick }) {
  const size = quick ? QUICK : FULL
  const [nodeCore, redisCore] = availableParallelism() > 1 ? [0, 1] : []
  const server = await startRedis(redisCore)
  const ours = await isBuilt('sluice/redis')
  const place = { port: server.port, core: nodeCore }
  const experiments = [128, 1, 8, 1000].map((count) => inFlight(GROUP, count, size, place, ours))
  const absent = [
    ...wrappersAbsent(),
    ...(ours ? [] : [absentRow(GROUP, 'all', 'sluice', "the built package has no 'sluice/redis'")]),
  ]
  if (ours) experiments.push(logAgainstGcra(size, place))
  if (isThere('redis-benchmark')) experiments.push(scriptFloor(GROUP, size, server, nodeCore))
  else
    absent.push(
      absentRow(GROUP, 'redis-benchmark', 'floor: one-limit script', 'there is no redis-benchmark on the PATH'),
    )
  return { experiments, absent, about: { redis: server.version }, close: () => server.close() }
}

async function isBuilt(name) {
  try {
    await import(name)
    return true
  } catch (error) {
    if (error.code === 'ERR_MODULE_NOT_FOUND' || error.code === 'ERR_PACKAGE_PATH_NOT_EXPORTED') return false
    throw error
  }
}

/** Rows for wrappers that the package is to have, and does not yet. */
function wrappersAbsent() {
  return [
    absentRow('On Redis, wrapped', 'a flood of denied requests ≥ 20 ×', 'denyCache', 'the package does not have it'),
    absentRow('On Redis, wrapped', 'a hot key ≥ 20 ×', 'lease', 'the package does not have it'),
    absentRow('When Redis does not answer', 'killed, and frozen', 'guard', 'the package does not have it'),
  ]
}
