import { algorithmsAlone, algorithmsTogether } from './algorithm-experiments.mjs'
import { bytesPerKey, nanoseconds } from './peer-experiments.mjs'
import { furtherLimits } from './further-limits.mjs'
import { garbage } from './garbage.mjs'
import { growth } from './growth.mjs'
import { flood, giveBack } from './upkeep.mjs'

/** How long a run is. */
const FULL = {
  rounds: 7,
  keys: 1_000_000,
  ms: 1000,
  sizes: [1e3, 1e4, 1e5, 1e6, 1e7],
  growthRounds: 3,
  further: 3_000_000,
}
const QUICK = { rounds: 3, keys: 1_000_000, ms: 200, sizes: [1e3, 1e4, 1e5, 1e6], growthRounds: 2, further: 1_000_000 }

/** In memory, one process. */
export async function memoryPart({ quick }) {
  const size = quick ? QUICK : FULL
  const experiments = [
    ...nanoseconds(size),
    bytesPerKey(size, size.keys),
    bytesPerKey(size, 1.1 * size.keys),
    ...furtherLimits(size),
    algorithmsAlone('roomy', size),
    algorithmsTogether('roomy', size),
    algorithmsAlone('tight', size),
    algorithmsTogether('tight', size),
    garbage(size),
    giveBack(size),
    flood(size),
    growth(size),
  ]
  return { experiments, absent: [] }
}
