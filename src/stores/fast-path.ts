import { createOutcome, noEntries } from '../algorithm.ts'
import type { Charge } from '../store.ts'
import type { Table } from './table.ts'

const outcome = createOutcome()

/**
 * The common case in one piece: a single charge on a key that has a slot, written under the same limit, without entries or
 * lock. It does what a `Trial` does, for 105 ns a check on one hot key instead of 150, because the optimiser inlines it
 * whole and no number is boxed on its way from one function to the next.
 *
 * @returns false when the case is another one; then nothing has been done
 */
export function decideAlone(charge: Charge, table: Table, now: number, write: boolean): boolean {
  const { limit, mechanism } = charge.policy
  const { slab } = table
  const slot = table.slotOf(charge.key)
  if (slot === -1 || limit.block !== undefined || slab.wrote(slot) !== mechanism || slab.hasLocks) return false
  const { algorithm, parameters } = mechanism
  if (algorithm.entries === true) return false

  const { perMs } = parameters
  const { cells } = slab
  const offset = slab.offset(slot)
  algorithm.step(
    parameters,
    cells,
    offset,
    perMs === 1000 ? now : Math.floor(now / 1000),
    charge.cost,
    outcome,
    noEntries,
  )
  charge.allowed = outcome.allowed
  charge.remaining = outcome.remaining
  charge.resetAfter = outcome.reset / perMs
  if (outcome.retry > 0) charge.retryAfter = outcome.retry / perMs
  if (outcome.delay > 0) charge.delay = outcome.delay / perMs
  if (!write || charge.cost === 0 || !(outcome.allowed || outcome.persist)) return true

  const { next } = outcome
  for (let i = 0; i < mechanism.blank.length; i++) cells[offset + i] = next[i]!
  slab.remember(slot, now + outcome.reset * (1000 / perMs))
  if (outcome.allowed) charge.receipt(outcome.at, outcome.charged)
  return true
}
