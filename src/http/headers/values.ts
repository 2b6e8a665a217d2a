import type { CompiledLimit } from '../../limits/compiled-limit.ts'
import { findCompiled, type Limit } from '../../limits/limit.ts'
import type { LimitStatus } from '../../stores/store.ts'
import type { HeaderValues } from './types.ts'

/** The largest integer in a structured field: 15 digits (RFC 9651). */
export const MAX_HEADER_INTEGER = 999_999_999_999_999

const valuesByLimit = new WeakMap<Limit, HeaderValues>()

/** Returns the header values of a limit. They are computed once for each limit. */
export function headerValuesOf(limit: Limit): HeaderValues {
  let values = valuesByLimit.get(limit)
  if (values === undefined) valuesByLimit.set(limit, (values = computeValues(limit)))
  return values
}

function computeValues(limit: Limit): HeaderValues {
  const compiled = findCompiled(limit)
  const quota = compiled?.capacity === 0 ? 0 : Math.max(limit.quota, compiled?.capacity ?? 0)
  const window = Math.max(1, secondsFor(quota, limit))
  return {
    limit,
    quota: Math.min(quota, MAX_HEADER_INTEGER),
    window: Math.min(window, MAX_HEADER_INTEGER),
    lag: lagOf(compiled),
  }
}

/**
 * Returns the seconds in which `units` come back, rounded up, and the window for a limit that admits nothing. The product of a quota and
 * a window needs more than 53 bits.
 */
function secondsFor(units: number, { quota, window }: Limit): number {
  if (units === 0 || quota === 0) return wholeSeconds(window)
  const divisor = BigInt(quota) * 1000n
  return Number((BigInt(window) * BigInt(units) + divisor - 1n) / divisor)
}

/** Returns `HeaderValues.lag`: `resetAfter` refers to the last unit, but a client without units waits for the first one. */
function lagOf(compiled: CompiledLimit | undefined): number {
  if (compiled === undefined) return 0
  const { algorithm, parameters } = compiled
  return (algorithm.resetLag?.(parameters) ?? 0) / parameters.perMs
}

/** Rounds milliseconds up to whole seconds, at least 0. Ignores the last 1e-6 ms, which may be a rounding error. */
export function wholeSeconds(ms: number): number {
  return ms > 1e-6 ? Math.min(Math.ceil((ms - 1e-6) / 1000), MAX_HEADER_INTEGER) : 0
}

/** Returns the whole units that are left, from 0 to the quota. */
export function unitsLeft(status: LimitStatus, values: HeaderValues): number {
  return status.remaining > 0 ? Math.min(Math.floor(status.remaining), values.quota) : 0
}

/**
 * Returns the milliseconds until the state improves. For a limit that denies it is the same time as `Retry-After`; with no unit
 * left it is the time until the first unit is back. For a request that is never admitted it is the time until all units are back, and
 * for a limit that admits nothing it is the window.
 */
export function resetIn(status: LimitStatus, values: HeaderValues, left: number): number {
  if (values.quota === 0) return values.window * 1000
  if (!status.allowed && status.retryAfter !== Infinity) return status.retryAfter
  const ms = left === 0 ? status.resetAfter - values.lag : status.resetAfter
  return ms > 0 ? ms : 0
}

/** Returns `resetIn` in whole seconds. It is at least 1 while no unit is left. */
export function resetSeconds(status: LimitStatus, values: HeaderValues, left: number): number {
  const seconds = wholeSeconds(resetIn(status, values, left))
  return left === 0 && seconds === 0 ? 1 : seconds
}
