import { Charge, isCharge, type Degraded, type LimitStatus } from '../stores/store.ts'

/**
 * The decision about one input. It never changes later. All times are in milliseconds.
 *
 * @example
 * const { allowed, retryAfter } = limiter.consume(request)
 */
export interface Decision {
  /** Whether the input is admitted. */
  readonly allowed: boolean
  /** Time to wait before the request may continue (`leakyBucket`), else 0. */
  readonly delay: number
  /** Time until the same request is admitted; 0 if allowed, `Infinity` if never. */
  readonly retryAfter: number
  /** Further requests of this cost that are admitted now; `Infinity` if no limit applies. */
  readonly remaining: number
  /** Time until the state of this key has expired. */
  readonly resetAfter: number
  /** The verdicts of all limits, in the given order. */
  readonly limits: readonly LimitStatus[]
  /** The verdict that the headers report first: on denial the longest wait, else the least remaining. */
  readonly binding: LimitStatus | undefined
  /** Set if the store could not decide. */
  readonly degraded: Degraded | undefined
}

/**
 * Combines the verdicts of several limits into one decision. Shadow limits are listed and change nothing else.
 *
 * The decision is a denial if an enforced limit denies. `retryAfter`, `resetAfter` and `delay` are the largest; `remaining` is
 * the smallest number of further requests of the same cost. The binding limit is the one with the longest wait on denial
 * (`Infinity` is the longest), else the one with the least remaining. The first of equal ones wins.
 */
export function combine(limits: readonly LimitStatus[], degraded: Degraded | undefined): Decision {
  return limits.length === 1 && isEnforced(limits[0]!) ? single(limits, degraded) : several(limits, degraded)
}

/** The most common case, without comparisons. */
function single(limits: readonly LimitStatus[], degraded: Degraded | undefined): Decision {
  const status = limits[0]!
  countUsed(status)
  const { allowed, delay, retryAfter, resetAfter, cost } = status
  const remaining = cost > 0 ? further(status) : Infinity
  return { allowed, delay, retryAfter, remaining, resetAfter, limits, binding: status, degraded }
}

function several(limits: readonly LimitStatus[], degraded: Degraded | undefined): Decision {
  let binding: LimitStatus | undefined
  let remaining = Infinity
  let retryAfter = 0
  let resetAfter = 0
  let delay = 0
  for (let i = 0; i < limits.length; i++) {
    const status = limits[i]!
    countUsed(status)
    if (!isEnforced(status)) continue
    if (binding === undefined || binds(status, binding)) binding = status
    if (status.cost > 0) remaining = Math.min(remaining, further(status))
    if (status.retryAfter > retryAfter) retryAfter = status.retryAfter
    if (status.resetAfter > resetAfter) resetAfter = status.resetAfter
    if (status.delay > delay) delay = status.delay
  }
  const allowed = binding === undefined || binding.allowed
  return { allowed, delay: allowed ? delay : 0, retryAfter, remaining, resetAfter, limits, binding, degraded }
}

/** No store writes `used`, so that all stores agree. */
function countUsed(status: LimitStatus): void {
  if (status instanceof Charge || isCharge(status)) status.countUsed()
}

/** Limits differ in shape and compiled limits do not, so this reads the compiled limit of a charge. */
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
