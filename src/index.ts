/**
 * For users of limits. Authors of algorithms and stores use `sluice/extend`. Authors of adapters use `sluice/adapter`.
 * @module
 */

export * from './engine/factories.ts'
export {
  type BlockOptions,
  type CommonOptions,
  type Duration,
  limit,
  type Limit,
  type LimitInput,
} from './engine/limit.ts'
export type { ConsumeOptions, KeyedLimiter, Limiter, Penalty } from './limiter/contract.ts'
export type { Decision, DecisionEvent } from './limiter/decision.ts'
export { everyone, type Key, type Keyer, keyers, type SyncKeyer } from './limiter/keyers.ts'
export { createLimiter, stack } from './limiter/limiter.ts'
export type { LostSlots, OnSlotLost } from './limiter/lost-slots.ts'
export type { StackedLimiter, StackOptions, SyncStackedLimiter, SyncStackOptions } from './limiter/stack.ts'
export {
  type CostFunc,
  type LimiterOptions,
  type LimitFunc,
  type Limits,
  type RulesLimiterOptions,
  type SyncCostFunc,
  type SyncLimiterOptions,
  type SyncLimitFunc,
  type SyncLimits,
  unlimited,
} from './limiter/options.ts'
export type { RulesInput } from './limiter/rule-source.ts'
export type { ThresholdEvent } from './limiter/thresholds.ts'
export type { WaitOptions } from './limiter/waiting.ts'
export {
  type DeniedKey,
  topDenied,
  type TopDenied,
  type TopDeniedList,
  type TopDeniedOptions,
} from './metrics/top-denied.ts'
export { denyCache, type DenyCacheOptions } from './stores/deny-cache/index.ts'
export {
  type DeadlineRange,
  guard,
  type GuardOptions,
  type StoreChange,
  type StoreEvent,
  type StoreState,
} from './stores/guard/index.ts'
export { lease } from './stores/lease.ts'
export type { LeaseOptions } from './stores/lease-settings.ts'
export { type FullTable, memoryStore, type MemoryStoreOptions } from './stores/memory/index.ts'
export type { AsyncStore, Degraded, LimitStatus, Store, SyncStore } from './stores/store.ts'
export type { Clock } from './util/clock.ts'
export { SluiceError, type SluiceErrorCode } from './util/errors.ts'
export type { MaybePromise } from './util/maybe-promise.ts'
