import {
  ALLOWED,
  type DecisionEvent,
  decisions,
  isNearLimit,
  outcomeOfLimit,
  outcomeOfRequest,
  OUTCOMES,
  type UnmatchedEvent,
  unmatchedRequests,
  unmatchedSeries,
} from '../limiter/decision.ts'
import { type Degraded, isCharge, type LimitStatus, type Policy, type Store } from '../stores/store.ts'
import { madeOnce } from '../util/copies.ts'
import { once, warn } from '../util/warn.ts'
import type { StoreState } from '../stores/guard/health.ts'
import { storeChanges, type StoreEvent } from '../stores/guard/reporter.ts'
import { isMemoryPlace, type KeyCount, keyCounts } from '../stores/memory/key-counts.ts'

/** The labels of a value, by their short names. */
export type Labels = Readonly<Record<string, string>>

export class Counts {
  readonly limiter: string
  readonly limit: string
  /** The count of each outcome. The index is the number of the outcome. */
  readonly outcomes: number[] = OUTCOMES.map(() => 0)
  /** The admitted requests that left less than a fifth of the limit. */
  nearLimit = 0

  constructor(limiter: string, limit: string) {
    this.limiter = limiter
    this.limit = limit
  }

  get labels(): Labels {
    return { limiter: this.limiter, limit: this.limit }
  }
}

/** The upper bounds of the histogram, in milliseconds. */
export const BOUNDS: readonly number[] = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 5000]

/** A histogram of milliseconds. */
export class Durations {
  /** The count of values for each bound: at most this bound, and more than the previous one. The last bucket has no upper bound. */
  readonly buckets: number[] = BOUNDS.map(() => 0).concat(0)
  sum = 0
  count = 0

  add(ms: number): void {
    let at = 0
    while (at < BOUNDS.length && ms > BOUNDS[at]!) at++
    this.buckets[at]!++
    this.sum += ms
    this.count++
  }
}

export class LimiterCounts {
  readonly limiter: string
  /** The number of requests with each outcome. The index is the number of the outcome. Each request counts once. */
  readonly outcomes: number[] = OUTCOMES.map(() => 0)
  readonly durations: Durations = new Durations()
  /** How long requests waited for their turn. Requests that did not wait are not included. */
  readonly waits: Durations = new Durations()
  readonly degraded: Record<Degraded, number> = { open: 0, closed: 0, local: 0 }

  constructor(limiter: string) {
    this.limiter = limiter
  }

  get labels(): Labels {
    return { limiter: this.limiter }
  }
}

/** The name for all limiters and limits above the maximum. A limiter of this name counts together with them: each series is written once. */
const OTHER = 'other'
const OTHERS = `${OTHER}\0${OTHER}`

/**
 * The counts by limiter and limit, at most `most` of them. Without this bound, limiters that are created per customer would each have their
 * own series. Limiters and limits above the bound count together as `other`, with one warning.
 */
class Series {
  readonly #most: number
  readonly limiters: Map<string, LimiterCounts> = new Map()
  readonly limits: Map<string, Counts> = new Map()
  #count = 0
  readonly #warn = once(() =>
    warn(
      'SLUICE_MANY_SERIES',
      `Metrics have series for ${this.#most} pairs of limiter and limit (\`maxSeries\`). Further pairs count together as "${OTHER}". Put user ` +
        'data into the key, not into the name of a limiter or limit. If the limits are real, increase `maxSeries`.',
    ),
  )

  constructor(most: number) {
    this.#most = most
  }

  ofLimiter(limiter: string): LimiterCounts {
    const isKept = this.limiters.has(limiter) || limiter === OTHER || this.#hasRoom()
    return isKept ? madeOnce(this.limiters, limiter, () => new LimiterCounts(limiter)) : this.ofLimiter(OTHER)
  }

  ofLimit(limiter: string, limit: string): Counts {
    const id = `${limiter}\0${limit}`
    const isKept = this.limits.has(id) || id === OTHERS || this.#hasRoom()
    return isKept ? madeOnce(this.limits, id, () => new Counts(limiter, limit)) : this.ofLimit(OTHER, OTHER)
  }

  #hasRoom(): boolean {
    if (this.#count++ < this.#most) return true
    this.#warn()
    return false
  }
}

/** A list of weak references: the list does not keep its objects alive. */
class WeakList<Value extends object> {
  readonly #known = new WeakSet<Value>()
  readonly #references = new Set<WeakRef<Value>>()

  add(value: Value): void {
    if (this.#known.has(value)) return
    this.#known.add(value)
    this.#references.add(new WeakRef(value))
  }

  values(): Value[] {
    return [...this.#references].flatMap((reference) => {
      const value = reference.deref()
      if (value === undefined) this.#references.delete(reference)
      return value ?? []
    })
  }
}

