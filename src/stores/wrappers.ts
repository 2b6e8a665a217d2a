import { guarded } from './guard/index.ts'
import { leasing } from './lease.ts'
import type { Wrappers } from './store.ts'

/**
 * The guard and the leases: what adapters and limiters put around a store that can fail. Each such store has it as its member `wrappers`. So a
 * program whose counts are in memory has no code of guards and leases.
 * @example const store: AsyncStore = { sync: false, answersAlways: false, wrappers, place, clock, run, close }
 */
export const wrappers: Wrappers = { guarded, leasing }
