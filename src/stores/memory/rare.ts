import { commit, evaluate } from '../../engine/decide.ts'
import { NOWHERE, Row } from '../../engine/row.ts'
import type { Charge } from '../store.ts'
import { deny } from './shared-rows.ts'
import type { Tables } from './tables.ts'

/**
 * Decides rare cases, such as keys that are locked out and states of a changed limit. Aims a row at the key of each charge, evaluates and commits, saves
 * the changed rows, and sweeps if a sweep is due.
 */
export function decideRows(
  rows: Row[],
  charges: readonly Charge[],
  tables: Tables,
  now: number,
  isCharged: boolean,
): void {
  const sweepIsDue = aim(rows, charges, tables, now)
  const admitted = evaluate(rows, charges, now)
  commit(rows, charges, now, admitted, isCharged)
  for (let i = 0; i < charges.length; i++) if (rows[i]!.changed) tables.save(rows[i]!, charges[i]!, now)
  if (sweepIsDue) tables.sweep(charges, now)
  tables.reportFull()
}

/** Aims a row at the key of each charge. Returns whether a table must be swept after the decision. */
function aim(rows: Row[], charges: readonly Charge[], tables: Tables, now: number): boolean {
  let sweepIsDue = false
  for (let i = 0; i < charges.length; i++) {
    const row = (rows[i] ??= new Row())
    const table = tables.aim(row, charges[i]!, now)
    if (row.slot < NOWHERE && i > 0) follow(rows, i, charges, tables, now)
    if (--table.untilSweep <= 0) sweepIsDue = true
  }
  return sweepIsDue
}

/** Handles two keys of one decision that share a row: the later one is charged for both. */
function follow(rows: readonly Row[], i: number, charges: readonly Charge[], tables: Tables, now: number): void {
  const row = rows[i]!
  const { policy } = charges[i]!
  const { beyond } = tables.of(policy)
  for (let j = 0; j < i; j++) {
    const other = charges[j]!
    if (rows[j]!.slot !== row.slot || tables.of(other.policy).beyond !== beyond) continue
    row.isShared = true
    row.after = rows[j]!
    row.ahead += other.cost
    if (other.policy.compiled.signature !== policy.compiled.signature) deny(row, now)
  }
}
