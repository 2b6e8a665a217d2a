import { createOutcome, isCompatible, MAX_CELLS, type Outcome, type Parameters } from '../../algorithms/algorithm.ts'
import {
  clearEdit,
  type Edit,
  EditedEntries,
  type Entries,
  EntryArray,
  noEntries,
  writeEdit,
} from '../../algorithms/entries.ts'
import type { CompiledLimit } from '../../limits/compiled-limit.ts'
import { isAhead, moveToPresent } from '../clock-fault.ts'
import { EntryView } from './entry-view.ts'
import { Slab } from './slab.ts'

export const NONE = -1

const nowhere = new Slab(1)
/** A step of a state as it was written. */
const written = createOutcome()

/**
 * One charge while it is decided: the state of its key, and the outcome of its step. One object is reused for many charges, so
 * that a decision allocates nothing else.
 */
export class Attempt {
  readonly outcome: Outcome = createOutcome()
  slab: Slab = nowhere
  slot: number = NONE
  /** True when the limit itself wrote the slot, which then has no lock either. Nothing below is read in that case. */
  isOwn = false
  /** True when the charge is decided in a sketch instead. */
  overflows = false
  /** The microsecond until which the key is locked out. */
  lockedUntil = 0.5
  /** How many denials of the key count, this one included. */
  denials = 0.5
  /** True when other keys may have been denied among them, so that they may have passed the number that begins a lock-out. */
  hasOthersDenials = false
  /** The microsecond until which they count; 0 if this decision counts none. */
  denialsUntil = 0.5
  /** The time in ticks of the limit. */
  tick = 0.5
  #cells: Float64Array = nowhere.cells
  #offset = 0
  #entries: Entries = noEntries
  /** True when the state is not as it was written: its entries are those of the slot after `#conversion`. */
  #isConverted = false
  /**
   * True when the state was carried over from a limit that has changed, or from a clock that ran ahead. A denial keeps it, so that it
   * is rounded once and drains from then on.
   */
  isCarriedOver = false
  readonly #view = new EntryView()
  readonly #scratch = new Float64Array(MAX_CELLS)
  readonly #conversion: Edit = createOutcome().edit
  readonly #edited = new EditedEntries()
  /** A copy of the entries, for `assume`. */
  #copy: EntryArray | undefined

  /** Steps a slot that the limit itself wrote, in place. */
  stepOwn(compiled: CompiledLimit, slab: Slab, slot: number, now: number, cost: number): void {
    const { step, parameters } = compiled
    this.slab = slab
    this.slot = slot
    this.isOwn = true
    this.overflows = false
    this.isCarriedOver = false
    const entries = compiled.hasEntries ? this.#view.aim(slab.lists!, slot) : noEntries
    step(parameters, slab.cells, slab.offset(slot), ticks(compiled, now), cost, this.outcome, entries)
  }

  /** Reads any slot, -1 for none. A state that another limit wrote is converted, in a copy. */
  read(compiled: CompiledLimit, slab: Slab, slot: number, now: number): void {
    const writer = slot === NONE ? undefined : slab.writtenBy(slot)
    this.slab = slab
    this.slot = slot
    this.isOwn = false
    this.overflows = false
    this.isCarriedOver = false
    this.lockedUntil = slot === NONE ? 0 : slab.lockedUntil(slot, now)
    this.denials = slot === NONE ? 0 : slab.denialsOf(slot, now)
    this.denialsUntil = 0
    this.hasOthersDenials = false
    this.tick = ticks(compiled, now)
    this.#copy = undefined
    if (writer === undefined) this.#readNew(compiled)
    else if (writer.signature === compiled.signature) this.#readInPlace(compiled)
    else this.#convert(writer, compiled)
    if (isAhead(compiled, this.#cells, this.#offset, this.tick)) this.#moveToPresent(compiled)
  }

  #readNew({ initialState }: CompiledLimit): void {
    this.#cells = initialState
    this.#offset = 0
    this.#entries = noEntries
    this.#isConverted = false
  }

  #readInPlace({ hasEntries }: CompiledLimit): void {
    this.#cells = this.slab.cells
    this.#offset = this.slab.offset(this.slot)
    this.#entries = hasEntries ? this.#view.aim(this.slab.lists!, this.slot) : noEntries
    this.#isConverted = false
  }

  /** A state that the algorithm cannot read becomes a new one. */
  #convert(from: CompiledLimit, to: CompiledLimit): void {
    this.#readNew(to)
    this.#isConverted = true
    if (!isCompatible(to.algorithm, from.algorithm)) return this.#dropEntries()
    this.isCarriedOver = true
    const { outcome, slab, slot, tick } = this
    const entries = to.hasEntries ? this.#view.aim(slab.lists!, slot) : noEntries
    clearEdit(outcome.edit)
    to.algorithm.convert(to.parameters, from.parameters, slab.cells, slab.offset(slot), tick, outcome, entries)
    this.#scratch.set(outcome.next)
    this.#cells = this.#scratch
    Object.assign(this.#conversion, outcome.edit)
    if (to.hasEntries) this.#entries = this.#edited.aim(entries, this.#conversion)
  }

