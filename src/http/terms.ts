import type { Limit } from '../limit.ts'

/** The largest integer of a structured field (RFC 9651): 15 digits. */
export const LARGEST = 999_999_999_999_999

/** What a client is told of a limit, as far as it never changes. */
export interface Terms {
  readonly limit: Limit
  /** Units that may be had back to back: the quota, or the capacity where that is larger. */
  readonly quota: number
  /** Seconds in which as many flow back. */
  readonly window: number
  /** Milliseconds between the first unit's return, when none is left, and the return of all. */
  readonly lag: number
}

const known = new WeakMap<Limit, Terms>()

/** The terms of a limit, made once for each. */
export function termsOf(limit: Limit): Terms {
  let terms = known.get(limit)
  if (terms === undefined) known.set(limit, (terms = learn(limit)))
  return terms
}

/** The terms of a limit, made afresh. */
export function learn(limit: Limit): Terms {
  const quota = Math.max(limit.quota, capacityOf(limit))
  const window = Math.max(1, secondsFor(quota, limit))
  return { limit, quota: Math.min(quota, LARGEST), window: Math.min(window, LARGEST), lag: lagOf(limit) }
}

/** Seconds in which so many units flow back, rounded up; products of a quota and a window are no exact floats. */
function secondsFor(units: number, { quota, window }: Limit): number {
  const divisor = BigInt(quota) * 1000n
  return Number((BigInt(window) * BigInt(units) + divisor - 1n) / divisor)
}

function capacityOf(limit: Limit): number {
  const capacity = limit['burst'] ?? limit['capacity']
  return typeof capacity === 'number' ? capacity : limit.quota
}

/**
 * `resetAfter` is when nothing is owed. A linear limit of capacity `B` that has no unit left owes between `B − 1` and `B` units
 * and pays one back every `window / quota`, so the first is back `(B − 1) · window / quota` earlier than the last. A refill at
 * intervals brings `quota` at once. A window gives all back together.
 */
function lagOf(limit: Limit): number {
  const capacity = capacityOf(limit)
  const owed = ((capacity - 1) * limit.window) / limit.quota
  if (limit.algorithm === 'gcra' || limit.algorithm === 'leakyBucket') return owed
  if (limit.algorithm !== 'tokenBucket') return 0
  const filling = limit['refill'] === 'interval' ? (Math.ceil(capacity / limit.quota) - 1) * limit.window : owed
  // A bucket that starts part-full stays known for a window after it is full again.
  const partFull = limit['initial'] !== undefined && limit['initial'] !== capacity
  return partFull ? filling + limit.window : filling
}
