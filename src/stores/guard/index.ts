import { madeOnce, shared } from '../../util/copies.ts'
import type { Duration } from '../../engine/limit.ts'
import { knownOptions, optionalFunction, refuse } from '../../util/validate.ts'
import { checkedMaxKeys } from '../memory/index.ts'
import { assertStore, type AsyncStore, checkedOutage, type Degraded, type Store, type SyncStore } from '../store.ts'
import { atMostAnHour } from '../lease-settings.ts'
import type { Bounds } from './deadline.ts'
import { GuardedStore } from './guarded-store.ts'
import type { StoreState } from './health.ts'
import { Reporter, type StoreChange, type StoreEvent } from './reporter.ts'

export type { StoreChange, StoreEvent, StoreState }

/** The bounds of a deadline that follows the store. */
export interface DeadlineRange {
  /** The shortest deadline. Default `'50ms'`. */
  readonly least?: Duration
  /** The longest one, at most an hour. Default `'1s'`, or `least` if that is longer. */
  readonly most?: Duration
}

/** Options of `guard`. */
export interface GuardOptions {
  /**
   * How long a decision waits for the store, at most an hour. It does not depend on time-outs of the client. With `least` and `most`, it is twice the usual
   * time of an answer (the 95th percentile of the last minute), between these bounds. Default `{ least: '50ms', most: '1s' }`.
   *
   * Before the first answer, and after three seconds without a decision, it is `most`: the client may have to connect. Until 20 answers have come
   * within a minute, it is ten times the slowest. A duration is a fixed deadline.
   */
  readonly deadline?: Duration | DeadlineRange
  /**
   * How a limiter decides while the store does not answer. Default `'local'`.
   * - `'local'`: by the same limits, counted in this process.
   * - `'open'`: admits every request and counts none.
   * - `'closed'`: denies every request. Adapters answer 503 with a `Retry-After`.
   */
  readonly onOutage?: Degraded
  /**
   * The part of each quota that this process admits under `'local'`, from 0 to 1. With several processes, use 1 divided by their number,
   * so that together they admit one quota during an outage. 0 denies, as `'closed'` does. Default 1.
   */
  readonly localShare?: number
  /** The most keys that each limit stores under `'local'`, as in `memoryStore`. Default: a million. */
  readonly maxKeys?: number
  /**
   * Called when the guard stops asking the store, or a part of it, and when it asks again. If it throws, or returns a promise that
   * rejects, the error becomes a warning.
   */
  readonly onChange?: (change: StoreChange) => unknown
}

const OPTIONS = ['deadline', 'onOutage', 'localShare', 'maxKeys', 'onChange']

/**
 * Returns a store that decides within a deadline, even if the given store does not answer. After three failures or late answers in a
 * row, or one before the first answer, it sends only one probe at a time, at most every 250 ms, until the store answers a probe in time. So a
 * request waits for at most `deadline.most`, and after three requests have waited, no other request waits. `decision.degraded` says how a decision
 * was made without the store.
 *
 * A late answer changes no decision, and its charge is refunded. Refunds and settlements of charges in the store are made when the store
 * answers again. Those of up to 10,000 charges are kept. `reset` rejects with `STORE_FAILED` if the store does not confirm it. If another process has
 * locked a key, or its row cannot be read, only decisions about this key are made without the store.
 *
 * A store that decides at once, such as `sqliteStore`, cannot be interrupted, so it must keep a deadline itself. A store that cannot fail, such as
 * `memoryStore()`, is returned unchanged. Throws `INVALID_OPTION` or `UNKNOWN_OPTION`, also for a store that is already guarded.
 * @example createLimiter({ keyer, limits, store: guard(redisStore(redis), { deadline: '100ms', localShare: 1 / 8 }) })
 */
export function guard(store: SyncStore, options?: GuardOptions): SyncStore
export function guard(store: AsyncStore, options?: GuardOptions): AsyncStore
export function guard(store: Store, options?: GuardOptions): Store
export function guard(store: Store, options: GuardOptions = {}): Store {
  options = knownOptions('guard', options, OPTIONS)
  const { deadline = {}, onOutage = 'local', localShare = 1, maxKeys = 1_000_000, onChange } = options
  assertStore('store', store)
  if (store instanceof GuardedStore || (store.answersAlways && !store.sync))
    refuse('store', 'a store that is not guarded yet', store)
  optionalFunction('onChange', onChange)
  const checked = {
    deadline: checkedDeadline(deadline),
    localShare: share(localShare),
    maxKeys: checkedMaxKeys(maxKeys),
    onOutage: checkedOutage(onOutage),
  }
  if (store.answersAlways) return store
  return new GuardedStore(store, checked, new Reporter(store, onChange)) as Store
}

/** The guards that adapters have made, by the store in each. */
const guards = shared('guards', () => new WeakMap<Store, Store>())

/** Returns the guard of a store, with the default options: the same one for each user of the store. */
export function guardedOnce(inner: Store): Store {
  return madeOnce(guards, inner, () => guard(inner))
}

function checkedDeadline(given: unknown): Bounds {
  if (typeof given !== 'object' || given === null) {
    const ms = atMostAnHour('deadline', given)
    return { least: ms, most: ms }
  }
  const range = knownOptions('deadline', given as DeadlineRange, ['least', 'most'])
  const { least: shortest = '50ms', most: longest } = range
  const least = atMostAnHour('deadline.least', shortest)
  const most = longest === undefined ? Math.max(1000, least) : atMostAnHour('deadline.most', longest)
  return least <= most ? { least, most } : refuse('deadline.most', 'at least `deadline.least`', longest)
}

function share(given: unknown): number {
  if (typeof given === 'number' && given >= 0 && given <= 1) return given
  return refuse('localShare', 'a number from 0 to 1', given)
}
