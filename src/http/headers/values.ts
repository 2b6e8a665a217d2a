import type { CompiledLimit } from '../../limits/compiled-limit.ts'
import { findCompiled, type Limit } from '../../limits/limit.ts'

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
  const known = findCompiled(limit)
  const quota = Math.max(limit.quota, known?.algorithm.capacity?.(known.parameters) ?? 0)
  const window = Math.max(1, secondsFor(quota, limit))
  return {
    limit,
    quota: Math.min(quota, LARGEST),
    window: Math.min(window, LARGEST),
    lag: lagOf(known),
  }
}

/** Seconds in which so many units flow back, rounded up; products of a quota and a window are no exact floats. */
function secondsFor(units: number, { quota, window }: Limit): number {
  const divisor = BigInt(quota) * 1000n
  return Number((BigInt(window) * BigInt(units) + divisor - 1n) / divisor)
}

/**
 * Returns the milliseconds between the return of the first unit and of the last one. `resetAfter` is when nothing is owed,
 * and a header with no unit left reports when the first one is back.
 */
function lagOf(known: CompiledLimit | undefined): number {
  return known === undefined ? 0 : (known.algorithm.resetLag?.(known.parameters) ?? 0) / known.parameters.perMs
}
