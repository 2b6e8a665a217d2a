import { shared } from '../../util/copies.ts'
import type { Place, Store } from '../store.ts'

/** How many keys a limit of a memory store remembers. */
export interface KeyCount {
  readonly limiter: string
  readonly limit: string
  readonly count: number
}

/** What a memory store says of itself to code that does not load it, such as metrics. */
interface Counts {
  /** Forgets keys that have expired, for at most a few milliseconds, and counts the others. */
  countKeys(): KeyCount[]
}

/** The places of all memory stores. */
export const counts: WeakMap<Place, Counts> = shared('counts', () => new WeakMap<Place, Counts>())

/** Returns true for the place of a memory store. */
export function isMemoryPlace(place: Place): boolean {
  return counts.has(place)
}

/** Returns how many keys that have not expired each limit of a memory store remembers; nothing for another store. */
export function keyCounts({ place }: Store): KeyCount[] {
  return counts.get(place)?.countKeys() ?? []
}
