// What metrics and the dashboard count. Both use these functions, so their figures have the same meaning.
import type { LimitStatus } from '../stores/store.ts'
import type { Decision } from './decision.ts'

export const ALLOWED = 0
export const DENIED = 1
/** A limit with `shadow: true` would have denied. */
export const SHADOW_DENIED = 2

export type Outcome = typeof ALLOWED | typeof DENIED | typeof SHADOW_DENIED

/** The outcomes by their numbers. */
export const OUTCOMES: readonly string[] = ['allowed', 'denied', 'shadow_denied']

/** The outcome of one limit: its own verdict, also if another limit denies the request. */
export function outcomeOfLimit({ allowed, limit }: LimitStatus): Outcome {
  if (allowed) return ALLOWED
  return limit.shadow === true ? SHADOW_DENIED : DENIED
}

/**
 * The outcome of a request. Each request has exactly one: `DENIED` if it is denied, `SHADOW_DENIED` if it is admitted and at least one
 * shadow limit would have denied it, else `ALLOWED`.
 */
export function outcomeOfRequest({ allowed, limits }: Decision): Outcome {
  if (!allowed) return DENIED
  for (let i = 0; i < limits.length; i++) if (outcomeOfLimit(limits[i]!) === SHADOW_DENIED) return SHADOW_DENIED
  return ALLOWED
}

/**
 * True if an admitted request leaves less than a fifth of a limit's capacity. The capacity is what remains and what is used. Envoy's
 * rate limit service has the same signal, at 80 %: https://github.com/envoyproxy/ratelimit#statistics
 */
export function isNearLimit(decision: Decision, { allowed, used, remaining }: LimitStatus): boolean {
  return allowed && decision.allowed && 4 * remaining < used
}
