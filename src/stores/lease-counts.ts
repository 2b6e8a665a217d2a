import { shared } from '../util/copies.ts'
import type { Policy } from './store.ts'

// Counts of leases. They are in their own file, so that metrics do not load the code of leases.

/** The units of the leases of a limit, in this process. */
export interface LeaseCount {
  readonly limiter: string
  readonly limit: string
  /** Units that were charged ahead. */
  leased: number
  /** Units that requests have taken from leases, and units that were refunded to leases. */
  used: number
  refunded: number
  /** Units that were unused at the end of a lease and were given back to the store. */
  returned: number
}

/** How often a limiter has asked its store, in this process. */
export interface TripCount {
  readonly limiter: string
  /** Decisions that the store has made, requests for a lease, and refunds of unused units. */
  decisions: number
  leases: number
  returns: number
}

/** The most names that are counted. */
const MOST_NAMES = 1000
const counts = shared('leased units', () => new Map<string, LeaseCount>())
const trips = shared('trips of leases', () => new Map<string, TripCount>())

/** Returns the units of leases since the process began, for each limit. */
export function leaseCounts(): readonly LeaseCount[] {
  return [...counts.values()]
}

/** Returns how often stores with leases were asked since the process began, for each limiter. */
export function tripCounts(): readonly TripCount[] {
  return [...trips.values()]
}

export function countOf({ limiter, limit }: Policy): LeaseCount {
  const name = `${limiter}\0${limit.name}`
  const known = counts.get(name) ?? { limiter, limit: limit.name, leased: 0, used: 0, refunded: 0, returned: 0 }
  if (counts.size < MOST_NAMES) counts.set(name, known)
  return known
}

export function tripsOf({ limiter }: Policy): TripCount {
  const known = trips.get(limiter)
  if (known !== undefined) return known
  const made = { limiter, decisions: 0, leases: 0, returns: 0 }
  if (trips.size < MOST_NAMES) trips.set(limiter, made)
  return made
}
