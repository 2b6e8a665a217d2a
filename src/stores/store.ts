import type { Clock } from '../util/clock.ts'
import type { CompiledLimit } from '../limits/compiled-limit.ts'
import { type Limit, compiled } from '../limits/limit.ts'
import type { MaybePromise } from '../util/maybe-promise.ts'

/** A limit as one limiter holds it: what names its state in a store. Made once per limiter and limit. */
export interface Policy {
  /** The limiter's name. */
  readonly limiter: string
  readonly limit: Limit
  /** What steps it. */
  readonly compiled: CompiledLimit
  /** The limiter's store. */
  readonly store: Store
  /** One and the same for all limits of a limiter, and no other's: several limiters may share a name, and what they count. */
  readonly home: object
  /** What a store looked up for this policy: see `cached`. */
  cache: CacheEntry | undefined
}

/** What a store keeps with a policy, so that it looks it up once. */
export interface CacheEntry {
  /** The store, or what makes the entry in its place. */
  readonly owner: object
}

/** Returns what `owner` keeps with a policy, and makes it when there is nothing of that owner yet. */
export function cached<Entry extends CacheEntry>(
  policy: Policy,
  owner: object,
  make: (policy: Policy) => Entry,
): Entry {
  if (policy.cache?.owner !== owner) policy.cache = make(policy)
  return policy.cache as Entry
}

export function createPolicy(limiter: string, limit: Limit, store: Store, home: object): Policy {
  return { limiter, limit, compiled: compiled(limit), store, home, cache: undefined }
}

/** One limit's say in a decision. All times are milliseconds. */
export interface LimitStatus {
  readonly limit: Limit
  /** Who was counted: the keyer's answer as a string, `''` for the unidentified. */
  readonly key: string
  /** What the request costs against this limit. */
  readonly cost: number
  /** This limit's own verdict. */
  readonly allowed: boolean
  /** Units left, in this limit's own count. */
  readonly remaining: number
  /** Time until this limit would admit the same cost; 0 when it does, `Infinity` when never. */
  readonly retryAfter: number
  /** Time until nothing is remembered of this key. */
  readonly resetAfter: number
  /** Time this limit wants an admitted request to wait. */
  readonly delay: number
}

/** A charge: (limit, key, cost) on its way into a store, and the store's verdict on the way out. */
export class Charge implements LimitStatus {
  readonly limit: Limit
  readonly key: string
  readonly cost: number
  allowed: boolean
  remaining: number
  retryAfter: number
  resetAfter: number
  delay: number
  readonly #policy: Policy
  #at: number
  #charged: number

  constructor(policy: Policy, key: string, cost: number) {
    this.limit = policy.limit
    this.key = key
    this.cost = cost
    this.allowed = false
    this.remaining = 0
    this.retryAfter = 0
    this.resetAfter = 0
    this.delay = 0
    this.#policy = policy
    this.#at = 0
    this.#charged = 0
  }

  // On the prototype, so that a logged or serialised decision does not show the machinery.
  get policy(): Policy {
    return this.#policy
  }

  /** When it was charged: the tick that an adjustment refers to. */
  get at(): number {
    return this.#at
  }

  /** The units it put on the key: 0 when nothing was charged. */
  get charged(): number {
    return this.#charged
  }

  /** Written by a store that has kept the charge. */
  markCharged(at: number, units: number): void {
    this.#at = at
    this.#charged = units
  }
}

/** `consume` charges when all enforced limits admit, `peek` charges nothing. */
export type DecisionMode = 'consume' | 'peek'

/** Set on a decision when the store could not answer and something else did. */
export type Degraded = 'open' | 'closed' | 'local'

interface StoreBase {
  /** The clock that it was given in place of its own, if it was: points in time that clients are told are by this one, too. */
  readonly clock?: Clock | undefined
  /**
   * What it counts in, one and the same object for stores that count in the same place: two limiters of one name in it are an
   * error, unless they share. Default: the store itself.
   */
  readonly identity?: object | undefined
  /** True when this store and `other` can decide one transaction between them. A store always can with itself. */
  joins?(other: Store): boolean
  /**
   * Milliseconds until the last of several requests would be admitted, each as soon as it can be after the one before it;
   * `Infinity` when never. Without it a queue knows only that a wait is at least as long as if nobody stood before it.
   */
  forecast?(queue: readonly (readonly Charge[])[]): MaybePromise<number>
}

/** A store that answers at once. */
export interface SyncStore extends StoreBase {
  readonly sync: true
  /** Decides charges that stand or fall together and writes each verdict into its charge. */
  take(charges: readonly Charge[], mode: DecisionMode): Degraded | undefined
  /** Adds `units[i]` (gives back, when negative) to what `charges[i]` put on its key, past any limit. */
  adjust(charges: readonly Charge[], units: readonly number[]): void
  /** Forgets a key under every limit of a limiter. */
  forget(limiter: string, key: string): void
  close(): void
}

/** A store that answers with a Promise. */
export interface AsyncStore extends StoreBase {
  readonly sync: false
  take(charges: readonly Charge[], mode: DecisionMode): Promise<Degraded | undefined>
  adjust(charges: readonly Charge[], units: readonly number[]): Promise<void>
  forget(limiter: string, key: string): Promise<void>
  close(): Promise<void>
}

/**
 * The contract a store meets: one verb over data. The store owns the clock and reads it once per `take`.
 * @example see `examples/custom-store.ts`
 */
export type Store = SyncStore | AsyncStore
