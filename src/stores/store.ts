import { type Clock, microseconds, steadyClock } from '../util/clock.ts'
import type { CompiledLimit } from '../limits/compiled-limit.ts'
import { type Limit, compiled, compiledAt } from '../limits/limit.ts'
import { brand, hasBrand } from '../util/copies.ts'
import type { DecisionMode, Degraded } from './decision-mode.ts'
import type { LimitStatus } from './limit-status.ts'
import type { LockMode } from '../engine/adjust.ts'
import type { CacheEntry } from './policy-cache.ts'

export type { DecisionMode, Degraded } from './decision-mode.ts'
export type { LimitStatus } from './limit-status.ts'

/** A limit as one limiter uses it. It names the state in a store. Made once per limiter and limit. */
export interface Policy {
  /** The limiter's name. */
  readonly limiter: string
  /** The limit. */
  readonly limit: Limit
  /** What steps it. A limit on the calendar has another one in each of its windows. */
  compiled: CompiledLimit
  /** The limiter's store. */
  readonly store: Store
  /** Identifies the limiter: several limiters can share a name and their counts. */
  readonly home: object
  /** What happens to its requests while the store cannot decide. Default: what the store does. */
  readonly onOutage: Degraded | undefined
  /** What a store keeps for this policy: see `cached`. */
  cache: CacheEntry | undefined
}

export function createPolicy(limiter: string, limit: Limit, store: Store, home: object, onOutage?: Degraded): Policy {
  return { limiter, limit, compiled: compiled(limit), store, home, onOutage, cache: undefined }
}

/** Derives the parameters of a limit again if they are not valid at this time. */
function renew(policy: Policy, [from, until]: readonly [from: number, until: number]): void {
  const time = timeOf(policy.store)
  if (time >= from && time < until) return
  policy.compiled = compiledAt(policy.limit, time)
  policy.cache = undefined
}

/** The charges of each version of the package. */
export const CHARGE: unique symbol = Symbol.for('sluice.Charge')

/**
 * A charge: limit, key and cost on the way into a store, and the store's verdict on the way out.
 * @example see `docs/extending/store.md#a-wrapper-store`
 */
export class Charge implements LimitStatus {
  readonly limit: Limit
  readonly limiter: string
  readonly key: string
  readonly cost: number
  allowed: boolean
  remaining: number
  /** Written when the decision is made, from `remaining`. A store does not write it. */
  used: number
  retryAfter: number
  resetAfter: number
  delay: number
  readonly #policy: Policy
  #at = 0
  #charged = 0
  #lockedFor = 0

  constructor(policy: Policy, key: string, cost: number) {
    if (policy.compiled.validity !== undefined) renew(policy, policy.compiled.validity)
    this.limit = policy.limit
    this.limiter = policy.limiter
    this.key = key
    this.cost = cost
    this.allowed = false
    this.remaining = 0
    this.used = 0
    this.retryAfter = 0
    this.resetAfter = 0
    this.delay = 0
    this.#policy = policy
  }

  // On the prototype, so that a logged or serialised decision does not show internals.
  /** The limit as its limiter uses it. */
  get policy(): Policy {
    return this.#policy
  }

  /** The tick of the charge. An adjustment refers to it. */
  get at(): number {
    return this.#at
  }

  /** The units that were charged to the key; 0 if nothing was charged. */
  get charged(): number {
    return this.#charged
  }

  /** Milliseconds until the lock-out of the key ends (`block`); 0 if the key is not locked, or if the store does not say. */
  get lockedFor(): number {
    return this.#lockedFor
  }

