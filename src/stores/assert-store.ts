import { refuseOtherVersion } from '../util/copies.ts'
import { refuse } from '../util/validate.ts'
import type { Store } from './store.ts'

/** The stores of each version of the package. */
export const STORE: unique symbol = Symbol.for('sluice.Store')

/** Throws `INVALID_OPTION` for anything but a store, and `VERSION_MISMATCH` for a store of another version of the package. */
export function assertStore(option: string, given: unknown): void {
  if (typeof (given as Partial<Store> | null | undefined)?.take !== 'function')
    refuse(option, 'a store such as memoryStore() or redisStore(client)', given)
  refuseOtherVersion(option, given, STORE)
}
