import type { Duration } from '../../engine/limit.ts'
import { warnIfShort } from '../../engine/limit.ts'
import { type Clock, microseconds, steadyClock } from '../../util/clock.ts'
import { brand } from '../../util/copies.ts'
import { knownOptions, milliseconds, refuse, wholeNumber } from '../../util/validate.ts'
import {
  assertStore,
  type AsyncStore,
  type Deciding,
  denyCaches,
  isDeciding,
  type Operation,
  type Place,
  type Renewing,
  type Reply,
  replyAfter,
  start,
  STORE,
  type Store,
  type StoreClock,
  type SyncStore,
} from '../store.ts'
import { Changes, type Spot } from './changes.ts'
import { Denials } from './denials.ts'

/** Options of `denyCache`. */
export interface DenyCacheOptions {
  /**
   * The most denials that are cached, from 2 to 16,000,000. A denial is that of one request: its keys, limits and costs. Beyond it, the cache
   * forgets the older half, and asks the store about them again. A denial by one limit takes about 400 bytes. Default 100,000.
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
 * once. Others, such as those of another process, end it within `maxAge`. So does a limit that changes while requests under both of its versions
 * are on their way.
 *
 * A denial by a `strict` limit charges the request, so the store is asked each time, as for `wait`. A limit with `block` that admitted may lock
 * the key at the next request once the key has less, so a charge of that key ends the denial, too. In a cached denial, `retryAfter` and
 * `resetAfter` count down, and `remaining` can be as old as `maxAge`, as can all that it says of limits that admitted. So can the figures of a
 * bucket with `initial`, because a denial may prolong them. A cached denial leaves the store as it is, so a state of a changed limit is converted
 * by the next request that reaches the store.
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
  return store.sync ? store : new DenyCache(store, maxKeys, age * 1000)
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
  readonly #changes = new Changes()
  readonly #denials: Denials

  constructor(inner: AsyncStore, maxKeys: number, maxAge: number) {
    this.place = inner.place
    this.clock = inner.clock
    this.answersAlways = inner.answersAlways
    this.recall = inner.recall
    this.ready = inner.ready
    this.wrappers = inner.wrappers
    brand(DenyCache, STORE)
    denyCaches.add(this)
    this.#inner = inner
    this.#time = inner.clock.given ? inner.clock : steadyClock
    this.#denials = new Denials(this.#changes, maxKeys, maxAge)
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
    return operation.kind === 'peek' ? start(this.#inner, operation, reply) : this.#ask(operation, now, reply)
  }

  readonly close = async (): Promise<void> => {
    this.#denials.close()
    await this.#inner.close()
  }

  #ask(operation: Deciding, sent: number, reply: Reply): (() => void) | undefined {
    const { charges } = operation
    this.#changes.note(charges)
    const counts = charges.map((charge) => this.#changes.at(charge))
    /** Set when the decision was given up. The store refunds what it admits until it replies. */
    let end: (() => void) | undefined
    let isOver = false
    const giveUp = start(this.#inner, operation, {
      answered: (by) => {
        isOver = true
        end?.()
        // A decision that was made without the store says nothing about the store.
        if (by === undefined && end === undefined)
          this.#denials.learn(charges, sent, counts, () => microseconds(this.#time))
        reply.answered(by)
      },
      failed: (error) => {
        isOver = true
        end?.()
        reply.failed(error)
      },
    })
    return (
      giveUp &&
      (() => {
        if (isOver || end !== undefined) return
        end = this.#changes.begin(charges)
        giveUp()
      })
    )
  }

  /** An operation that may lift denials. */
  #change(operation: Exclude<Operation, Deciding | Renewing>, reply: Reply): undefined {
    const end = this.#changes.begin(changedBy(operation))
    start(this.#inner, operation, replyAfter(end, reply))
  }
}

function changedBy(operation: Exclude<Operation, Deciding | Renewing>): readonly Spot[] {
  if (operation.kind === 'forget') return [operation]
  if (operation.kind === 'lock') return operation.charges
  return operation.charges.filter((_, i) => operation.units[i] !== 0)
}
