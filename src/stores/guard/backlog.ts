import { SluiceError } from '../../util/errors.ts'
import type { Charge } from '../store.ts'
import { keptCharge } from './kept-charge.ts'

/** The most charges whose adjustments are kept. One takes about 300 bytes, its key included. */
const MOST = 10_000

/** The charges of one decision and the units to add to each. */
export interface Adjustment {
  readonly charges: Charge[]
  readonly units: number[]
}

/** Keeps refunds and settlements of charges that a store has counted, until it answers again. Bounded. */
export class Backlog {
  #kept: Adjustment[] = []
  #charges = 0

  /** Throws `STORE_FAILED` when there is no room. */
  add({ charges, units }: Adjustment): void {
    if (this.#charges + charges.length > MOST) throw full()
    this.#charges += charges.length
    this.#kept.push({ charges: charges.map(keptCharge), units })
  }

  /** Removes and returns the adjustments for which `isDue` returns true, in the order in which they came. */
  drain(isDue: (charges: readonly Charge[]) => boolean): Adjustment[] {
    const due: Adjustment[] = []
    const later: Adjustment[] = []
    for (const each of this.#kept) (isDue(each.charges) ? due : later).push(each)
    for (const { charges } of due) this.#charges -= charges.length
    this.#kept = later
    return due
  }
}

function full(): SluiceError {
  return new SluiceError(
    'STORE_FAILED',
    `The store does not answer, and refunds and settlements of ${MOST} charges are already waiting for it. This one is lost`,
  )
}
