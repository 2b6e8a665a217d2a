/**
 * For authors of algorithms and stores. `docs/extending/algorithm.md` and `docs/extending/store.md` have complete examples. Use
 * `sluice/adapter` for adapters. `sluice/testing` has the test suites for all three.
 * @module
 */

export type { Algorithm, Cell, LimitParameters, OptionField, Outcome, ParameterInput } from './algorithms/algorithm.ts'
export type { Edit, Entries } from './algorithms/entries.ts'
export { gcd, rescale } from './algorithms/arithmetic.ts'
export type { LockMode, Renewed } from './engine/adjust.ts'
export { type Growth, lockLength } from './engine/compiled-limit.ts'
export { defineAlgorithm } from './engine/all-algorithms.ts'
export {
  BusyRows,
  type Change,
  type Changes,
  type RowDatabase,
  type RowWrite,
  type SyncRowDatabase,
  type TransactionInfo,
} from './stores/row-database.ts'
export { rowStore, type RowStoreOptions } from './stores/rows.ts'
export type { SwapDatabase, SwapWrite, VersionedRow } from './stores/swap.ts'
export type {
  MessageCharge,
  MessageFailure,
  MessageOperation,
  MessagePolicy,
  OperationAnswer,
  StoreAnswer,
  StoreAnswers,
  StoreMessage,
  Verdict,
} from './stores/remote/message.ts'
export { remoteStore, type RemoteStoreOptions, type SendMessage } from './stores/remote/remote.ts'
export { serveStore } from './stores/remote/serve.ts'
export type {
  Adjusting,
  Charge,
  Deciding,
  DecisionMode,
  Forgetting,
  Locking,
  MessageReceipt,
  Operation,
  Place,
  Policy,
  Renewing,
  Reply,
  StoreClock,
  Wrappers,
} from './stores/store.ts'
export { wrappers } from './stores/wrappers.ts'