/** What metrics know about stores: the states of guarded stores, and the number of keys in memory stores. */
class StoreWatch {
  readonly #guarded = new WeakList<Store>()
  readonly #states = new WeakMap<Store, StoreState>()
  readonly #inMemory = new WeakList<Store>()
  readonly #changed = ({ store, state }: StoreEvent): void => {
    this.#guarded.add(store)
    this.#states.set(store, state)
  }

  constructor() {
    storeChanges.subscribe(this.#changed)
  }

  note(store: Store): void {
    if (isMemoryPlace(store.place)) this.#inMemory.add(store)
  }

  /** The worst state of all guarded stores. */
  get state(): StoreState {
    const states = new Set(this.#guarded.values().map((store) => this.#states.get(store)))
    return (['away', 'slow'] as const).find((state) => states.has(state)) ?? 'healthy'
  }

  keyCounts(): KeyCount[] {
    return this.#inMemory.values().flatMap(keyCounts)
  }

  close(): void {
    storeChanges.unsubscribe(this.#changed)
  }
}

/** Values of a limiter, or of one of its limits. */
interface Named {
  readonly limiter: string
  readonly limit?: string
}

/** The counts of a limit, and the limiter of its first decision: its own limiter, or a stack. */
interface Known {
  readonly limiter: string
  readonly whole: LimiterCounts
  readonly counts: Counts
}

/** Counts the decisions of all limiters of the process, from the constructor call until `close`. Instruments read the counts. */
export class Recorder {
  readonly #most: number
  #series: Series
  /** With this map, one look-up finds the counts of a limit and of its limiter. */
  #byPolicy = new WeakMap<Policy, Known>()
  #ofSlots = new Set<Counts>()
  readonly #stores = new StoreWatch()
  readonly #count: (event: DecisionEvent) => void
  readonly #countUnmatched = (event: UnmatchedEvent): void => {
    const { limiter, limit } = unmatchedSeries(event.limiter)
    this.#series.ofLimit(limiter, limit).outcomes[ALLOWED]!++
  }

  /**
   * @param most the largest number of pairs of limiter and limit
   * @param next is called for each denial and for each decision that took time. This is faster than a second subscriber
   */
  constructor(most: number, next: (event: DecisionEvent) => void = () => undefined) {
    this.#most = most
    this.#count = (event) => {
      this.#add(event)
      if (!event.decision.allowed || event.duration > 0) next(event)
    }
    this.#series = new Series(most)
    decisions.subscribe(this.#count)
    unmatchedRequests.subscribe(this.#countUnmatched)
  }

  limiters(): LimiterCounts[] {
    return [...this.#series.limiters.values()]
  }

  limits(): Counts[] {
    return [...this.#series.limits.values()]
  }

  /** Returns the name of a limiter in metrics: its own name, or `other`. */
  nameOf(limiter: string): string {
    return this.#series.ofLimiter(limiter).limiter
  }

  get storeState(): StoreState {
    return this.#stores.state
  }

  keys(): KeyCount[] {
    return this.#stores.keyCounts()
  }

  /** The limits with slots that have decided. */
  get ofSlots(): ReadonlySet<Counts> {
    return this.#ofSlots
  }

  /** Returns the sums of values by limit, or by limiter for values without a limit. Names above the maximum count together. */
  sums(all: Iterable<Named>): Map<Counts | LimiterCounts, Record<string, number>> {
    const sums = new Map<Counts | LimiterCounts, Record<string, number>>()
    for (const { limiter, limit, ...values } of all) {
      const series = limit === undefined ? this.#series.ofLimiter(limiter) : this.#series.ofLimit(limiter, limit)
      const sum = madeOnce(sums, series, (): Record<string, number> => ({}))
      for (const [name, value] of Object.entries(values)) sum[name] = (sum[name] ?? 0) + (value as number)
    }
    return sums
  }

  /** Starts again. The counts of leases, trips and lost slots are those of the process, and continue. */
  reset(): void {
    this.#series = new Series(this.#most)
    this.#byPolicy = new WeakMap()
    this.#ofSlots = new Set()
  }

  close(): void {
    decisions.unsubscribe(this.#count)
    unmatchedRequests.unsubscribe(this.#countUnmatched)
    this.#stores.close()
  }

  #add({ limiter, decision, duration, waited }: DecisionEvent): void {
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
    if (waited > 0) whole.waits.add(waited)
  }

  #knownOf(status: LimitStatus, limiter: string): Known {
    // The limiter may come from another version of the package.
    if (!isCharge(status)) return this.#meet(limiter, status.limiter, status.limit.name)
    return this.#byPolicy.get(status.policy) ?? this.#meetPolicy(limiter, status.policy)
  }

  #meetPolicy(limiter: string, policy: Policy): Known {
    const known = this.#meet(limiter, policy.limiter, policy.limit.name)
    this.#byPolicy.set(policy, known)
    if (policy.compiled.slots) this.#ofSlots.add(known.counts)
    this.#stores.note(policy.store)
    return known
  }

  #meet(limiter: string, owner: string, limit: string): Known {
    const whole = this.#series.ofLimiter(limiter)
    return { limiter, whole, counts: this.#series.ofLimit(owner, limit) }
  }
}
