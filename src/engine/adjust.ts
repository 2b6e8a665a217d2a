import { isCompatible } from '../algorithms/algorithm.ts'
import { rescale } from '../algorithms/arithmetic.ts'
import type { CompiledLimit } from './compiled-limit.ts'
import type { Charged } from './decide.ts'
import { LOCKED_AT, lockEnd, Row } from './row.ts'
import { TOLERANCE_MS } from '../util/ticks.ts'

/** What becomes of a lock-out that has not ended: `'set'` replaces it, and `'extend'` keeps the one that ends later. */
export type LockMode = 'set' | 'extend'

/**
 * Adds units to the key of a charge, or refunds them if negative, under the limit that wrote the row. Returns false if nothing is refunded
 * because other keys share the row.
 */
export function adjust(row: Row, charge: Charged, units: number, now: number): boolean {
  const { compiled } = charge.policy
  if (row.isShared && units < 0) return false
  if (row.isForeign) lockLonger(row, charge, units, now)
  else adjustOwn(row, compiled, charge.at, units, now)
  return true
}

function adjustOwn(row: Row, compiled: CompiledLimit, chargedAt: number, units: number, now: number): void {
  const writer = liveWriter(row, compiled, now)
  if (units < 0 && !(isSameState(writer, compiled) && isCertain(row, compiled, chargedAt, now))) return
  const under = writer ?? compiled
  if (writer === undefined) row.read(under, now)
  // The same if a clock that ran ahead wrote the state.
  if (units < 0 && row.isCarriedOver) return
  row.adjust(under, rescale(chargedAt, compiled.parameters, under.parameters), units)
  if (row.outcome.persist) keep(row, under, now)
}

function keep(row: Row, under: CompiledLimit, now: number): void {
  row.keep(under, now)
  row.until = row.countsUntil(now)
  row.changed = true
}

/** What a renewal came to. */
export interface Renewed {
  /** The tick that the slots have now. */
  readonly at: number
  /** How many slots are held from now on. */
  readonly units: number
}

const NOT_HELD: Renewed = { at: 0, units: 0 }

/**
 * Moves the slots of a charge to now. `takes`: those that are gone are taken again if there is room, unless the key was reset since. Where other
 * keys share the row, nothing moves.
 */
export function renew(row: Row, charge: Charged, now: number, takes: boolean): Renewed {
  const { compiled } = charge.policy
  if (row.isShared || !isCertain(row, compiled, charge.at, now)) return NOT_HELD
  const writer = liveWriter(row, compiled, now)
  if (writer === undefined ? !(takes && row.countsUntil(now) <= now) : !isSameState(writer, compiled)) return NOT_HELD
  const under = writer ?? compiled
  if (writer === undefined) row.read(under, now)
  else if (row.isCarriedOver) return NOT_HELD
  row.renew(under, charge.at, charge.charged, takes)
  const { persist, at, charged } = row.outcome
  if (!persist) return NOT_HELD
  keep(row, under, now)
  return { at, units: charged }
}

/** Returns true if a limit finds its charges in a state: its own, or one of slots, which keep their times when their limit changes. */
function isSameState(writer: CompiledLimit | undefined, { signature, slots, perMs }: CompiledLimit): boolean {
  return writer?.signature === signature || (slots && writer?.perMs === perMs)
}

/**
 * Locks a key out for `length` microseconds from `now` on; 0 ends a lock-out. Where others share the row, it never becomes shorter: returns
 * false if it would.
 */
export function lock(row: Row, now: number, length: number, mode: LockMode): boolean {
  const until = now + length
  const isLonger = lockEnd(row.rare[LOCKED_AT]!, row.lockedUntil, now) >= until
  if (isLonger && mode === 'extend') return true
  if (isLonger && row.isShared) return length === 0
  if (length > 0) row.lock(now, until)
  else row.unlock()
  if (row.writer !== undefined) row.until = row.countsUntil(now)
  return true
}

/**
 * Deletes the state. While it would have counted, it is known that nothing is refunded that was charged before. Returns false where other
 * keys share the row: what they have used stays.
 */
export function reset(row: Row, now: number): boolean {
  if (row.isShared) return false
  row.clear(now, Math.max(row.countsUntil(now), row.changeUntil))
  return true
}

/** Where another limit wrote for other keys, units count as a lock-out: until what is there and all of the units would be over. */
function lockLonger(row: Row, { policy: { compiled }, at }: Charged, units: number, now: number): void {
  const alone = new Row()
  alone.read(compiled, now)
  alone.adjust(compiled, at, units)
  alone.keep(compiled, now)
  row.lock(now, row.lockedUntil + alone.countsUntil(now) - now)
}

/**
 * Returns true when it is known how much is left of a charge: its limit has not changed since, as another limit may have drained it, and no
 * clock that ran ahead wrote its time.
 */
function isCertain(row: Row, { micros }: CompiledLimit, at: number, now: number): boolean {
  const chargedAt = at * micros
  return !row.hasChanged(chargedAt, now) && chargedAt <= now + TOLERANCE_MS * 1000
}

/**
 * Returns false if a refund of a charge gives nothing back any more: its window is over, or as much has returned by itself. It looks at the charge
 * alone.
 * @param age microseconds since the charge
 */
export function isRefundable(charge: Charged, units: number, age: number): boolean {
  const { compiled } = charge.policy
  const [row, at] = [new Row(), charge.at * compiled.micros]
  row.read(compiled, at)
  row.adjust(compiled, charge.at, charge.charged)
  row.keep(compiled, at)
  row.read(compiled, at + age)
  const { outcome } = row
  row.adjust(compiled, charge.at, 0)
  const unchanged = outcome.next.slice(0, compiled.cells)
  row.adjust(compiled, charge.at, units)
  return outcome.persist && (outcome.edit.takeCost > 0 || unchanged.some((cell, i) => cell !== outcome.next[i]))
}

/** Returns the limit that wrote a row, when its algorithm is compatible and anything of its state is left. The row is read under it then. */
function liveWriter(row: Row, { algorithm }: CompiledLimit, now: number): CompiledLimit | undefined {
  const { writer } = row
  if (writer === undefined || !isCompatible(algorithm, writer.algorithm)) return undefined
  row.read(writer, now)
  row.step(writer, writer.nonStrict, 0)
  return row.outcome.reset === 0 ? undefined : writer
}
