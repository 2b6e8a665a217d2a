import type { Duration } from '../../limits/limit.ts'
import { warnIfShort } from '../../limits/limit.ts'
import { type Clock, microseconds, steadyClock } from '../../util/clock.ts'
import { brand } from '../../util/copies.ts'
import { knownOptions, milliseconds, refuse, wholeNumber } from '../../util/validate.ts'
import { assertStore, STORE } from '../assert-store.ts'
import type { LockMode } from '../../engine/adjust.ts'
import {
  type AsyncStore,
  type Charge,
  type DecisionMode,
  type Degraded,
  type Store,
  type StoreDescription,
  type SyncStore,
  timeOf,
} from '../store.ts'
import { Denials } from './denials.ts'

/** Options of `denyCache`. */
export interface DenyCacheOptions {
  /**
   * The most denied keys that are cached for each limit, from 2 to 16,000,000. Beyond it, the cache forgets the older half, and asks the
   * store about them again. A key takes about 400 bytes. Default 100,000.
   */
  readonly maxKeys?: number
  /**
   * How long a denial is cached before the store is asked again. It bounds the effect of changes that this process does not see: by other
   * processes, or to the server's clock. Default `'1s'`.
   */
  readonly maxAge?: Duration
}

/** Two `Map`s with half of the keys each: see `MOST_KEYS` of the memory store. */
const MOST_KEYS = 16_000_000

/**
 * Wraps a store so that repeated requests of a denied key are denied in this process, without a round trip. A denial is cached for
 * its `retryAfter`, and for at most `maxAge`. Refunds, settlements, resets and changed limits that pass through this store end it at
 * once. Others, such as those of another process, end it within `maxAge`.
 *
 * A denial by a `strict` limit charges the request, so the store is asked each time, as for `wait`. In a cached denial, `retryAfter` and
 * `resetAfter` count down, and `remaining` can be as old as `maxAge`. So can the `resetAfter` of a bucket with `initial`, because each
 * denial may prolong it.
 *
 * Create one for a store and pass it to all limiters. With a guard, put the guard around it: `guard(denyCache(redisStore(client)))`.
 * Refunds of the guard then end the denials here. In the other order, they last for up to `maxAge` longer.
 *
 * A store that answers at once, such as `memoryStore()`, is returned unchanged.
 *
 * Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example createLimiter({ name: 'api', keyer, limits, store: denyCache(redisStore(client)) })
 */
export function denyCache(store: AsyncStore, options?: DenyCacheOptions): AsyncStore
export function denyCache(store: SyncStore, options?: DenyCacheOptions): SyncStore
export function denyCache(store: Store, options?: DenyCacheOptions): Store
export function denyCache(store: Store, options: DenyCacheOptions = {}): Store {
  assertStore('denyCache', store)
  knownOptions('denyCache', options, ['maxKeys', 'maxAge'])
  const { maxKeys = 100_000, maxAge = '1s' } = options
  if (wholeNumber('maxKeys', maxKeys, 2) > MOST_KEYS)
    refuse('maxKeys', `at most ${MOST_KEYS}, the limit of two Maps`, maxKeys)
  const age = milliseconds('maxAge', maxAge)
  warnIfShort('maxAge', maxAge)
  return store.sync ? store : new DenyCache(store, new Denials(maxKeys, age * 1000))
}

/** An answer from the cache. */
const ANSWERED = Promise.resolve(undefined)

class DenyCache implements AsyncStore {
  readonly sync = false
  readonly clock: Clock | undefined
  readonly identity: object
  readonly partOf?: (limiter: string, key: string) => string
  readonly describe?: () => StoreDescription
  readonly withOutage?: (onOutage: Degraded) => AsyncStore
  readonly lock?: (charges: readonly Charge[], ms: number, mode: LockMode) => Promise<void>
  readonly #inner: AsyncStore
  readonly #time: Clock
  readonly #denials: Denials

  /** @param others the caches around the same guard, each of which decides in its own way in an outage, with the same denials */
  constructor(inner: AsyncStore, denials: Denials, others: Map<AsyncStore, DenyCache> = new Map()) {
    others.set(inner, this)
    this.#inner = inner
    this.clock = inner.clock
    this.identity = inner.identity ?? inner
    if (inner.lock !== undefined)
      this.lock = (charges, ms, mode) => this.#lock(charges, () => inner.lock!(charges, ms, mode))
    if (inner.partOf !== undefined) this.partOf = (limiter, key) => inner.partOf!(limiter, key)
    if (inner.describe !== undefined) this.describe = () => inner.describe!()
    if (inner.withOutage !== undefined) {
      this.withOutage = (onOutage) => {
        const other = inner.withOutage!(onOutage)
        return others.get(other) ?? new DenyCache(other, denials, others)
      }
    }
    this.#time = inner.clock ?? steadyClock
    this.#denials = denials
  }

  now(): number {
    return timeOf(this.#inner)
  }

  joins(other: Store): boolean {
    return other === this
  }

  take(charges: readonly Charge[], mode: DecisionMode, fresh = false): Promise<Degraded | undefined> {
    const now = microseconds(this.#time)
    if (!fresh && this.#denials.answer(charges, now)) return ANSWERED
    // A peek can report what only a request would cause, such as a lock-out. So its denial holds for no other request.
    if (mode === 'peek') return this.#inner.take(charges, mode, fresh)
    return this.#ask(charges, now, fresh)
  }

  recall(charges: readonly Charge[]): boolean {
    return this.#denials.answer(charges, microseconds(this.#time))
  }

  async adjust(charges: readonly Charge[], units: readonly number[]): Promise<void> {
    const changed = charges.filter((_, i) => units[i] !== 0)
    for (const [i, charge] of charges.entries()) if (units[i] !== 0) this.#denials.beginAdjusting(charge, units[i]!)
    try {
      await this.#inner.adjust(charges, units)
    } finally {
      for (const charge of changed) this.#denials.endAdjusting(charge)
    }
  }

  async forget(limiter: string, key: string): Promise<void> {
    this.#denials.beginForgetting(limiter, key)
    try {
      await this.#inner.forget(limiter, key)
    } finally {
      this.#denials.endForgetting(limiter, key)
    }
  }

  /** A lock-out may be shorter than the one before, and it may be longer than what is remembered here says. */
  async #lock(charges: readonly Charge[], work: () => Promise<void>): Promise<void> {
    for (const { policy, key } of charges) this.#denials.beginForgetting(policy.limiter, key)
    try {
      await work()
    } finally {
      for (const { policy, key } of charges) this.#denials.endForgetting(policy.limiter, key)
    }
  }

  async close(): Promise<void> {
    this.#denials.close()
    await this.#inner.close()
  }

  /** Not an async function: each admitted request comes here, and two callbacks cost less. */
  #ask(charges: readonly Charge[], now: number, fresh: boolean): Promise<Degraded | undefined> {
    const asked = this.#denials.send(charges, now)
    const replied = (degraded: Degraded | undefined): Degraded | undefined => {
      this.#denials.receive(asked)
      // A decision that was made without the store says nothing about the store.
      if (degraded === undefined) this.#denials.learn(asked, this.#now)
      return degraded
    }
    const failed = (error: unknown): never => {
      this.#denials.receive(asked)
      throw error
    }
    try {
      return this.#inner.take(charges, 'consume', fresh).then(replied, failed)
    } catch (error) {
      return failed(error)
    }
  }

  readonly #now = (): number => microseconds(this.#time)
}

brand(DenyCache, STORE)
