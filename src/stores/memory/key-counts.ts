import type { Row } from '../../engine/row.ts'
import { type Clock, microseconds } from '../../util/clock.ts'
import { shared } from '../../util/copies.ts'
import type { Place, Store } from '../store.ts'

/** How many keys a limit of a memory store remembers. */
export interface KeyCount {
  readonly limiter: string
  readonly limit: string
  readonly count: number
}

/** The part of a memory store that is visible to code that does not load it, such as metrics. */
interface Counted {
  readonly time: Clock
  readonly probe: Row
  readonly all: readonly {
    readonly limiter: string
    readonly limit: string
    readonly slots: ReadonlyMap<string, number>
    sweepAll(now: number, probe: Row, end: number): boolean
  }[]
  /** The table at which the next count begins. */
  nextCounted: number
}

/** The places of all memory stores. */
export const counted: WeakMap<Place, Counted> = shared('counts', () => new WeakMap<Place, Counted>())

export function isMemoryPlace(place: Place): boolean {
  return counted.has(place)
}

/** Milliseconds for which a count of keys may look for expired keys. The next count continues at the same place. */
const BUDGET = 10

/** Returns how many keys each limit of a memory store remembers, without expired keys. The list is empty for another store. */
export function keyCounts({ place }: Store): KeyCount[] {
  const tables = counted.get(place)
  if (tables === undefined) return []
  forgetExpired(tables)
  return tables.all.map(({ limiter, limit, slots }) => ({ limiter, limit, count: slots.size }))
}

function forgetExpired(tables: Counted): void {
  let now: number
  try {
    now = microseconds(tables.time)
  } catch {
    // Decisions report a clock that fails. Metrics continue without it.
    return
  }
  const end = performance.now() + BUDGET
  for (let left = tables.all.length; left > 0 && performance.now() < end; left--) {
    tables.nextCounted %= tables.all.length
    if (tables.all[tables.nextCounted]!.sweepAll(now, tables.probe, end)) tables.nextCounted++
  }
}
