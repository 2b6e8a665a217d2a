import { type CommonOptions, type Duration, type Limit, limit } from './limit.ts'
import { knownOptions, milliseconds } from '../util/validate.ts'

/** Options of a limit: how many units per window, and what every limit may have. */
export interface QuotaOptions extends CommonOptions {
  /** Units per window: a whole number from 1. */
  readonly quota: number
  /** Milliseconds, or a text such as `'1m'`. */
  readonly window: Duration
}

export interface GcraOptions extends QuotaOptions {
  /** How many may come back to back. Default: `quota`. */
  readonly burst?: number
}

/**
 * `quota` per `window`, evenly: each request takes `window / quota` of time, and `burst` may be taken ahead.
 * The algorithm to choose unless you know why not: two numbers of state, no edges, an exact wait.
 * Throws `SluiceError` for a wrong option, as all of these do.
 * @example gcra({ quota: 100, window: '1m', burst: 20 })
 */
export function gcra(options: GcraOptions): Limit {
  return limit({ ...options, algorithm: 'gcra' })
}

export interface TokenBucketOptions extends QuotaOptions {
  /** Tokens the bucket holds. Default: `quota`. */
  readonly capacity?: number
  /** `'greedy'` (default): tokens flow back continuously; `'interval'`: `quota` of them at once every `window`. */
  readonly refill?: 'greedy' | 'interval'
  /** Tokens a new key starts with, from 0 to `capacity`. Default: `capacity`. */
  readonly initial?: number
}

/**
 * A bucket of `capacity` tokens; a request takes one, and `quota` come back per `window`.
 * @example tokenBucket({ quota: 10, window: '1s', capacity: 50 })
 */
export function tokenBucket(options: TokenBucketOptions): Limit {
  return limit({ ...options, algorithm: 'tokenBucket' })
}

export interface LeakyBucketOptions extends QuotaOptions {
  /** Length of the queue. Default: `quota`. */
  readonly capacity?: number
  /** True (default): admitted requests wait their turn (`delay`); false: a meter, nobody waits. */
  readonly shape?: boolean
}

/**
 * A queue that empties evenly, one request per `window / quota`; what does not fit is denied.
 * @example leakyBucket({ quota: 5, window: '1s', capacity: 20 })
 */
export function leakyBucket(options: LeakyBucketOptions): Limit {
  return limit({ ...options, algorithm: 'leakyBucket' })
}

export interface FixedWindowOptions extends QuotaOptions {
  /** `'first'` (default): a window opens with a key's first request; `'clock'`: at multiples of `window` since the epoch. */
  readonly anchor?: 'first' | 'clock'
  /** With `anchor: 'clock'`: how much later than those multiples windows begin. Default 0. */
  readonly offset?: Duration
}

/**
 * `quota` in each window. Simple and cheap; up to twice the quota may pass around the edge between two windows.
 * @example fixedWindow({ quota: 1000, window: '1d', anchor: 'clock' })
 */
export function fixedWindow(options: FixedWindowOptions): Limit {
  return limit({ ...options, algorithm: 'fixedWindow' })
}

/**
 * `quota` in any window, to the request: every admitted one is remembered until it is `window` old.
 * @example slidingWindowLog({ quota: 5, window: '15m' })
 */
export function slidingWindowLog(options: QuotaOptions): Limit {
  return limit({ ...options, algorithm: 'slidingWindowLog' })
}

/**
 * Two windows on the clock, the older weighted by how much of it still counts: near a sliding window for three numbers.
 * @example slidingWindowCounter({ quota: 100, window: '1m' })
 */
export function slidingWindowCounter(options: QuotaOptions): Limit {
  return limit({ ...options, algorithm: 'slidingWindowCounter' })
}

export interface SlidingWindowBucketsOptions extends QuotaOptions {
  /** Sub-windows; must divide the window. Default 10. */
  readonly buckets?: number
}

/**
 * Counts in sub-windows: never more than `quota` in any window, and a unit returns at most a sub-window late.
 * @example slidingWindowBuckets({ quota: 500, window: '1h', buckets: 60 })
 */
export function slidingWindowBuckets(options: SlidingWindowBucketsOptions): Limit {
  return limit({ ...options, algorithm: 'slidingWindowBuckets' })
}

/**
 * Finch's hybrid: bursts while a window's quota lasts, then smooth until it has recovered. Its author's advice: prefer `gcra`.
 * @example quotaLinear({ quota: 100, window: '1m' })
 */
export function quotaLinear(options: QuotaOptions): Limit {
  return limit({ ...options, algorithm: 'quotaLinear' })
}

/**
 * The measured rate, smoothed exponentially over `window`, may not exceed `quota`.
 * @example exponential({ quota: 100, window: '1h', strict: true })
 */
export function exponential(options: QuotaOptions): Limit {
  return limit({ ...options, algorithm: 'exponential' })
}

/**
 * At least `gap` between two requests.
 * @example spacing('2s')
 */
export function spacing(gap: Duration, common?: CommonOptions): Limit {
  commonOnly('spacing', common)
  return limit({ ...common, algorithm: 'spacing', quota: 1, window: milliseconds('gap', gap) })
}

/**
 * `quota` a second, by `gcra`.
 * @example perSecond(10)
 */
export function perSecond(quota: number, common?: CommonOptions): Limit {
  return per('Second', '1s', quota, common)
}

/**
 * `quota` a minute, by `gcra`.
 * @example perMinute(100, { name: 'sustained' })
 */
export function perMinute(quota: number, common?: CommonOptions): Limit {
  return per('Minute', '1m', quota, common)
}

/**
 * `quota` an hour, by `gcra`.
 * @example perHour(1000)
 */
export function perHour(quota: number, common?: CommonOptions): Limit {
  return per('Hour', '1h', quota, common)
}

/**
 * `quota` a day, by `gcra`.
 * @example perDay(10_000)
 */
export function perDay(quota: number, common?: CommonOptions): Limit {
  return per('Day', '1d', quota, common)
}

function per(unit: string, window: Duration, quota: number, common: CommonOptions | undefined): Limit {
  commonOnly(`per${unit} (short for gcra({ quota, window: '${window}' }))`, common)
  return gcra({ ...common, quota, window })
}

/** A shorthand has said the rest. */
function commonOnly(shorthand: string, given: CommonOptions = {}): void {
  knownOptions(shorthand, given, ['name', 'strict', 'block', 'shadow'])
}
