import { heldRequests } from '../limiter/held.ts'
import { decisions, type DecisionEvent } from '../limiter/events.ts'
import type { Decision } from '../limiter/decision.ts'
import { isNearLimit } from '../limiter/near-limit.ts'
import { Charge, isCharge, type LimitStatus, type Policy } from '../stores/store.ts'
import type { Counts, LimiterCounts } from './counts.ts'
import { Series } from './series.ts'
import { StoreWatch } from './store-watch.ts'

/** Counts the decisions of all limiters of the process, from its creation until `close`. Instruments read the counts. */
export class Recorder {
  readonly #most: number
  #series: Series
  #byPolicy = new WeakMap<Policy, Counts>()
  readonly #stores = new StoreWatch()
  readonly #count = (event: DecisionEvent): void => this.#add(event)

  /** @param most pairs of limiter and limit */
  constructor(most: number) {
    this.#most = most
    this.#series = new Series(most)
    decisions.subscribe(this.#count)
  }

  limiters(): LimiterCounts[] {
    return this.#series.limiters()
  }

  /** All pairs of limiter and limit, the pairs with the limit `''` first. */
  pairs(): Counts[] {
    return [...this.limiters().map((each) => each.decisions), ...this.limits()]
  }

  limits(): Counts[] {
    return this.#series.limits()
  }

  /** The name of a limiter as metrics show it: its own, or `other`. */
  nameOf(limiter: string): string {
    return this.#series.ofLimiter(limiter).limiter
  }

  get isStoreUp(): boolean {
    return this.#stores.isUp
  }

  /** How many requests wait now, for every limiter. */
  held(): Map<LimiterCounts, number> {
    for (const name of heldRequests().keys()) this.#series.ofLimiter(name)
    const held = new Map(this.limiters().map((limiter) => [limiter, 0]))
    for (const [name, count] of heldRequests()) addTo(held, this.#series.ofLimiter(name), count)
    return held
  }

  /** How many keys the memory stores remember, by limit. */
  keys(): Map<Counts, number> {
    const keys = new Map<Counts, number>()
    for (const { limiter, limit, count } of this.#stores.keyCounts())
      addTo(keys, this.#series.ofLimit(limiter, limit), count)
    return keys
  }

  /** Counts from 0 again. */
  reset(): void {
    this.#series = new Series(this.#most)
    this.#byPolicy = new WeakMap()
  }

  close(): void {
    decisions.unsubscribe(this.#count)
    this.#stores.close()
  }

  #add({ limiter, decision, duration }: DecisionEvent): void {
    const counts = this.#series.ofLimiter(limiter)
    const { limits, degraded } = decision
    let shadowDenied = false
    for (let i = 0; i < limits.length; i++) if (this.#addLimit(limits[i]!, decision)) shadowDenied = true
    if (!decision.allowed) counts.decisions.denied++
    else if (shadowDenied) counts.decisions.shadowDenied++
    else counts.decisions.allowed++
    if (degraded !== undefined) counts.degraded[degraded]++
    counts.durations.add(duration)
  }

  /** Returns true for a denial in shadow. */
  #addLimit(status: LimitStatus, decision: Decision): boolean {
    const counts = this.#countsOf(status)
    if (status.allowed) {
      counts.allowed++
      if (decision.allowed && isNearLimit(status)) counts.nearLimit++
      return false
    }
    if (status.limit.shadow !== true) counts.denied++
    else counts.shadowDenied++
    return status.limit.shadow === true
  }

  #countsOf(status: LimitStatus): Counts {
    // Another version of the package may have made the limiter.
    if (!(status instanceof Charge) && !isCharge(status)) return this.#series.ofLimit(status.limiter, status.limit.name)
    return this.#byPolicy.get(status.policy) ?? this.#meet(status.policy)
  }

  /** The first decision of a limit. */
  #meet(policy: Policy): Counts {
    const counts = this.#series.ofLimit(policy.limiter, policy.limit.name)
    this.#byPolicy.set(policy, counts)
    this.#stores.note(policy.store)
    return counts
  }
}

function addTo<Key>(sums: Map<Key, number>, key: Key, value: number): void {
  sums.set(key, (sums.get(key) ?? 0) + value)
}
