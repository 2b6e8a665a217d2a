import { cores } from '../lib/machine.mjs'
import { behindDenyCache, fallback, logAgainstGcra, oneLimit, threeLimits } from './experiments.mjs'
import { frozenServer, guardedDecisions } from './guard.mjs'
import { longLogs } from './long-logs.mjs'
import { startRedis } from './server.mjs'

const FULL = { rounds: 5, ms: 300, warmUpMs: 80, patienceMs: 20_000 }
const QUICK = { rounds: 2, ms: 150, warmUpMs: 60, patienceMs: 6000 }

/** On Redis: one server on one core, one Node process on the other. */
export async function openRedis({ builds, quick }) {
  const { node, other } = cores()
  const server = await startRedis(other)
  const run = { builds, server, core: node, ...(quick ? QUICK : FULL) }
  const kinds = [
    oneLimit,
    threeLimits,
    logAgainstGcra,
    longLogs,
    behindDenyCache,
    guardedDecisions,
    frozenServer,
    fallback,
  ]
  const experiments = kinds.map((experiment) => experiment(run))
  return { experiments, tools: { redis: server.version }, close: () => server.close() }
}
