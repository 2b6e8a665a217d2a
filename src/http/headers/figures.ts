import type { LimitStatus } from '../../stores/store.ts'
import { LARGEST, type Terms } from './values.ts'

/** Whole seconds that cover `ms`, from 0. A hair is forgiven, so that rounding in floats does not cost a second. */
export function seconds(ms: number): number {
  return ms > 1e-6 ? Math.min(Math.ceil((ms - 1e-6) / 1000), LARGEST) : 0
}

/** Whole units left, from 0 to the quota that is told. */
export function available(status: LimitStatus, terms: Terms): number {
  return status.remaining > 0 ? Math.min(Math.floor(status.remaining), terms.quota) : 0
}

/**
 * Milliseconds until things look up, which is the same moment as `Retry-After` for a limit that denies. One that is used up but has
 * not denied yet tells when a unit comes back; what would never be admitted tells of its quota as if it had not been asked.
 */
export function wait(status: LimitStatus, terms: Terms, left: number): number {
  if (!status.allowed && status.retryAfter !== Infinity) return status.retryAfter
  const ms = left === 0 ? status.resetAfter - terms.lag : status.resetAfter
  return ms > 0 ? ms : 0
}

/** The same in seconds; never 0 while nothing is left. */
export function reset(status: LimitStatus, terms: Terms, left: number): number {
  const whole = seconds(wait(status, terms, left))
  return left === 0 && whole === 0 ? 1 : whole
}
