import { heldRequests } from '../limiter/wait.ts'
import { type DecisionEvent, decisions, isNearLimit, outcomeOfLimit, outcomeOfRequest } from '../limiter/decision.ts'
import { Charge, isCharge, type LimitStatus, type Policy } from '../stores/store.ts'
import type { Counts, LimiterCounts } from './counts.ts'
import { Series } from './series.ts'
import { StoreWatch } from './store-watch.ts'

/** Where a limit is counted, and the limiter of its first decision: its own, or a stack. */
interface Known {
  readonly limiter: string
  readonly whole: LimiterCounts
  readonly counts: Counts
}

/** Counts the decisions of all limiters of the process, from its creation until `close`. Instruments read the counts. */
export class Recorder {
  readonly #most: number
  #series: Series
  /** So one look-up finds the counts of a limit and of its limiter. */
  #byPolicy = new WeakMap<Policy, Known>()
  readonly #stores = new StoreWatch()
  readonly #count: (event: DecisionEvent) => void

  /**
   * @param most pairs of limiter and limit
   * @param next called with each denial, and each decision that took time: one subscriber costs less than two
   */
  constructor(most: number, next: (event: DecisionEvent) => void = () => undefined) {
    this.#most = most
    this.#count = (event) => {
      this.#add(event)
      if (!event.decision.allowed || event.duration > 0) next(event)
    }
    this.#series = new Series(most)
    decisions.subscribe(this.#count)
  }

  limiters(): LimiterCounts[] {
    return this.#series.limiters()
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
    const { limits, degraded } = decision
    let whole: LimiterCounts | undefined
    for (let i = 0; i < limits.length; i++) {
      const status = limits[i]!
      const known = this.#knownOf(status, limiter)
      if (known.limiter === limiter) whole = known.whole
      known.counts.outcomes[outcomeOfLimit(status)]!++
      if (isNearLimit(decision, status)) known.counts.nearLimit++
    }
    whole ??= this.#series.ofLimiter(limiter)
    whole.outcomes[outcomeOfRequest(decision)]!++
    if (degraded !== undefined) whole.degraded[degraded]++
    whole.durations.add(duration)
  }

  #knownOf(status: LimitStatus, limiter: string): Known {
    // Another version of the package may have made the limiter.
    if (!(status instanceof Charge) && !isCharge(status)) return this.#meet(limiter, status.limiter, status.limit.name)
    return this.#byPolicy.get(status.policy) ?? this.#meetPolicy(limiter, status.policy)
  }

  /** The first decision of a limit. */
  #meetPolicy(limiter: string, policy: Policy): Known {
    const known = this.#meet(limiter, policy.limiter, policy.limit.name)
    this.#byPolicy.set(policy, known)
    this.#stores.note(policy.store)
    return known
  }

  #meet(limiter: string, owner: string, limit: string): Known {
    const whole = this.#series.ofLimiter(limiter)
    return { limiter, whole, counts: this.#series.ofLimit(owner, limit) }
  }
}

function addTo<Key>(sums: Map<Key, number>, key: Key, value: number): void {
  sums.set(key, (sums.get(key) ?? 0) + value)
}
