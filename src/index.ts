export {
  type Algorithm,
  type Edit,
  type Entries,
  gcd,
  type Outcome,
  type Parameters,
  type PlanInput,
  rescale,
} from './algorithm.ts'
export type { Clock } from './clock.ts'
export type { Decision } from './decision.ts'
export { SluiceError, type SluiceErrorCode } from './errors.ts'
export { everyone, type Key, type Keyer, keyers, type SyncKeyer } from './keyers.ts'
export { defineAlgorithm, limit } from './limit.ts'
export type { CommonOptions, Duration, Limit, LimitInput } from './limit.ts'
export { type CheckOptions, createLimiter, type Limiter, stack } from './limiter.ts'
export type {
  CostFunc,
  LimiterOptions,
  LimitFunc,
  Limits,
  SyncCostFunc,
  SyncLimiterOptions,
  SyncLimitFunc,
  SyncLimits,
} from './limiter-options.ts'
export {
  exponential,
  fixedWindow,
  gcra,
  leakyBucket,
  perDay,
  perHour,
  perMinute,
  perSecond,
  quotaLinear,
  slidingWindowBuckets,
  slidingWindowCounter,
  slidingWindowLog,
  spacing,
  tokenBucket,
} from './limits.ts'
export type {
  FixedWindowOptions,
  GcraOptions,
  LeakyBucketOptions,
  QuotaOptions,
  SlidingWindowBucketsOptions,
  TokenBucketOptions,
} from './limits.ts'
export type { MaybePromise } from './maybe-promise.ts'
export type { AsyncStore, Charge, Degraded, LimitStatus, Policy, Store, SyncStore, TakeMode } from './store.ts'
export { type FullTable, memoryStore, type MemoryStoreOptions } from './stores/memory.ts'
export type { WaitOptions } from './waiter.ts'
