import type { Duration } from '../../engine/limit.ts'
import { warnIfShort } from '../../engine/limit.ts'
import { type Clock, microseconds, steadyClock } from '../../util/clock.ts'
import { brand } from '../../util/copies.ts'
import { knownOptions, milliseconds, refuse, wholeNumber } from '../../util/validate.ts'
import {
  assertStore,
  type AsyncStore,
  type Deciding,
  type Degraded,
  isDeciding,
  noteDenyCache,
  type Operation,
  type Place,
  type Renewing,
  type Reply,
  start,
  STORE,
  type Store,
  type StoreClock,
  type SyncStore,
} from '../store.ts'
import { type Asked, Denials } from './denials.ts'

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
  options = knownOptions('denyCache', options, ['maxKeys', 'maxAge'])
  const { maxKeys = 100_000, maxAge = '1s' } = options
  if (wholeNumber('maxKeys', maxKeys, 2) > MOST_KEYS)
    refuse('maxKeys', `at most ${MOST_KEYS}, the limit of two Maps`, maxKeys)
  const age = milliseconds('maxAge', maxAge)
  warnIfShort('maxAge', maxAge)
  return store.sync ? store : new DenyCache(store, new Denials(maxKeys, age * 1000))
}

class DenyCache implements AsyncStore {
  readonly sync = false
  readonly place: Place
  readonly clock: StoreClock
  readonly answersAlways: boolean
  readonly recall: Store['recall']
  readonly ready: Store['ready']
  readonly wrappers: Store['wrappers']
  readonly #inner: AsyncStore
  readonly #time: Clock
  readonly #denials: Denials

  constructor(inner: AsyncStore, denials: Denials) {
    this.place = inner.place
    this.clock = inner.clock
    this.answersAlways = inner.answersAlways
    this.recall = inner.recall
    this.ready = inner.ready
    this.wrappers = inner.wrappers
    noteDenyCache(this)
    this.#inner = inner
    this.#time = inner.clock.given ? inner.clock : steadyClock
    this.#denials = denials
  }

  readonly run = (operation: Operation, reply: Reply): (() => void) | undefined => {
    // A renewal changes no verdict.
    if (operation.kind === 'renew') return start(this.#inner, operation, reply)
    if (!isDeciding(operation)) return this.#change(operation, reply)
    const now = microseconds(this.#time)
    if (!operation.fresh && this.#denials.answer(operation.charges, now)) {
      // The limiter has asked for leased units first, except behind a wrapper that has no `recall`.
      if (operation.kind === 'consume') this.recall?.(operation.charges)
      reply.answered('remembered')
      return undefined
    }
    // A peek can report what only a request would cause, such as a lock-out. So its denial holds for no other request.
    if (operation.kind === 'peek') return start(this.#inner, operation, reply)
    const asked = new AskedDecision(this.#denials, this.#denials.send(operation.charges, now), this.#time, reply)
    const giveUp = start(this.#inner, operation, asked)
    return giveUp && (() => asked.giveUp(giveUp))
  }

  readonly close = async (): Promise<void> => {
    this.#denials.close()
    await this.#inner.close()
  }

  #change(operation: Exclude<Operation, Deciding | Renewing>, reply: Reply): undefined {
    const end = this.#begin(operation)
    start(this.#inner, operation, {
      answered(by) {
        end()
        reply.answered(by)
      },
      failed(error) {
        end()
        reply.failed(error)
      },
    })
  }

  /** An operation that changes states begins. Returns a function for its end. */
  #begin(operation: Exclude<Operation, Deciding | Renewing>): () => void {
    const denials = this.#denials
    if (operation.kind === 'forget') {
      const { limiter, key } = operation
      denials.beginForgetting(limiter, key)
      return () => denials.endForgetting(limiter, key)
    }
    const { charges } = operation
    if (operation.kind === 'adjust') {
      const changed = charges.filter((_, i) => operation.units[i] !== 0)
      for (const [i, charge] of charges.entries())
        if (operation.units[i] !== 0) denials.beginAdjusting(charge, operation.units[i]!)
      return () => changed.forEach((charge) => denials.endAdjusting(charge))
    }
    // A lock-out may be shorter than the one before, and it may be longer than what is remembered here says.
    for (const { policy, key } of charges) denials.beginForgetting(policy.limiter, key)
    return () => charges.forEach(({ policy, key }) => denials.endForgetting(policy.limiter, key))
  }
}

brand(DenyCache, STORE)

/** A decision that the store is asked for. */
class AskedDecision implements Reply {
  readonly #denials: Denials
  readonly #asked: Asked
  readonly #time: Clock
  readonly #reply: Reply
  #isGivenUp = false
  #isOver = false

  constructor(denials: Denials, asked: Asked, time: Clock, reply: Reply) {
    this.#denials = denials
    this.#asked = asked
    this.#time = time
    this.#reply = reply
  }

  /** The store refunds what it admits, which lifts denials. */
  giveUp(inside: () => void): void {
    if (this.#isOver || this.#isGivenUp) return
    this.#isGivenUp = true
    for (const charge of this.#asked.charges) this.#denials.beginAdjusting(charge, -charge.cost)
    inside()
  }

  answered(by?: Degraded | 'remembered'): void {
    if (this.#isOver) return
    this.#end()
    // A decision that was made without the store says nothing about the store.
    if (by === undefined && !this.#isGivenUp) this.#denials.learn(this.#asked, () => microseconds(this.#time))
    this.#reply.answered(by)
  }

  failed(error: unknown): void {
    if (this.#isOver) return
    this.#end()
    this.#reply.failed(error)
  }

  #end(): void {
    this.#isOver = true
    this.#denials.receive(this.#asked)
    if (this.#isGivenUp) for (const charge of this.#asked.charges) this.#denials.endAdjusting(charge)
  }
}
