import { Charge, type Degraded, type LimitStatus } from '../stores/store.ts'

/**
 * What was decided, for good: nothing in it changes later. All times are milliseconds.
 *
 * @example
 * const { allowed, retryAfter } = limiter.consume(request)
 */
export interface Decision {
  readonly allowed: boolean
  /** Time to wait before going on (`leakyBucket`), else 0. */
  readonly delay: number
  /** Time until the same request would be admitted; 0 when allowed, `Infinity` when never. */
  readonly retryAfter: number
  /** Further requests of this cost that would be admitted now; `Infinity` when no limit applies. */
  readonly remaining: number
  /** Time until nothing is remembered against this key. */
  readonly resetAfter: number
  /** Every limit consulted, in the order given. */
  readonly limits: readonly LimitStatus[]
  /** The one that decides what the client is told. */
  readonly binding: LimitStatus | undefined
  /** Set when the store could not answer. */
  readonly degraded: Degraded | undefined
}

/**
 * Combines the verdicts of several limits into one decision. Shadow limits are listed and change nothing else.
 *
 * Denied when an enforced limit denies. `retryAfter`, `resetAfter` and `delay` are the largest; `remaining` is the smallest
 * number of further requests of the same cost. The binding limit is, on denial, the one with the longest wait (never
 * is the longest), else the one with the least remaining; the first of equals.
 */
export function combine(limits: readonly LimitStatus[], degraded: Degraded | undefined): Decision {
  if (limits.length === 1 && isEnforced(limits[0]!)) return single(limits[0]!, limits, degraded)
  let binding: LimitStatus | undefined
  let remaining = Infinity
  let resetAfter = 0
  let delay = 0
  for (let i = 0; i < limits.length; i++) {
    const status = limits[i]!
    if (!isEnforced(status)) continue
    if (binding === undefined || binds(status, binding)) binding = status
    if (status.cost > 0) remaining = Math.min(remaining, further(status))
    if (status.resetAfter > resetAfter) resetAfter = status.resetAfter
    if (status.delay > delay) delay = status.delay
  }
  const allowed = binding === undefined || binding.allowed
  const retryAfter = binding === undefined ? 0 : binding.retryAfter
  return { allowed, delay: allowed ? delay : 0, retryAfter, remaining, resetAfter, limits, binding, degraded }
}

/** The most common case, without comparisons. */
function single(status: LimitStatus, limits: readonly LimitStatus[], degraded: Degraded | undefined): Decision {
  const { allowed, delay, retryAfter, resetAfter, cost } = status
  const remaining = cost > 0 ? further(status) : Infinity
  return { allowed, delay, retryAfter, remaining, resetAfter, limits, binding: status, degraded }
}

/** Limits differ in shape and compiled limits do not, so a charge is asked for its compiled limit. */
function isEnforced(status: LimitStatus): boolean {
  return status instanceof Charge ? status.policy.compiled.enforced : status.limit.shadow !== true
}

function binds(status: LimitStatus, before: LimitStatus): boolean {
  if (status.allowed !== before.allowed) return before.allowed
  return status.allowed ? further(status) < further(before) : status.retryAfter > before.retryAfter
}

function further({ remaining, cost }: LimitStatus): number {
  return cost > 1 ? Math.floor(remaining / cost) : remaining
}