  #dropEntries(): void {
    clearEdit(this.#conversion)
    this.#conversion.drop = Infinity
  }

  /** Moves a state from a clock that ran ahead to the present, in a copy. Its entries become one. */
  #moveToPresent(compiled: CompiledLimit): void {
    const cells = this.#scratch
    for (let i = 0; i < compiled.cells; i++) cells[i] = this.#cells[this.#offset + i]!
    moveToPresent(compiled, cells, this.tick)
    this.#cells = cells
    this.#offset = 0
    this.#isConverted = true
    this.isCarriedOver = true
    writeEdit(this.#conversion, Infinity, 0, 0, cells[compiled.newest]!, cells[0]!)
    if (compiled.hasEntries) this.#entries = this.#edited.aim(noEntries, this.#conversion)
  }

  /** Steps the state that was read. */
  step(compiled: CompiledLimit, parameters: Parameters, cost: number): void {
    compiled.step(parameters, this.#cells, this.#offset, this.tick, cost, this.outcome, this.#entries)
  }

  /**
   * Steps to a state whose key is not new again before the end of a wait in microseconds, as a new one may have fewer tokens. Returns false
   * when it is not before that anyway, or when the key is new.
   */
  outlast(compiled: CompiledLimit, wait: number): boolean {
    this.step(compiled, compiled.nonStrict, 0)
    return this.outcome.reset > 0 && this.moveRenewal(compiled, wait)
  }

  /** Moves the time at which the key is new again to one window after a wait of microseconds. Returns false when it is not before that. */
  moveRenewal({ renewal, micros, idle }: CompiledLimit, wait: number): boolean {
    const { outcome, tick } = this
    const ending = tick + Math.ceil(wait / micros) + idle
    if (outcome.next[renewal]! >= ending) return false
    outcome.next[renewal] = ending
    outcome.reset = ending - tick
    return true
  }

  /** Adds units to the state that was read, or refunds them if negative. */
  adjust({ algorithm, parameters }: CompiledLimit, chargedAt: number, units: number): void {
    const { outcome, tick } = this
    clearEdit(outcome.edit)
    algorithm.adjust(parameters, this.#cells, this.#offset, tick, chargedAt, units, outcome, this.#entries)
  }

  /** Continues on a copy, as if the next state had been saved. */
  assume({ hasEntries }: CompiledLimit): void {
    this.#scratch.set(this.outcome.next)
    this.#cells = this.#scratch
    this.#offset = 0
    if (!hasEntries) return
    const copy = (this.#copy ??= this.#copied())
    copy.apply(this.outcome.edit)
    this.#entries = copy
  }

  #copied(): EntryArray {
    const copy = new EntryArray()
    if (this.slot !== NONE) this.slab.lists!.copy(this.slot, copy)
    if (this.#isConverted) copy.apply(this.#conversion)
    return copy
  }

  /** Writes the next state into the slot. */
  keep(compiled: CompiledLimit, now: number): void {
    const { slab, slot, outcome } = this
    const { cells } = slab
    const offset = slab.offset(slot)
    if (!this.isOwn && this.#isConverted) slab.markChange(slot, now, countsUntil(slab, slot, now))
    if (!this.isOwn) slab.setWriter(slot, compiled)
    for (let i = 0; i < compiled.cells; i++) cells[offset + i] = outcome.next[i]!
    if (compiled.hasEntries) this.#keepEntries()
    this.setExpiry(compiled, now)
  }

  #keepEntries(): void {
    const { lists } = this.slab
    if (!this.isOwn && this.#isConverted) lists!.apply(this.slot, this.#conversion)
    lists!.apply(this.slot, this.outcome.edit)
  }

  /** Sets the expiry of the slot: when its state no longer counts. */
  setExpiry({ micros }: CompiledLimit, now: number): void {
    this.slab.setExpiry(this.slot, now, this.outcome.reset * micros)
  }
}

/**
 * Deletes the state of a slot. While it would have counted, it is known that nothing is refunded that was charged before. Returns false when
 * that is over, so that the slot is not needed.
 */
export function reset(slab: Slab, slot: number, now: number): boolean {
  const until = Math.max(countsUntil(slab, slot, now), slab.changeUntil(slot))
  slab.clear(slot)
  slab.markChange(slot, now, until)
  slab.setExpiry(slot, now, 0)
  return until > now
}

/** Returns the microsecond until which the state that was written in a slot counts; now for a slot without a state. */
function countsUntil(slab: Slab, slot: number, now: number): number {
  const writer = slab.writtenBy(slot)
  if (writer === undefined) return now
  writer.step(writer.nonStrict, slab.cells, slab.offset(slot), ticks(writer, now), 0, written, noEntries)
  return now + written.reset * writer.micros
}

/** Returns microseconds in ticks of a limit. */
export function ticks({ perMs }: CompiledLimit, now: number): number {
  return perMs === 1000 ? now : Math.floor(now / 1000)
}
