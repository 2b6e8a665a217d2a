import { Charge, type LimitStatus, isCharge, perform } from '../stores/store.ts'
import type { Limit } from '../engine/limit.ts'
import { type Channel, channel } from '../util/channel.ts'
import { madeOnce, shared } from '../util/copies.ts'
import { isPromise, type MaybePromise } from '../util/maybe-promise.ts'
import type { Decision } from './decision.ts'

/**
 * The message on the channel `sluice:threshold`: a key has reached a part of a limit's capacity that is in `notifyAt`.
 *
 * A process publishes it when its own decision of `consume` or `wait`, its settlement or its penalty crosses the part. It does so at most once per window
 * for a key, a limit and a part. A denial of a key that has used the whole capacity also counts as a crossing.
 * @example subscribe('sluice:threshold', (message) => console.log((message as ThresholdEvent).key))
 */
export interface ThresholdEvent {
  /** The name of the limiter. */
  readonly limiter: string
  /** The limit that has `notifyAt`. */
  readonly limit: Limit
  /** The key that was counted, as a string. */
  readonly key: string
  /** The part of the capacity that was reached, as in `notifyAt`. */
  readonly threshold: number
  /** Units that cannot be used now. At most the capacity, also with a debt. */
  readonly used: number
  /** The capacity of the limit: `burst` or `capacity` if it has one, otherwise the quota. */
  readonly capacity: number
}

/** Where limiters publish that a key has reached a part of a limit. */
export const thresholds: Channel<ThresholdEvent> = channel('sluice:threshold')

/** The most crossings that are remembered for a place of stores. The oldest are dropped first. */
const MOST_CROSSINGS = 10_000

/** For each place of stores and each crossing there, the epoch millisecond until which it is not published again. */
const crossings = shared('thresholds', () => new WeakMap<object, Map<string, number>>())

/** Publishes the thresholds that a decision has crossed. If it was made without the store, the usage is unknown. */
export function noticeDecision({ limits, degraded }: Decision): void {
  if (degraded !== undefined) return
  for (let i = 0; i < limits.length; i++) {
    const status: LimitStatus = limits[i]!
    if (!isCharge(status) || status.policy.compiled.thresholds === undefined) continue
    if (status.allowed) notice(status, status.used - status.charged)
    else if (status.used >= status.policy.compiled.capacity) notice(status, 0)
  }
}

/** Publishes the thresholds that added units have crossed. It never fails, because the units are added already. */
export function noticeAdded(charges: readonly Charge[], units: readonly number[]): MaybePromise<void> {
  if (!thresholds.hasSubscribers) return
  const grown = charges.flatMap((charge, i) => {
    const isGrown = charge.policy.compiled.thresholds !== undefined && units[i]! > 0
    return isGrown ? [{ now: new Charge(charge.policy, charge.key, 0), added: units[i]! }] : []
  })
  if (grown.length === 0) return
  const noticed = (degraded: unknown): void => {
    if (degraded !== undefined) return
    for (const { now, added } of grown) {
      now.countUsed()
      notice(now, now.used - added)
    }
  }
  try {
    const peeked = perform(charges[0]!.policy.store, {
      kind: 'peek',
      charges: grown.map(({ now }) => now),
      fresh: true,
    })
    return isPromise(peeked) ? peeked.then(noticed, () => undefined) : noticed(peeked)
  } catch {
    // The store does not answer, so the usage is unknown.
  }
}

function notice(charge: Charge, before: number): void {
  const { limiter, limit, key, used, policy } = charge
  const { capacity } = policy.compiled
  for (const threshold of policy.compiled.thresholds!) {
    if (used / capacity >= threshold && before / capacity < threshold && isFirst(charge, threshold))
      thresholds.publish({ limiter, limit, key, threshold, used, capacity })
  }
}

function isFirst(charge: Charge, threshold: number): boolean {
  const { limiter, limit, key, policy } = charge
  const now = policy.store.clock.now()
  const id = `${limiter}\0${limit.name}\0${threshold}\0${key}`
  // Limiters with one name on several stores count separately.
  const until = madeOnce(crossings, policy.store.place, () => new Map<string, number>())
  if ((until.get(id) ?? -Infinity) > now) return false
  until.delete(id)
  if (until.size >= MOST_CROSSINGS) until.delete(until.keys().next().value!)
  until.set(id, windowEnd(charge, now))
  return true
}

/** Returns when a crossing can be published again: at the end of the window if all units return together, otherwise one window later. */
function windowEnd({ limit, resetAfter, policy }: Charge, now: number): number {
  const { algorithm } = policy.compiled
  return now + (algorithm.resetLag === undefined ? Math.min(limit.window, resetAfter) : limit.window)
}
