import { guardedOnce } from './guard/index.ts'
import { leasing } from './lease.ts'
import type { Wrappers } from './store.ts'

/**
 * The guard and the leases, with which adapters and limiters wrap a store that can fail. Each such store has this object as its member `wrappers`. So a
 * program whose counts are in memory does not load the code of guards and leases.
 * @example const store: AsyncStore = { sync: false, answersAlways: false, wrappers, place, clock, run, close }
 */
export const wrappers: Wrappers = { guarded: (store) => guardedOnce(leasing(store)), leasing }
