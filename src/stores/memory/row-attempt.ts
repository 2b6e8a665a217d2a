import type { Charge } from '../store.ts'
import type { Row } from './sketch.ts'
import { Attempt } from './state.ts'

/** A row of a key's slots, and the verdict of the limit on it. */
export class RowAttempt {
  readonly attempt: Attempt = new Attempt()
  row!: Row
  charge!: Charge
  /** True when a lock-out was in the row before. */
  wasLocked = false
  /** True when the denial begins a lock-out, or corrects one that a clock ahead began. */
  locks = false
}

const RANKS = { own: 0, free: 1, foreign: 2, same: 3, other: 3 }

/** True when a row says more of its key than another, or admits more. */
export function isBetter(one: RowAttempt, other: RowAttempt): boolean {
  const difference = RANKS[one.row.kind] - RANKS[other.row.kind]
  if (difference !== 0) return difference < 0
  // A row that is not locked proves that the key is not: its lock would be in every row.
  if (one.wasLocked !== other.wasLocked) return !one.wasLocked
  return isMoreLenient(one.charge, other.charge)
}

function isMoreLenient(one: Charge, other: Charge): boolean {
  if (one.allowed !== other.allowed) return one.allowed
  return one.allowed ? one.remaining > other.remaining : one.retryAfter < other.retryAfter
}

export function copyVerdict(from: Charge, to: Charge): void {
  to.allowed = from.allowed
  to.remaining = from.remaining
  to.retryAfter = from.retryAfter
  to.resetAfter = from.resetAfter
  to.delay = from.delay
  to.markCharged(from.at, from.charged)
  to.markLocked(from.lockedFor)
}
