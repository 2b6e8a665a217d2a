import type { Duration } from '../../engine/limit.ts'
import { warnIfShort } from '../../engine/limit.ts'
import { type Clock, microseconds, steadyClock } from '../../util/clock.ts'
import { knownOptions, milliseconds, refuse, wholeNumber } from '../../util/validate.ts'
import {
  around,
  assertStore,
  type AsyncStore,
  type Deciding,
  denyCaches,
  isDeciding,
  type LimiterKey,
  type Operation,
  type Renewing,
  type Reply,
  replyAfter,
  start,
  type Store,
  type SyncStore,
} from '../store.ts'
import { Changes } from './changes.ts'
import { Denials } from './denials.ts'

/** Options of `denyCache`. */
export interface DenyCacheOptions {
  /**
   * The most denials that are cached, from 2 to 16,000,000. A denial is for one combination of keys, limits and costs. If there are more, the cache
   * forgets the older half, and the store is asked about them again. A denial by one limit takes about 400 bytes. Default 100,000.
   */
  readonly maxKeys?: number
  /**
   * How long a denial is cached before the store is asked again. So changes that this process does not see, such as those of other processes or of the
   * server's clock, take effect within this time. Default `'1s'`.
   */
  readonly maxAge?: Duration
}

/** Two `Map`s with half of the keys each: see `MOST_KEYS` of the memory store. */
const MOST_KEYS = 16_000_000

/**
 * Wraps a store so that repeated requests of a denied key are denied in this process, without a round trip. A denial is cached for
 * its `retryAfter`, and for at most `maxAge`. Refunds, settlements, resets and changed limits that pass through this store end a cached denial at
 * once. Changes of other processes take effect within `maxAge`. So does a limit that changes while requests under both of its versions are under way.
 * `retryAfter` and `resetAfter` of a cached denial count down.
 *
 * Create one for a store and pass it to all limiters, with the guard around it: `guard(denyCache(redisStore(client)))`. A store that answers at once,
 * such as `memoryStore()`, is returned unchanged. Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
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
  if (store.sync) return store
  const { run, close } = new DenyCache(store, maxKeys, age * 1000)
  const made = around(store, { run, close })
  denyCaches.add(made)
  return made
}

class DenyCache {
  readonly #inner: AsyncStore
  readonly #time: Clock
  readonly #changes = new Changes()
  readonly #denials: Denials

  constructor(inner: AsyncStore, maxKeys: number, maxAge: number) {
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
      if (operation.kind === 'consume') this.#inner.recall?.(operation.charges)
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
    /** Set when the decision was given up. Until the store replies, it may refund the charges. */
    let end: (() => void) | undefined
    let isOver = false
    const over = replyAfter(() => {
      isOver = true
      end?.()
    }, reply)
    const giveUp = start(this.#inner, operation, {
      answered: (by) => {
        // A decision that was made without the store says nothing about the store.
        if (by === undefined && end === undefined)
          this.#denials.learn(charges, sent, counts, () => microseconds(this.#time))
        over.answered(by)
      },
      failed: over.failed,
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

  /** Runs an operation that may end denials. */
  #change(operation: Exclude<Operation, Deciding | Renewing>, reply: Reply): undefined {
    const end = this.#changes.begin(changedBy(operation))
    start(this.#inner, operation, replyAfter(end, reply))
  }
}

function changedBy(operation: Exclude<Operation, Deciding | Renewing>): readonly LimiterKey[] {
  if (operation.kind === 'forget') return [operation]
  if (operation.kind === 'lock') return operation.charges
  return operation.charges.filter((_, i) => operation.units[i] !== 0)
}
