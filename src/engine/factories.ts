import type { Algorithm } from '../algorithms/algorithm.ts'
import * as algorithms from '../algorithms/registry.ts'
import { type CommonOptions, type Duration, type Limit, limitOf, warnIfShort } from './limit.ts'
import { knownOptions, milliseconds, needsCall } from '../util/validate.ts'

/** Options of a limit: units per window, and the options of every limit. */
export interface QuotaOptions extends CommonOptions {
  /** Units per window: a whole number from 0. A quota of 0 admits nothing. */
  readonly quota: number
  /** Milliseconds, or a string such as `'1m'`. */
  readonly window: Duration
}

// `npm run record` writes the following part from the algorithms.

/** Options of `gcra`. */
export interface GcraOptions extends QuotaOptions {
  /** The most units that can be used back to back. 0 admits nothing. Default: `quota`. */
  readonly burst?: number
}

/**
 * Allows `quota` per `window`, evenly: each unit returns after `window / quota`. Up to `burst` units can be used back to back.
 * The default choice: two numbers of state, no window edges, an exact wait.
 * At most `burst + quota - 1` units pass in any window: `2 * quota - 1` by default.
 * Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example gcra({ quota: 100, window: '1m', burst: 20 })
 */
export const gcra: (options: GcraOptions) => Limit = /* @__PURE__ */ factoryOf(algorithms.gcra)

/** Options of `tokenBucket`. */
export interface TokenBucketOptions extends QuotaOptions {
  /** The most tokens in the bucket. 0 admits nothing. Default: `quota`. */
  readonly capacity?: number
  /** Whether tokens return continuously, or `quota` tokens at once after each window. Default: `'greedy'`. */
  readonly refill?: 'greedy' | 'interval'
  /** The tokens that a new key starts with, at most `capacity`. Default: `capacity`. */
  readonly initial?: number
}

/**
 * A bucket of `capacity` tokens. A request takes one token, and `quota` tokens return per `window`. At most `capacity + quota - 1` units
 * pass in any window. Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example tokenBucket({ quota: 10, window: '1s', capacity: 50 })
 * @example tokenBucket({ quota: 500, window: '1h', refill: 'interval', initial: 100 })
 */
export const tokenBucket: (options: TokenBucketOptions) => Limit = /* @__PURE__ */ factoryOf(algorithms.tokenBucket)

/** Options of `leakyBucket`. */
export interface LeakyBucketOptions extends QuotaOptions {
  /** The length of the queue. 0 admits nothing. Default: `quota`. */
  readonly capacity?: number
  /** Whether admitted requests wait for their turn, as `delay` says. Default: `true`. */
  readonly shape?: boolean
}

/**
 * A queue that empties evenly, one request per `window / quota`. A request that does not fit is denied. At most `capacity + quota - 1`
 * requests are admitted in any window. Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example leakyBucket({ quota: 5, window: '1s', capacity: 20 })
 */
export const leakyBucket: (options: LeakyBucketOptions) => Limit = /* @__PURE__ */ factoryOf(algorithms.leakyBucket)

/** Options of `fixedWindow`. */
export interface FixedWindowOptions extends Omit<QuotaOptions, 'window'> {
  /** Milliseconds, or a string such as `'1m'`. With `anchor: 'calendar'`: `'1d'`, `'1w'`, `'1mo'` or `'1y'`. */
  readonly window: Duration | '1mo' | '1y'
  /**
   * Where windows start: with the first request of a key, at multiples of `window` since 1970 in UTC, or with each day, week (on
   * Monday), month or year of a time zone, whatever its length: a day has 23 or 25 hours where the clocks change. Default: `'first'`.
   */
  readonly anchor?: 'first' | 'clock' | 'calendar'
  /** With `anchor: 'clock'`: how much later than those multiples a window starts. Default: `0`. */
  readonly offset?: Duration
  /** With `anchor: 'calendar'`: an IANA time zone, such as `'Europe/Berlin'`. Default: `'UTC'`. */
  readonly timeZone?: string
}

/**
 * Allows `quota` in each window. Simple and cheap. Up to twice the quota can pass around the edge between two windows.
 * Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example fixedWindow({ quota: 1000, window: '1d', anchor: 'clock' })
 * @example fixedWindow({ quota: 10_000, window: '1mo', anchor: 'calendar', timeZone: 'Europe/Berlin' })
 */
export const fixedWindow: (options: FixedWindowOptions) => Limit = /* @__PURE__ */ factoryOf(algorithms.fixedWindow)

/**
 * Counts two windows on the clock and weights the older one by how much of it still overlaps. Three numbers of state come
 * close to a sliding window. Up to twice the quota can pass in a window, for traffic that is not even. Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example slidingWindowCounter({ quota: 100, window: '1m' })
 */
export const slidingWindowCounter: (options: QuotaOptions) => Limit = /* @__PURE__ */ factoryOf(
  algorithms.slidingWindowCounter,
)

/**
 * Allows `quota` in any window, exactly: it keeps every admitted request until it is `window` old. The quota is at most 100,000.
 * Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example slidingWindowLog({ quota: 5, window: '15m' })
 */
export const slidingWindowLog: (options: QuotaOptions) => Limit = /* @__PURE__ */ factoryOf(algorithms.slidingWindowLog)

