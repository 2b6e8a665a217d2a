import type { Store } from '../stores/store.ts'
import { SluiceError } from '../util/errors.ts'
import type { ChargeSource } from './charges.ts'
import { isEqual } from './keyers.ts'

const ONE = { key: 'one key at a time', record: 'one key of one limiter at a time' } as const

/** Throws `STORE_MISMATCH` for a store that cannot write the note of a receipt in the transaction of a settlement. */
export function refuseReceipts({ place: { together, name = 'This store' } }: Store): void {
  if (together !== 'record') return
  throw new SluiceError('STORE_MISMATCH', `${name} decides about ${ONE.record}, and a receipt is kept beside the key.`)
}

/** Throws `STORE_MISMATCH` if the parts of a limiter can have several keys, and the store cannot decide about these in one step. */
export function refuseApart<Input>(sources: readonly ChargeSource<Input>[]): void {
  const first = sources[0]!
  const { together, name = 'this store' } = first.store.place
  if (together === undefined) return
  const isOne = (each: ChargeSource<Input>): boolean =>
    together === 'record' ? each.home === first.home : isEqual(each.keyer, first.keyer)
  if (first.keyer !== undefined && sources.every(isOne)) return
  throw new SluiceError(
    'STORE_MISMATCH',
    `A stack, and a limiter with rules, can have several keys, and ${name} decides about ${ONE[together]}. Use separate limiters, or another store.`,
  )
}
