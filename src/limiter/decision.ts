import { type Degraded, isCharge, type LimitStatus } from '../stores/store.ts'
import { type Channel, channel } from '../util/channel.ts'
import { observer } from '../util/warn.ts'

/**
 * The decision about one input. It never changes later. All times are in milliseconds.
 *
 * @example
 * const { allowed, retryAfter } = limiter.consume(request)
 */
export interface Decision {
  /** Whether the input is admitted. */
  readonly allowed: boolean
  /** Time to wait before the request may continue (`leakyBucket`), otherwise 0. */
  readonly delay: number
  /** Time until the same request is admitted; 0 if allowed, `Infinity` if never. */
  readonly retryAfter: number
  /** Further requests of this cost that are admitted now; `Infinity` if no limit applies. */
  readonly remaining: number
  /** Time until the state of this key has expired. */
  readonly resetAfter: number
  /** The verdicts of all limits, in the given order. */
  readonly limits: readonly LimitStatus[]
  /** The verdict that the headers report first: on denial the longest wait, otherwise the least remaining. */
  readonly binding: LimitStatus | undefined
  /** Set if the store could not decide. */
  readonly degraded: Degraded | undefined
}

/**
 * Combines the verdicts of several limits into one decision. Shadow limits are listed and change nothing else.
 *
 * The decision is a denial if an enforced limit denies. `retryAfter`, `resetAfter` and `delay` are the largest; `remaining` is
 * the smallest number of further requests of the same cost. On a denial, the binding limit is the one with the longest wait (`Infinity` is the longest).
 * A limit of slots, whose wait is only a hint, comes after all others. On an admission, it is the limit with the least remaining. Of equal limits,
 * the first is binding.
 */
export function combine(limits: readonly LimitStatus[], degraded: Degraded | undefined): Decision {
  let binding: LimitStatus | undefined
  let remaining = Infinity
  let retryAfter = 0
  let resetAfter = 0
  let delay = 0
  for (let i = 0; i < limits.length; i++) {
    const status = limits[i]!
    if (!counts(status)) continue
    if (binding === undefined || binds(status, binding)) binding = status
    if (status.cost > 0) remaining = Math.min(remaining, further(status))
    if (status.retryAfter > retryAfter) retryAfter = status.retryAfter
    if (status.resetAfter > resetAfter) resetAfter = status.resetAfter
    if (status.delay > delay) delay = status.delay
  }
  const allowed = binding === undefined || binding.allowed
  return { allowed, delay: allowed ? delay : 0, retryAfter, remaining, resetAfter, limits, binding, degraded }
}

/**
 * Makes the first decision of each process, with `remaining: Infinity`. V8 stores a number as a small integer until a property gets another kind of
 * number. Without this call, one of five processes with several limiters converted each decision when it was read, which took 1 µs.
 */
combine([], undefined)

/** Computes `used` here and not in stores, so that it has the same meaning in all of them. Returns false for a shadow limit. */
function counts(status: LimitStatus): boolean {
  return isCharge(status) ? status.countUsed() : status.limit.shadow !== true
}

function binds(status: LimitStatus, before: LimitStatus): boolean {
  if (status.allowed !== before.allowed) return before.allowed
  if (status.allowed) return further(status) < further(before)
  const isHint = waitsForSlots(status)
  return isHint === waitsForSlots(before) ? status.retryAfter > before.retryAfter : !isHint
}

/** Returns true for a denial that ends when a slot is released, so that its `retryAfter` is only a hint. */
export function waitsForSlots(status: LimitStatus): boolean {
  if (status.allowed || !isCharge(status) || status.retryAfter === Infinity) return false
  return status.policy.compiled.slots && status.lockedFor === 0
}

/** Returns true if an admitted request has taken slots of a `concurrent` limit. */
export function holdsSlots({ allowed, limits }: Decision): boolean {
  if (!allowed) return false
  for (let i = 0; i < limits.length; i++) {
    const status = limits[i]!
    if (isCharge(status) && status.policy.compiled.slots && status.charged > 0) return true
  }
  return false
}

function further({ remaining, cost }: LimitStatus): number {
  return cost > 1 ? Math.floor(remaining / cost) : remaining
}

