import { guardedOnce } from '../guard/index.ts'
import type { Wrappers } from '../store.ts'

/** No leases: a Worker has no timer that gives back what it has not used. */
export const wrappers: Wrappers = { guarded: guardedOnce, leasing: (store) => store }
