import type { Outcome } from '../algorithms/algorithm.ts'
import { type CompiledLimit, lockLength } from './compiled-limit.ts'
import type { Row } from './row.ts'

/** The part of a charge that the engine uses. It reads limit and cost, and writes the verdict. */
export interface Charged {
  readonly policy: { readonly compiled: CompiledLimit }
  readonly cost: number
  /** The tick of the charge, and the units that were charged. */
  readonly at: number
  readonly charged: number
  allowed: boolean
  remaining: number
  retryAfter: number
  resetAfter: number
  delay: number
  markCharged(at: number, units: number): void
  markLocked(ms: number): void
}

/** Writes the verdict of each limit into its charge, and no state. Returns whether all enforced limits admit. */
export function evaluate(rows: readonly Row[], charges: readonly Charged[], now: number): boolean {
  let admitted = true
  for (let i = 0; i < charges.length; i++) {
    const charge = charges[i]!
    const row = rows[i]!
    const { compiled } = charge.policy
    row.read(compiled, now)
    if (row.locked > now) denyLocked(row, charge, now)
    else {
      row.step(compiled, compiled.parameters, charge.cost + row.ahead)
      judge(row.outcome, charge)
      if (!charge.allowed) lockOut(row, charge, now)
    }
    if (charge.allowed) continue
    // A state that has expired is not kept, because it may also be missing.
    if (row.isCarriedOver && row.outcome.reset > 0) row.outcome.persist = true
    if (row.isForeign) row.outcome.persist = false
    if (compiled.enforced) admitted = false
  }
  return admitted
}

/** Writes the result: charges all limits or none, and stores what a denial changes. `write` is false for a peek. */
export function commit(
  rows: readonly Row[],
  charges: readonly Charged[],
  now: number,
  admitted: boolean,
  write: boolean,
): void {
  for (let i = 0; i < charges.length; i++) {
    const charge = charges[i]!
    const row = rows[i]!
    if (!isCharged(charge, row.outcome.persist, admitted)) leave(row, charge, now, admitted, write)
    else if (write) keep(row, charge, now, admitted)
  }
}

/** Returns whether a request is charged to a limit. This is the only place that decides it. */
export function isCharged({ cost, allowed, policy }: Charged, persist: boolean, admitted: boolean): boolean {
  return cost > 0 && (allowed ? admitted || policy.compiled.strict : persist)
}

function keep(row: Row, charge: Charged, now: number, admitted: boolean): void {
  const { compiled } = charge.policy
  if (row.after !== undefined) {
    follow(row, row.after)
    row.read(compiled, now)
    row.step(compiled, compiled.parameters, charge.cost)
  }
  row.keep(compiled, now)
  if (!charge.allowed) return keepDenial(row, now)
  if (admitted) return charge.markCharged(row.outcome.at, row.outcome.charged)
  // A strict limit has charged a request that another one has denied.
  row.read(compiled, now)
  row.step(compiled, compiled.nonStrict, charge.cost)
  charge.retryAfter = row.outcome.retry / compiled.perMs
}

/** Continues with the state after an earlier charge of this decision in the same place. */
function follow(row: Row, after: Row): void {
  row.writer = after.writer
  row.cells.set(after.cells)
  row.entries = after.entries
  row.rare.set(after.rare)
  row.hasRare = after.hasRare
  row.locked = Math.max(row.locked, after.locked)
}

/** Charges nothing. If another limit has denied the request, the charge reports its key without its cost. */
function leave(row: Row, charge: Charged, now: number, admitted: boolean, write: boolean): void {
  if (!charge.allowed) {
    if (row.after !== undefined) follow(row, row.after)
    if (write) keepDenial(row, now)
    return
  }
  if (admitted || charge.cost === 0) return
  const { compiled } = charge.policy
  row.step(compiled, compiled.parameters, 0)
  report(row.outcome, charge)
  // A state that was carried over is kept, so that it is rounded only once.
  if (write && row.isCarriedOver && row.outcome.reset > 0) row.keep(compiled, now)
}

function keepDenial(row: Row, now: number): void {
  if (row.isForeign) return
  if (row.counted > 0) row.countDenials(Math.max(row.counted, row.denialsAt(now) + 1), now, row.countedUntil)
  if (row.locked > now && row.locked !== row.lockedUntil) row.lock(now, row.locked)
}

function lockOut(row: Row, charge: Charged, now: number): void {
  const length = countDenial(row, charge.policy.compiled, now)
  if (length === 0) return
  row.locked = now + length
  reportLock(charge, length / 1000)
}

/** Returns the microseconds of the lock-out that a denial begins; 0 if it begins none. */
function countDenial(row: Row, { block, growth }: CompiledLimit, now: number): number {
  if (growth === undefined) return block
  row.counted = row.denialsAt(now) + 1
  // Denials of other keys may have skipped the number that begins a lock-out.
  const counted = row.isShared ? row.counted - (row.counted % growth.after) : row.counted
  const length = counted === 0 ? 0 : lockLength(block, growth, counted)
  row.countedUntil = now + length + growth.memory
  return length
}

/** Denies until the lock-out ends, or longer if the limit still denies then. A cost of 0 is allowed. */
function denyLocked(row: Row, charge: Charged, now: number): void {
  const { compiled } = charge.policy
  row.step(compiled, compiled.nonStrict, charge.cost)
  charge.allowed = charge.cost === 0
  charge.retryAfter = charge.allowed ? 0 : row.outcome.retry / compiled.perMs
  // The change of state by a denial is kept, such as for a new key with `initial`, because the wait was computed from it.
  if (!row.outcome.persist) row.step(compiled, compiled.nonStrict, 0)
  report(row.outcome, charge)
  reportLock(charge, (row.locked - now) / 1000)
}

/** Writes the verdict of a step into its charge. Ticks become milliseconds. */
export function judge(outcome: Outcome, charge: Charged): void {
  charge.allowed = outcome.allowed
  charge.retryAfter = outcome.retry > 0 ? outcome.retry / charge.policy.compiled.perMs : 0
  report(outcome, charge)
}

/** Writes the state of a key after a step into the charge. */
export function report(outcome: Outcome, charge: Charged): void {
  const { perMs } = charge.policy.compiled
  charge.remaining = outcome.remaining
  charge.resetAfter = outcome.reset / perMs
  charge.delay = outcome.delay > 0 ? outcome.delay / perMs : 0
}

function reportLock(charge: Charged, ms: number): void {
  charge.markLocked(ms)
  charge.remaining = 0
  charge.resetAfter = Math.max(charge.resetAfter, ms)
  if (!charge.allowed) charge.retryAfter = Math.max(charge.retryAfter, ms)
}
