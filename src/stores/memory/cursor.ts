import { createOutcome, type Outcome } from '../../algorithms/algorithm.ts'
import { noEntries } from '../../algorithms/entries.ts'
import type { CompiledLimit } from '../../engine/compiled-limit.ts'
import { isCharged, judge, report } from '../../engine/decide.ts'
import { isAhead, NOWHERE, ticks } from '../../engine/row.ts'
import type { Charge } from '../store.ts'
import type { Table, Tables } from './tables.ts'

/**
 * The usual case of one charge: its limit wrote the state of its key, or the key is new, and nothing rare is known of it. The state is stepped
 * in its place.
 */
export class Cursor {
  readonly outcome: Outcome = createOutcome()
  table!: Table
  /** The slot of the key; `NOWHERE` for a new key. */
  slot: number = NOWHERE

  /** Steps the state. Returns false, and steps nothing, if a clock that ran ahead wrote it. */
  step(compiled: CompiledLimit, tick: number, cost: number): boolean {
    const { slab } = this.table
    const isNew = this.slot === NOWHERE
    const cells = isNew ? compiled.initialState : slab.cells
    const at = isNew ? 0 : this.slot * slab.stride
    if (isAhead(compiled, cells, at, tick)) return false
    const entries = compiled.hasEntries && !isNew ? slab.entriesOf(this.slot) : noEntries
    compiled.step(compiled.parameters, cells, at, tick, cost, this.outcome, entries)
    return true
  }
}

/**
 * Writes the verdict of each limit into its charge, and no state. Returns whether all enforced limits admit; `undefined` if rows have to
 * decide: for a key that is locked out or begins to be, a state of a changed limit or of a clock that ran ahead, a full table, and strict limits
 * among others.
 */
export function step(cursors: Cursor[], charges: readonly Charge[], tables: Tables, now: number): boolean | undefined {
  let admitted = true
  for (let i = 0; i < charges.length; i++) {
    const charge = charges[i]!
    const { compiled } = charge.policy
    const table = tables.of(charge.policy)
    const slot = table.find(charge.key, compiled)
    if (slot === undefined || (compiled.strict && charges.length > 1)) return undefined
    const cursor = (cursors[i] ??= new Cursor())
    cursor.table = table
    cursor.slot = slot
    if (!cursor.step(compiled, ticks(compiled, now), charge.cost)) return undefined
    judge(cursor.outcome, charge)
    if (charge.allowed) continue
    if (compiled.block > 0) return undefined
    if (compiled.enforced) admitted = false
  }
  return admitted
}

/**
 * Writes what follows from a step: the charges of all limits or of none, and what a denial leaves. `write` is false for a peek. Returns whether
 * a table is to be swept.
 */
export function keep(
  cursors: readonly Cursor[],
  charges: readonly Charge[],
  now: number,
  admitted: boolean,
  write: boolean,
): boolean {
  let sweepIsDue = false
  for (let i = 0; i < charges.length; i++) {
    const charge = charges[i]!
    const cursor = cursors[i]!
    const { table, slot, outcome } = cursor
    if (--table.untilSweep <= 0) sweepIsDue = true
    if (!isCharged(charge, outcome.persist, admitted)) {
      // A charge that another limit has denied reports what its key has without it.
      if (!charge.allowed || admitted || charge.cost === 0) continue
      cursor.step(charge.policy.compiled, ticks(charge.policy.compiled, now), 0)
      report(outcome, charge)
    } else if (write) {
      const { compiled } = charge.policy
      if (slot === NOWHERE) table.begin(charge.key, compiled, outcome, now)
      else table.slab.write(slot, compiled, outcome)
      if (charge.allowed) charge.markCharged(outcome.at, outcome.charged)
    }
  }
  return sweepIsDue
}
