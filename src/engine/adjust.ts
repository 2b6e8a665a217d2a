import { isCompatible } from '../algorithms/algorithm.ts'
import { rescale } from '../algorithms/arithmetic.ts'
import type { CompiledLimit } from './compiled-limit.ts'
import type { Charged } from './decide.ts'
import { LOCKED_AT, lockEnd, Row } from './row.ts'
import { TOLERANCE_MS } from '../util/ticks.ts'

/** How a new lock-out treats an earlier one: `'set'` replaces it, and `'extend'` keeps the one that ends later. */
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
  // The same applies if the clock was ahead when the state was written.
  if (units < 0 && row.isCarriedOver) return
  row.adjust(under, rescale(chargedAt, compiled.parameters, under.parameters), units)
  if (row.outcome.persist) keep(row, under, now)
}

function keep(row: Row, under: CompiledLimit, now: number): void {
  row.keep(under, now)
  row.until = row.countsUntil(now)
}

/** The result of a renewal. */
export interface Renewed {
  /** The tick that the slots have now. */
  readonly at: number
  /** How many slots are held from now on. */
  readonly units: number
}

/** The result of a renewal that has renewed nothing. */
export const NOT_HELD: Renewed = { at: 0, units: 0 }

/**
 * Makes the slots of a charge start now. `takes`: expired slots are taken again if there is room, unless the key was reset since. If other keys share the
 * row, nothing changes.
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

/** Returns true if a state contains the charges of a limit: a state of the limit itself, or slots, which keep their times when their limit changes. */
function isSameState(writer: CompiledLimit | undefined, { signature, slots, perMs }: CompiledLimit): boolean {
  return writer?.signature === signature || (slots && writer?.perMs === perMs)
}

/**
 * Locks a key out for `length` microseconds from `now` on; 0 ends a lock-out. If other keys share the row, a lock-out never becomes shorter: this returns
 * false then.
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
 * Deletes the state. Earlier charges are not refunded while the state would have counted. Returns false if other keys share the row: their counts stay.
 */
export function reset(row: Row, now: number): boolean {
  if (row.isShared) return false
  row.clear(now, Math.max(row.countsUntil(now), row.changeUntil))
  return true
}

/** Adds units to a row that another limit has written for other keys: locks it out until the present state and the units would have expired. */
function lockLonger(row: Row, { policy: { compiled }, at }: Charged, units: number, now: number): void {
  const alone = new Row()
  alone.read(compiled, now)
  alone.adjust(compiled, at, units)
  alone.keep(compiled, now)
  row.lock(now, row.lockedUntil + alone.countsUntil(now) - now)
}

/**
 * Returns true if it is known how much of a charge is left: its limit has not changed since (another limit may have drained it), and its time is not from a
 * clock that was ahead.
 */
function isCertain(row: Row, { micros }: CompiledLimit, at: number, now: number): boolean {
  const chargedAt = at * micros
  return !row.hasChanged(chargedAt, now) && chargedAt <= now + TOLERANCE_MS * 1000
}

/**
 * Returns false if a refund of a charge gives nothing back any more: its window is over, or the same units have returned by themselves. It considers only
 * this charge.
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

/** Returns the limit that wrote a row if its algorithm is compatible and its state has not expired. The row is read under this limit then. */
function liveWriter(row: Row, { algorithm }: CompiledLimit, now: number): CompiledLimit | undefined {
  const { writer } = row
  if (writer === undefined || !isCompatible(algorithm, writer.algorithm)) return undefined
  row.read(writer, now)
  row.step(writer, writer.nonStrict, 0)
  return row.outcome.reset === 0 ? undefined : writer
}
