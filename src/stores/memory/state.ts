import { createOutcome, isCompatible, MAX_CELLS, type Outcome, type Parameters } from '../../algorithms/algorithm.ts'
import { clearEdit, type Entries, EntryArray, noEntries, writeEdit } from '../../algorithms/entries.ts'
import type { CompiledLimit } from '../../limits/compiled-limit.ts'
import { isAhead, moveToPresent } from '../clock-fault.ts'
import { EntryView } from './entry-lists.ts'
import { Slab } from './slab.ts'

export const NONE = -1

const nowhere = new Slab(1)

/**
 * One charge on its way to a decision: the state of its key, and what a step says of it. One is reused for many charges in turn, so
 * that a decision allocates nothing but itself.
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
  /** The time in ticks of the limit. */
  tick = 0.5
  #cells: Float64Array = nowhere.cells
  #offset = 0
  #entries: Entries = noEntries
  /** True when the state is a copy, converted from another limit's, that is written as a whole. */
  #isConverted = false
  /**
   * True when the state was carried over from a limit that has changed, or from a clock that ran ahead. A denial keeps it, so that it
   * is rounded once and drains from then on.
   */
  isCarriedOver = false
  readonly #view = new EntryView()
  readonly #scratch = new Float64Array(MAX_CELLS)
  readonly #copy = new EntryArray()

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
    this.lockedUntil = slot === NONE ? 0 : slab.lockedUntil(slot)
    this.tick = ticks(compiled, now)
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
    this.#copy.clear()
    if (!isCompatible(to.algorithm, from.algorithm)) return
    this.isCarriedOver = true
    const { outcome, slab, slot, tick } = this
    clearEdit(outcome.edit)
    if (to.hasEntries) this.#copy.copy(this.#view.aim(slab.lists!, slot))
    to.algorithm.convert(to.parameters, from.parameters, slab.cells, slab.offset(slot), tick, outcome, this.#copy)
    this.assume(to)
  }

  /** Moves a state from a clock that ran ahead to the present, in a copy. Its entries become one. */
  #moveToPresent(compiled: CompiledLimit): void {
    const { next, edit } = this.outcome
    for (let i = 0; i < compiled.cells; i++) next[i] = this.#cells[this.#offset + i]!
    moveToPresent(compiled, next, this.tick)
    writeEdit(edit, 0, -1, 0, next[compiled.newest]!, next[0]!)
    this.#copy.clear()
    this.#isConverted = true
    this.isCarriedOver = true
    this.assume(compiled)
  }

  /** Steps the state that was read. */
  step(compiled: CompiledLimit, parameters: Parameters, cost: number): void {
    compiled.step(parameters, this.#cells, this.#offset, this.tick, cost, this.outcome, this.#entries)
  }

  /** Adds units to the state that was read, or gives them back when negative. */
  adjust({ algorithm, parameters }: CompiledLimit, chargedAt: number, units: number): void {
    const { outcome, tick } = this
    clearEdit(outcome.edit)
    algorithm.adjust(parameters, this.#cells, this.#offset, tick, chargedAt, units, outcome, this.#entries)
  }

  /** Goes on as though the state that follows had been kept. */
  assume({ hasEntries }: CompiledLimit): void {
    this.#scratch.set(this.outcome.next)
    this.#cells = this.#scratch
    this.#offset = 0
    if (!hasEntries) return
    if (this.#entries !== this.#copy && !this.#isConverted) this.#copy.copy(this.#entries)
    this.#entries = this.#copy
    this.#copy.apply(this.outcome.edit)
  }

  /** Writes the state that follows into the slot. */
  keep(compiled: CompiledLimit, now: number): void {
    const { slab, slot, outcome } = this
    const { cells } = slab
    const offset = slab.offset(slot)
    for (let i = 0; i < compiled.cells; i++) cells[offset + i] = outcome.next[i]!
    if (!this.isOwn) slab.setWriter(slot, compiled)
    if (compiled.hasEntries) this.#keepEntries()
    this.setExpiry(compiled, now)
  }

  #keepEntries(): void {
    const { lists } = this.slab
    if (this.isOwn || !this.#isConverted) return lists!.apply(this.slot, this.outcome.edit)
    this.#copy.apply(this.outcome.edit)
    lists!.replace(this.slot, this.#copy)
  }

  /** Lets the slot expire once its state means nothing. */
  setExpiry({ micros }: CompiledLimit, now: number): void {
    this.slab.setExpiry(this.slot, now, this.outcome.reset * micros)
  }
}

/** Returns microseconds in ticks of a limit. */
export function ticks({ perMs }: CompiledLimit, now: number): number {
  return perMs === 1000 ? now : Math.floor(now / 1000)
}
