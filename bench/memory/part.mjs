import { cores } from '../lib/machine.mjs'
import { algorithmTimes } from './algorithms.mjs'
import { hotKey, manyKeys } from './decisions.mjs'
import { expiredKeys, floodOfKeys, garbage } from './footprint.mjs'
import { longLogs } from './long-logs.mjs'
import { metricsTimes } from './metrics.mjs'
import { rulesTimes } from './rules.mjs'

/**
 * How long a run is. Processes with many keys take long, so they run in fewer rounds, and so do the peers. The numbers of keys are just below a power of two
 * (2²⁰ and 2¹⁸), where a table that doubles is nearly full.
 */
const FULL = { rounds: 5, peerRounds: 2, ms: 220, keys: 1_000_000, further: 3_000_000 }
const QUICK = { rounds: 2, peerRounds: 1, ms: 60, keys: 250_000, further: 600_000 }

/** In memory: one process, one core. */
export async function openMemory({ builds, quick }) {
  const run = { builds, core: cores().node, ...(quick ? QUICK : FULL) }
  const experiments = [
    hotKey,
    manyKeys,
    algorithmTimes,
    longLogs,
    rulesTimes,
    metricsTimes,
    garbage,
    expiredKeys,
    floodOfKeys,
  ]
  return { experiments: experiments.map((experiment) => experiment(run)) }
}