  /** Returns the same charge, not decided yet. */
  copy(): Charge {
    return new Charge(this.#policy, this.key, this.cost)
  }

  /** Takes over the verdict that a store has written into a copy. */
  adopt(copy: Charge): void {
    this.allowed = copy.allowed
    this.remaining = copy.remaining
    this.retryAfter = copy.retryAfter
    this.resetAfter = copy.resetAfter
    this.delay = copy.delay
    this.#at = copy.at
    this.#charged = copy.charged
    this.#lockedFor = copy.lockedFor
  }

  /** Derives `used` from what the store has written. */
  countUsed(): void {
    const used = this.#policy.compiled.capacity - this.remaining
    this.used = used > 0 ? used : 0
  }

  /** Written by a store that has kept the charge. */
  markCharged(at: number, units: number): void {
    this.#at = at
    this.#charged = units
  }

  /** Written by a store that has locked the key out. Without it `denyCache` keeps no denial by a limit with `block`. */
  markLocked(ms: number): void {
    this.#lockedFor = ms
  }
}

brand(Charge, CHARGE)

/** Returns true for a charge, also for one of another copy of this version of the package. */
export function isCharge(status: LimitStatus | undefined): status is Charge {
  return hasBrand(status, CHARGE)
}

/** What a store says about itself in messages. It contains no passwords. */
export interface StoreDescription {
  /** The name of the store, such as `'Redis at 127.0.0.1:6379'`. */
  readonly name: string
  /** Why the store cannot answer at present, such as the latest error of its connection. Default: unknown. */
  readonly trouble?: string | undefined
}

interface StoreBase {
  /** The clock option of the store, if it was given. Points in time in headers use this clock, too. */
  readonly clock?: Clock | undefined
  /**
   * Returns the time by which the store decides, in epoch milliseconds, as well as this process knows it. Rules that have an end
   * use it. Default: `clock`, or else a clock of this process.
   */
  now?(): number
  /**
   * Identifies the place in which the store counts: stores that count in the same place have the same object. Two limiters with
   * one name in one place are an error without `shared`. Default: the store itself.
   */
  readonly identity?: object | undefined
  /** True if this store and `other` can decide one transaction together. A store always can with itself. */
  joins?(other: Store): boolean
  /**
   * Returns the name of the part that decides about a key, such as one server of a cluster. Parts fail on their own.
   * Default: the store is one part.
   */
  partOf?(limiter: string, key: string): string
  /** Describes the store for messages, such as those of a guard about an outage. Default: a store without a name. */
  describe?(): StoreDescription
  /**
   * Returns this store with another way to decide when it does not answer. Only a guarded store has this method, and adapters
   * guard no store that has it. A wrapper around a guarded store must have it, too.
   */
  withOutage?(onOutage: Degraded): AsyncStore
}

/** A decision that can be given up before the store has answered. */
export interface Inquiry {
  /** The store writes verdicts into the charges that are here when it answers. They are copies once the decision was given up. */
  readonly charges: readonly Charge[]
  /** Called with the answer of the store. */
  answered(degraded: Degraded | undefined): void
  /** Called when the store has failed. */
  failed(error: unknown): void
}

/** Returns the time by which a store decides, in epoch milliseconds. */
export function timeOf(store: Store): number {
  return store.now === undefined ? microseconds(store.clock ?? steadyClock) / 1000 : store.now()
}

/** A store that decides at once. */
export interface SyncStore extends StoreBase {
  /** Marks a store that returns values, not promises. */
  readonly sync: true
  /** Decides charges, all or nothing, and writes each verdict into its charge. */
  take(charges: readonly Charge[], mode: DecisionMode, fresh?: boolean): Degraded | undefined
  /** Adds `units[i]` to the key of `charges[i]`, past any limit. Negative units are refunded. */
  adjust(charges: readonly Charge[], units: readonly number[]): void
  /**
   * Locks the key of each charge out under its limit, as a denial by a limit with `block` does, for milliseconds from 0. `'set'` with 0
   * ends a lock-out. Optional: without it `block` and `pause` throw `NOT_SUPPORTED`.
   */
  lock?(charges: readonly Charge[], ms: number, mode: LockMode): void
  /** Deletes the state of a key under every limit of a limiter. What was charged before is not refunded later. */
  forget(limiter: string, key: string): void
  /** Releases the resources of the store, such as timers. A client that was passed to the store stays open. */
  close(): void
}

/**
 * A store that returns promises. It rejects with a `SluiceError` of code `STORE_FAILED`, or with any other error, when it could
 * not decide; `guard` counts these as an outage. It rejects with another code when the request was wrong.
 */
export interface AsyncStore extends StoreBase {
  /** Marks a store that returns promises. */
  readonly sync: false
  /** Decides as a `SyncStore` does. `fresh`: the answer must be the store's own, and not one that a wrapper remembers. Default false. */
  take(charges: readonly Charge[], mode: DecisionMode, fresh?: boolean): Promise<Degraded | undefined>
  /**
   * Does the same as `take` without a promise, for a guard, and returns true. Returns false, and does nothing, when only `take`
   * can decide about these charges. Optional: it costs less.
   */
  inquire?(inquiry: Inquiry, mode: DecisionMode): boolean
  /**
   * Decides from what a wrapper of the store remembers, without a request, for a guard. Returns false, and does nothing, when the store
   * has to be asked. Optional: such an answer says nothing about the health of the store, and needs no deadline.
   */
  recall?(charges: readonly Charge[]): boolean
  /** Adds `units[i]` to the key of `charges[i]`, past any limit. Negative units are refunded. */
  adjust(charges: readonly Charge[], units: readonly number[]): Promise<void>
  /** Locks the key of each charge out under its limit, as the `lock` of a `SyncStore` does. Optional. */
  lock?(charges: readonly Charge[], ms: number, mode: LockMode): Promise<void>
  /** Deletes the state of a key under every limit of a limiter. What was charged before is not refunded later. */
  forget(limiter: string, key: string): Promise<void>
  /** Releases the resources of the store, such as timers. A client that was passed to the store stays open. */
  close(): Promise<void>
}

/**
 * The contract of a store. The store owns the clock and reads it once per `take`.
 * @example see `docs/extending/store.md#a-wrapper-store`
 */
export type Store = SyncStore | AsyncStore
