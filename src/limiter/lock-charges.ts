import { LONGEST_LOCK } from '../limits/block.ts'
import type { Duration } from '../limits/limit.ts'
import { warnIfShort } from '../limits/limit.ts'
import type { LockMode } from '../engine/adjust.ts'
import type { Charge, Store } from '../stores/store.ts'
import { SluiceError } from '../util/errors.ts'
import type { MaybePromise } from '../util/maybe-promise.ts'
import { milliseconds, refuse } from '../util/validate.ts'

/** Returns the milliseconds of a lock-out, from 0. Throws `INVALID_OPTION`. */
export function checkedLength(method: string, duration: Duration): number {
  if (duration === 0) return 0
  const ms = milliseconds(`${method}: duration`, duration)
  if (ms > LONGEST_LOCK) refuse(`${method}: duration`, "at most '36525d', 100 years", duration)
  warnIfShort(`${method}: duration`, duration)
  return ms
}

/** Locks the keys of charges out. Throws `NOT_SUPPORTED`. */
export function lockCharges(store: Store, charges: readonly Charge[], ms: number, mode: LockMode): MaybePromise<void> {
  if (store.lock === undefined) throw notSupported()
  return store.lock(charges, ms, mode) as MaybePromise<void>
}

function notSupported(): SluiceError {
  return new SluiceError(
    'NOT_SUPPORTED',
    'block and pause need a store with the method `lock`. Use a store of sluice, or add `lock` to your store',
  )
}
