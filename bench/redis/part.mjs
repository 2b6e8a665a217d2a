import { cores } from '../lib/machine.mjs'
import { behindDenyCache, fallback, logAgainstGcra, oneLimit, threeLimits } from './experiments.mjs'
import { startRedis } from './server.mjs'

const FULL = { rounds: 5, ms: 300, warmUpMs: 80, patienceMs: 20_000 }
const QUICK = { rounds: 2, ms: 150, warmUpMs: 60, patienceMs: 6000 }

/** On Redis: one server on one core, one Node process on the other. */
export async function openRedis({ builds, quick }) {
  const { node, other } = cores()
  const server = await startRedis(other)
  const run = { builds, server, core: node, ...(quick ? QUICK : FULL) }
  const experiments = [oneLimit, threeLimits, logAgainstGcra, behindDenyCache, fallback].map((experiment) =>
    experiment(run),
  )
  return { experiments, tools: { redis: server.version }, close: () => server.close() }
}
