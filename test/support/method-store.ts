import {
  type AsyncStore,
  type Charge,
  copiesOf,
  type DecisionMode,
  type Degraded,
  isDeciding,
  type Operation,
  perform,
  type Renewing,
  type Store,
  storeClock,
  type SyncStore,
} from '../../src/stores/store.ts'
import type { LockMode } from '../../src/engine/adjust.ts'
import { promisedStore } from '../../src/testing/later-store.ts'

/** A store as methods that return promises, one for each kind of operation. It is easy to change one of them. */
export interface Methods {
  take(charges: readonly Charge[], mode: DecisionMode, fresh?: boolean): Promise<Degraded | undefined>
  adjust(charges: readonly Charge[], units: readonly number[]): Promise<void>
  lock(charges: readonly Charge[], ms: number, mode: LockMode): Promise<void>
  forget(limiter: string, key: string): Promise<void>
  renew?(operation: Renewing): Promise<void>
}

/** The same, at once. */
export interface SyncMethods {
  take(charges: readonly Charge[], mode: DecisionMode, fresh?: boolean): Degraded | undefined
  adjust(charges: readonly Charge[], units: readonly number[]): void
  lock(charges: readonly Charge[], ms: number, mode: LockMode): void
  forget(limiter: string, key: string): void
}

/** Returns the methods of a store. */
export function methodsOf(store: SyncStore): SyncMethods
export function methodsOf(store: AsyncStore): Methods
export function methodsOf(store: Store): SyncMethods | Methods
export function methodsOf(store: Store): SyncMethods | Methods {
  return {
    take: (charges, kind, fresh = false) => perform(store, { kind, charges, fresh }),
    adjust: (charges, units) => perform(store, { kind: 'adjust', charges, units }),
    lock: (charges, ms, mode) => perform(store, { kind: 'lock', charges, ms, mode }),
    forget: (limiter, key) => perform(store, { kind: 'forget', limiter, key }),
    renew: (operation: Renewing) => perform(store, operation),
  } as SyncMethods | Methods
}

/**
 * Returns a store of methods. `take` gets copies of the charges, so that a decision can be given up: what it has charged is then refunded by
 * `adjust`. `others` are further members of the store, such as `place` or `clock`. Default: a place and a clock of its own.
 */
export function methodStore(methods: Methods, others: Partial<AsyncStore> = {}): AsyncStore {
  async function decide(operation: Operation, isGivenUp: () => boolean): Promise<Degraded | undefined> {
    if (operation.kind === 'adjust') await methods.adjust(operation.charges, operation.units)
    else if (operation.kind === 'lock') await methods.lock(operation.charges, operation.ms, operation.mode)
    else if (operation.kind === 'renew') await methods.renew?.(operation)
    else if (operation.kind === 'forget') await methods.forget(operation.limiter, operation.key)
    if (!isDeciding(operation)) return undefined
    const { kind, charges, fresh } = operation
    const copies = copiesOf(charges)
    const by = await methods.take(copies, kind, fresh)
    const charged = copies.filter((copy) => copy.charged !== 0)
    if (!isGivenUp()) for (const [i, charge] of charges.entries()) charge.adopt(copies[i]!)
    else if (charged.length > 0) {
      const units = charged.map((copy) => -copy.charged)
      await methods.adjust(charged, units).catch(() => undefined)
    }
    return by
  }

  return promisedStore(decide, { clock: storeClock(undefined), close: async () => undefined, ...others })
}
