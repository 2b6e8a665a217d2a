export type { Algorithm, OptionField, Outcome, ParameterInput, Parameters } from './algorithms/algorithm.ts'
export type { Edit, Entries } from './algorithms/entries.ts'
export { gcd, rescale } from './algorithms/arithmetic.ts'
export type { Clock } from './util/clock.ts'
export type { Decision } from './limiter/decision.ts'
export type { DecisionEvent } from './limiter/decision.ts'
export type { ThresholdEvent } from './limiter/thresholds.ts'
export { SluiceError, type SluiceErrorCode } from './util/errors.ts'
export { everyone, type Key, type Keyer, keyers, type SyncKeyer } from './limiter/keyers.ts'
export { defineAlgorithm, limit } from './engine/limit.ts'
export { type Growth, lockLength } from './engine/compiled-limit.ts'
export type { CommonOptions, Duration, Limit, LimitInput } from './engine/limit.ts'
export { type ConsumeOptions, createLimiter, type Limiter, stack } from './limiter/limiter.ts'
export type { KeyedLimiter, Penalty } from './limiter/contract.ts'
export type {
  CostFunc,
  LimiterOptions,
  RulesLimiterOptions,
  LimitFunc,
  Limits,
  SyncCostFunc,
  SyncLimiterOptions,
  SyncLimitFunc,
  SyncLimits,
} from './limiter/options.ts'
export * from './engine/factories.ts'
export type { MaybePromise } from './util/maybe-promise.ts'
export type {
  Adjusting,
  AsyncStore,
  Charge,
  Deciding,
  DecisionMode,
  Degraded,
  Forgetting,
  LeaseSettings,
  LimitStatus,
  Locking,
  Operation,
  Place,
  Policy,
  Reply,
  Store,
  StoreClock,
  SyncStore,
} from './stores/store.ts'
export type { LockMode } from './engine/adjust.ts'
export { lease, type LeaseOptions, type LeaseStoreOptions } from './stores/lease.ts'
export { denyCache, type DenyCacheOptions } from './stores/deny-cache/index.ts'
export { guard, type GuardOptions, type StoreChange, type StoreEvent } from './stores/guard/index.ts'
export {
  type DeniedKey,
  topDenied,
  type TopDenied,
  type TopDeniedList,
  type TopDeniedOptions,
} from './metrics/top-denied.ts'
export type { RuleSource, RulesInput } from './limiter/rule-source.ts'
export { type FullTable, memoryStore, type MemoryStoreOptions } from './stores/memory/index.ts'
export {
  type Change,
  type Changes,
  type RowDatabase,
  rowStore,
  type RowStoreOptions,
  type RowWrite,
  type SyncRowDatabase,
} from './stores/rows.ts'
export type { WaitOptions } from './limiter/wait.ts'
