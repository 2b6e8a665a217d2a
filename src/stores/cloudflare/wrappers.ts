import { guardedOnce } from '../guard/index.ts'
import type { Wrappers } from '../store.ts'

/** There are no leases, because a Worker has no timer that gives unused units back. */
export const wrappers: Wrappers = { guarded: guardedOnce, leasing: (store) => store }
