import { shared } from '../../util/copies.ts'
import type { Store } from '../store.ts'

/** How many keys a limit of a memory store remembers. */
export interface KeyCount {
  readonly limiter: string
  readonly limit: string
  readonly count: number
}

/** What a memory store says of itself to code that does not load it, such as metrics. */
interface Counts {
  readonly keyCounts: KeyCount[]
}

/** The tables of every memory store. */
export const tablesOf: WeakMap<Store, Counts> = shared('tables', () => new WeakMap<Store, Counts>())

/** Returns true for a memory store. */
export function isMemoryStore(store: Store): boolean {
  return tablesOf.has(store)
}

/** Returns how many keys each limit of a memory store remembers; nothing for another store. */
export function keyCounts(store: Store): KeyCount[] {
  return tablesOf.get(store)?.keyCounts ?? []
}