/** Options of `slidingWindowBuckets`. */
export interface SlidingWindowBucketsOptions extends QuotaOptions {
  /** The number of sub-windows, at most 100,000. It must divide the window. Default: `10`. */
  readonly buckets?: number
}

/**
 * Counts in sub-windows. Never allows more than `quota` in any window. A unit returns at most one sub-window late.
 * Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example slidingWindowBuckets({ quota: 500, window: '1h', buckets: 60 })
 */
export const slidingWindowBuckets: (options: SlidingWindowBucketsOptions) => Limit = /* @__PURE__ */ factoryOf(
  algorithms.slidingWindowBuckets,
)

/**
 * Tony Finch's hybrid: allows bursts while a window's quota lasts, then an even rate until the quota is back. Its author
 * prefers `gcra`. At most `2 * quota - 1` units pass in any window. Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example quotaLinear({ quota: 100, window: '1m' })
 */
export const quotaLinear: (options: QuotaOptions) => Limit = /* @__PURE__ */ factoryOf(algorithms.quotaLinear)

/**
 * Denies requests while the measured rate, smoothed exponentially over `window`, exceeds `quota`. Up to twice the quota can pass in a
 * window. Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example exponential({ quota: 100, window: '1h', strict: true })
 */
export const exponential: (options: QuotaOptions) => Limit = /* @__PURE__ */ factoryOf(algorithms.exponential)

/** Options of `concurrent`. */
export interface ConcurrentOptions extends Omit<QuotaOptions, 'window'> {
  /** How long a slot is held after it was taken or renewed. Adapters renew it every third of this time. Default: `'1m'`. */
  readonly expiresAfter?: Duration
  /** When a client may ask again: nobody knows when a slot is released. Default: `'1s'`. */
  readonly retryAfter?: Duration
}

/**
 * Allows `quota` requests at the same time. A request takes a slot, which is free again when it is released. Adapters release it when the
 * response has ended. A slot that nobody releases or renews is free after `expiresAfter`, such as that of a process that was killed. The quota is
 * at most 100,000. Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example concurrent({ quota: 10, expiresAfter: '1m' })
 */
export const concurrent: (options: number | ConcurrentOptions) => Limit = /* @__PURE__ */ factoryOf(
  algorithms.concurrent,
)

// End of the part that `npm run record` writes.

/**
 * Requires at least `gap` between two requests: milliseconds, or a text such as `'2s'`. Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example spacing('2s')
 */
export const spacing: (gap: Duration, common?: CommonOptions) => Limit = /* @__PURE__ */ needsCall(function spacing(
  gap: Duration,
  common?: CommonOptions,
): Limit {
  commonOnly('spacing', common)
  const window = milliseconds('gap', gap)
  warnIfShort('gap', gap)
  return limitOf(algorithms.spacing, { ...common, quota: 1, window: `${window}ms` })
}, "spacing('2s')")

/**
 * Allows `quota` per second, with `gcra`: at most `2 * quota - 1` in the first second of a key, then `quota`.
 * Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example perSecond(10)
 */
export const perSecond: (quota: number, common?: CommonOptions) => Limit = /* @__PURE__ */ per('Second', '1s')

/**
 * Allows `quota` per minute, with `gcra`: at most `2 * quota - 1` in the first minute of a key, then `quota`.
 * Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example perMinute(100, { name: 'sustained' })
 */
export const perMinute: (quota: number, common?: CommonOptions) => Limit = /* @__PURE__ */ per('Minute', '1m')

/**
 * Allows `quota` per hour, with `gcra`: at most `2 * quota - 1` in the first hour of a key, then `quota`.
 * Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example perHour(1000)
 */
export const perHour: (quota: number, common?: CommonOptions) => Limit = /* @__PURE__ */ per('Hour', '1h')

/**
 * Allows `quota` per day, with `gcra`: at most `2 * quota - 1` in the first day of a key, then `quota`.
 * Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example perDay(10_000)
 */
export const perDay: (quota: number, common?: CommonOptions) => Limit = /* @__PURE__ */ per('Day', '1d')

/** Returns the factory of the limits of an algorithm. If the window has a default, the factory also takes the quota alone. */
function factoryOf(algorithm: Algorithm): (options: object | number) => Limit {
  const { name, windowOption } = algorithm
  const takesQuota = windowOption !== undefined
  function factory(options: object | number): Limit {
    return limitOf(algorithm, (takesQuota && typeof options === 'number' ? { quota: options } : options) as object)
  }
  return named(name, factory, takesQuota ? `${name}(10)` : `${name}({ quota: 100, window: '1m' })`)
}

/** Gives a function its name, and an example of a call for errors. */
function named<Maker extends object>(name: string, maker: Maker, call: string): Maker {
  return needsCall(Object.defineProperty(maker, 'name', { value: name }), call)
}

function per(unit: string, window: Duration): (quota: number, common?: CommonOptions) => Limit {
  const name = `per${unit}`
  function shorthand(quota: number, common?: CommonOptions): Limit {
    commonOnly(`${name} (short for gcra({ quota, window: '${window}' }))`, common)
    return gcra({ ...common, quota, window })
  }
  return named(name, shorthand, `${name}(10)`)
}

/** Checks the options of a shorthand, which sets all others itself. */
function commonOnly(shorthand: string, given: CommonOptions = {}): void {
  given = knownOptions(shorthand, given, ['name', 'strict', 'block', 'shadow', 'capCost', 'exact', 'notifyAt'])
}