// Outcomes that metrics and the dashboard count. Both use these functions, so their figures have the same meaning.

export const ALLOWED = 0
export const DENIED = 1
/** A limit with `shadow: true` would have denied. */
export const SHADOW_DENIED = 2

export type Outcome = typeof ALLOWED | typeof DENIED | typeof SHADOW_DENIED

/** The outcomes by their numbers. */
export const OUTCOMES: readonly string[] = ['allowed', 'denied', 'shadow_denied']

/** Returns the outcome of one limit: its own verdict, even if another limit denies the request. */
export function outcomeOfLimit({ allowed, limit }: LimitStatus): Outcome {
  if (allowed) return ALLOWED
  return limit.shadow === true ? SHADOW_DENIED : DENIED
}

/**
 * Returns the outcome of a request: `DENIED` if it is denied, `SHADOW_DENIED` if it is admitted and at least one shadow limit would have denied it,
 * else `ALLOWED`.
 */
export function outcomeOfRequest({ allowed, limits }: Decision): Outcome {
  if (!allowed) return DENIED
  for (let i = 0; i < limits.length; i++) if (outcomeOfLimit(limits[i]!) === SHADOW_DENIED) return SHADOW_DENIED
  return ALLOWED
}

/**
 * Returns true if an admitted request leaves less than a fifth of a limit's capacity. The capacity is `remaining` plus `used`. Envoy's rate limit service
 * has the same signal, at 80 %: https://github.com/envoyproxy/ratelimit#statistics
 */
export function isNearLimit(decision: Decision, { allowed, used, remaining }: LimitStatus): boolean {
  return allowed && decision.allowed && 4 * remaining < used
}

/**
 * The message on the channel `sluice:decision`: one for each decision of `consume`, and for the last decision of `wait`.
 * @example subscribe('sluice:decision', (message) => console.log((message as DecisionEvent).decision.allowed))
 */
export interface DecisionEvent<Input = unknown> {
  /** The name of the limiter, by default `default`. For a stack the names of its parts, joined by `+`. */
  readonly limiter: string
  /** The decision, with the verdicts of all limits. */
  readonly decision: Decision
  /** The input of the decision, such as the request. */
  readonly input: Input
  /** Milliseconds until the decision: 0 for a store that answers at once. With `wait`, it includes the time of waiting. */
  readonly duration: number
  /** Milliseconds that the request waited for its turn, in `wait` or in the `queue` of an adapter. 0 if it did not have to wait. */
  readonly waited: number
}

/** Where limiters publish their decisions. */
export const decisions: Channel<DecisionEvent> = channel('sluice:decision')

/**
 * The message on the channel `sluice:unmatched`: no policy of the rules matches a request, so it is not limited.
 * @example subscribe('sluice:unmatched', (message) => console.log((message as UnmatchedEvent<Request>).input.url))
 */
export interface UnmatchedEvent<Input = unknown> {
  /** The name of the limiter, by default `rules`. */
  readonly limiter: string
  /** The input of the decision, such as the request. */
  readonly input: Input
}

/** Where rules publish requests that no policy matches. */
export const unmatchedRequests: Channel<UnmatchedEvent> = channel('sluice:unmatched')

/** The names under which unmatched requests are counted. They stand in place of the names of a policy and a limit. */
export interface UnmatchedSeries {
  readonly limiter: string
  readonly limit: string
}

const NONE = 'none'

/** @example unmatchedSeries('rules') // { limiter: 'rules/none', limit: 'none' } */
export function unmatchedSeries(limiter: string): UnmatchedSeries {
  return { limiter: `${limiter}/${NONE}`, limit: NONE }
}

/** Returns true for the names of unmatched requests. There is no limit with these names. */
export function isUnmatchedSeries({ limiter, limit }: UnmatchedSeries): boolean {
  return limit === NONE && limiter.endsWith(`/${NONE}`)
}

/** Called with decisions and their inputs. Its result is not used. */
export type OnDecision<Input> = (decision: Decision, input: Input) => void

/** Returns a function that calls `onDecision` and never throws. */
export function decisionObserver<Input>(onDecision: OnDecision<Input>): OnDecision<Input> {
  return observer(onDecision, 'onDecision failed. The decision does not change.')
}
