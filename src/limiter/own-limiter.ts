import type { Store } from '../stores/store.ts'
import { hasBrand, refuseOtherVersion } from '../util/copies.ts'
import type { ChargeSource } from './charge-source.ts'
import type { Limiter } from './contract.ts'

/** The limiters of each version of the package. */
export const LIMITER: unique symbol = Symbol.for('sluice.Limiter')

/** A limiter of `createLimiter` or `stack`: of this copy of the package, or of another one. */
export interface OwnLimiter<Input> extends Limiter<Input> {
  /** The names of the parts, joined. */
  readonly name: string
  readonly store: Store
  /** The parts that make the charges. */
  readonly sources: readonly ChargeSource<Input>[]
  /** Returns a limiter with the same limits, with each part changed. It is made once for each `id`. */
  variant(id: unknown, store: Store, change: (source: ChargeSource<Input>) => ChargeSource<Input>): OwnLimiter<Input>
}

/** Returns false for a limiter that another program implements. Throws `VERSION_MISMATCH` for one of another version of the package. */
export function isOwn<Input>(limiter: Limiter<Input>): limiter is OwnLimiter<Input> {
  refuseOtherVersion('limiter', limiter, LIMITER)
  return hasBrand(limiter, LIMITER)
}

/** Returns the parts of a limiter that was made by `createLimiter` or `stack`; nothing for any other limiter. */
export function chargeSourcesOf<Input>(limiter: Limiter<Input>): readonly ChargeSource<Input>[] {
  return isOwn(limiter) ? limiter.sources : []
}
