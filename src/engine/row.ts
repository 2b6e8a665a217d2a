import { createOutcome, isCompatible, type LimitParameters, MAX_CELLS, type Outcome } from '../algorithms/algorithm.ts'
import { clearEdit, type EntryArray, type Entries, newEntries, noEntries } from '../algorithms/entries.ts'
import { rescale } from '../algorithms/arithmetic.ts'
import { isAhead, ticks, TOLERANCE_MS } from '../util/ticks.ts'
import { type CompiledLimit, ticksOf } from './compiled-limit.ts'

// The rare parts of a row. Times are microseconds since 1970, and 0 if there is none.
/** The end of the lock-out, and its start. */
export const LOCKED_UNTIL = 0
export const LOCKED_AT = 1
/** The number of denials that count, the time of the latest one, and the time until which they count. */
export const DENIALS = 2
const DENIED_AT = 3
export const DENIALS_UNTIL = 4
/** When another limit wrote over a state or the key was reset, and the time until which that state would have counted. */
const CHANGED_AT = 5
export const CHANGE_UNTIL = 6
/** The units that the capacity of a changed limit has cut off. They count until `CHANGE_UNTIL`. */
const CUT = 7
export const RARE = 8

/** The slot of a row that no store keeps yet. */
export const NOWHERE = -1

/** A step of a state as it was written. */
const written = createOutcome()

/**
 * The state of one key under one limit, and the outcome of its step while it is decided. One object is used for many decisions in turn.
 *
 * In a decision, the store aims it at a state and copies the cells, `evaluate` reads and steps it, `commit` keeps the next state, and the store saves it if
 * `changed` is true.
 */
export class Row {
  readonly outcome: Outcome = createOutcome()
  /** The number of the place where the store keeps the row. */
  slot: number = NOWHERE

  // The stored parts.
  readonly cells: Float64Array = new Float64Array(MAX_CELLS)
  entries: EntryArray | undefined = undefined
  /** The limit that wrote the state; undefined if there is no state. */
  writer: CompiledLimit | undefined = undefined
  /** The rare parts. All of them are 0 unless `hasRare` is true. */
  readonly rare: Float64Array = new Float64Array(RARE)
  hasRare = false
  /** True if the store has to save the row. */
  changed = false
  /** The microsecond until which the state counts after it is written. */
  until = 0.5

  // The parts for rows of keys above `maxKeys`, which several keys charge.
  /** True if other keys have also charged the row. */
  isShared = false
  /** True if other keys have charged the row under another limit. It denies then, and nothing is written. */
  isForeign = false
  /** The row of an earlier charge of the same decision in the same place, and the cost of all such charges. */
  after: Row | undefined = undefined
  ahead = 0

  // The parts for the present decision.
  /** The time of the decision, in ticks of the limit. */
  tick = 0.5
  /** The microsecond until which the key is locked out after this decision. A clock that was ahead is corrected. */
  locked = 0.5
  /** If this denial counts: the number of denials including it, and the microsecond until which they count. Otherwise 0. */
  counted = 0
  countedUntil = 0.5
  /** True if the state was converted from a changed limit, or from a clock that was ahead. A denial keeps the converted state, so that it is rounded only once. */
  isCarriedOver = false
  /**
   * The units that are cut off after this decision. They do not count under the limit whose smaller capacity has cut them off, and are added again before the
   * next conversion. So a limit that alternates between two definitions keeps everything that the larger one counts.
   */
  private cut = 0.5

  // The state that steps read: the written state, or a converted copy.
  private from: Float64Array = this.cells
  private fromEntries: Entries = noEntries
  private isConverted = false
  private readonly scratch: Float64Array = new Float64Array(MAX_CELLS)

  /** Aims at a state. The store sets the cells afterwards, and the rare parts if there are any. */
  aim(slot: number, entries: EntryArray | undefined, writer?: CompiledLimit): void {
    this.slot = slot
    this.entries = entries
    this.writer = writer
    if (this.hasRare) this.rare.fill(0)
    this.hasRare = false
    this.changed = false
    this.until = 0
    if (this.isShared) this.#unshare()
  }

  /** Becomes the row of a new key. */
  begin(): void {
    this.aim(NOWHERE, undefined)
    this.fromEntries = noEntries
  }

  #unshare(): void {
    this.isShared = this.isForeign = false
    this.after = undefined
    this.ahead = 0
  }

  /** Leaves its place, so that it can be used for another key. */
  detach(): void {
    this.entries = this.entries?.copy()
    this.slot = NOWHERE
    this.changed = true
  }

  get lockedUntil(): number {
    return this.rare[LOCKED_UNTIL]!
  }

  get changeUntil(): number {
    return this.rare[CHANGE_UNTIL]!
  }

  /** Reads the state under a limit. If another limit wrote it, or the clock was ahead, it is converted in a copy. */
  read(compiled: CompiledLimit, now: number): void {
    const { writer } = this
    this.tick = ticks(compiled, now)
    this.locked = this.hasRare ? lockEnd(this.rare[LOCKED_AT]!, this.rare[LOCKED_UNTIL]!, now) : 0
    this.counted = 0
    this.isCarriedOver = false
    this.isConverted = false
    this.cut = this.hasRare && writer !== undefined && this.changeUntil > now ? this.rare[CUT]! : 0
    if (writer === undefined) this.#readFrom(compiled.initialState, noEntries)
    else if (writer.signature === compiled.signature) this.#readFrom(this.cells, this.entries ?? noEntries)
    else this.#convert(writer, compiled)
    if (isAhead(compiled, this.from, 0, this.tick)) this.#moveToPresent(compiled)
  }

  #readFrom(cells: Float64Array, entries: Entries): void {
    this.from = cells
    this.fromEntries = entries
  }

  /** Converts the state of another limit. A state that the algorithm cannot read becomes a new one. */
  #convert(from: CompiledLimit, to: CompiledLimit): void {
    this.isConverted = true
    const { outcome, cut } = this
    this.cut = 0
    if (!isCompatible(to.algorithm, from.algorithm)) return this.#readFrom(to.initialState, noEntries)
    const stored = this.entries ?? noEntries
    this.isCarriedOver = true
    clearEdit(outcome.edit)
    this.scratch.set(this.cells)
    if (cut > 0) {
      const tick = rescale(this.tick, to.parameters, from.parameters)
      from.algorithm.adjust(from.nonStrict, this.cells, 0, tick, tick, cut, outcome, stored)
      this.scratch.set(outcome.next)
    }
    outcome.charged = 0
    to.algorithm.convert(to.parameters, from.parameters, this.scratch, 0, this.tick, outcome, stored)
    this.cut = outcome.charged
    this.scratch.set(outcome.next)
    const entries = this.entries?.copy(outcome.edit.drop)
    outcome.edit.drop = 0
    entries?.apply(outcome.edit)
    this.#readFrom(this.scratch, entries ?? noEntries)
  }

  /** Moves a state from a clock that was ahead to the present, in a copy: its newest time becomes now. All entries become one entry. */
  #moveToPresent({ algorithm, parameters, newest, newestTicks, hasEntries, cells }: CompiledLimit): void {
    const moved = this.scratch
    for (let i = 0; i < cells; i++) moved[i] = this.from[i]!
    const ahead = moved[newest]! * newestTicks - this.tick
    algorithm.cells.forEach((cell, i) => {
      if (cell.ticks === undefined) return
      const unit = ticksOf(cell, parameters)
      moved[i] = Math.floor((moved[i]! * unit - ahead) / unit)
    })
    this.isConverted = true
    this.isCarriedOver = true
    const entries = hasEntries ? newEntries() : undefined
    if (moved[0]! > 0) entries?.push(moved[newest]!, moved[0]!)
    this.#readFrom(moved, entries ?? noEntries)
  }

  step(compiled: CompiledLimit, parameters: LimitParameters, cost: number): void {
    compiled.step(parameters, this.from, 0, this.tick, cost, this.outcome, this.fromEntries)
  }

  /** Adds units to the state that was read, or refunds them if negative. */
  adjust({ algorithm, nonStrict }: CompiledLimit, chargedAt: number, units: number): void {
    const { outcome } = this
    clearEdit(outcome.edit)
    algorithm.adjust(nonStrict, this.from, 0, this.tick, chargedAt, units, outcome, this.fromEntries)
  }

  /** Makes the slots of a charge start now. `takes`: expired slots are taken again if there is room. */
  renew({ algorithm, nonStrict }: CompiledLimit, chargedAt: number, units: number, takes: boolean): void {
    const { outcome } = this
    clearEdit(outcome.edit)
    algorithm.renew!(nonStrict, this.from, 0, this.tick, chargedAt, units, takes, outcome, this.fromEntries)
  }

  keep(compiled: CompiledLimit, now: number): void {
    const { outcome } = this
    const before = this.cut > 0 ? endOf(compiled, this.from, this.fromEntries, now) : 0
    this.#take(compiled, now)
    for (let i = 0; i < compiled.cells; i++) this.cells[i] = outcome.next[i]!
    if (compiled.hasEntries) this.entries!.apply(outcome.edit)
    if (this.hasRare && this.rare[CUT]! + this.cut > 0) this.#keepCut(this.countsUntil(now) - before)
  }

  /** Keeps the units that were cut off. If a charge prolongs the state, these units are kept longer by the same time. */
  #keepCut(longer: number): void {
    this.rare[CUT] = this.cut
    if (this.cut > 0) this.rare[CHANGE_UNTIL] = this.changeUntil + longer
    this.#noteRare()
  }

  #take(compiled: CompiledLimit, now: number): void {
    this.changed = true
    // Slots keep their times, so that each release finds its own.
    if (this.isConverted && !compiled.slots) {
      const until = this.countsUntil(now)
      if (until > now) this.noteChange(now, until)
    }
    if (this.isShared) compiled.algorithm.toShared?.(compiled.parameters, this.outcome)
    if (!compiled.hasEntries) this.entries = undefined
    else if (this.fromEntries === noEntries) this.entries = newEntries()
    else this.entries = this.fromEntries as EntryArray
    this.until = now + this.outcome.reset * compiled.micros
    this.writer = compiled
  }

  /** Notes that earlier charges must not be refunded while the previous state would have counted. */
  noteChange(now: number, until: number): void {
    this.rare[CHANGED_AT] = now
    this.rare[CHANGE_UNTIL] = Math.max(until, this.changeUntil)
    this.#noteRare()
  }

  lock(now: number, until: number): void {
    this.rare[LOCKED_AT] = now
    this.rare[LOCKED_UNTIL] = until
    this.#noteRare()
  }

  unlock(): void {
    this.rare[LOCKED_UNTIL] = this.rare[LOCKED_AT] = 0
    this.#noteRare()
  }

  denialsAt(now: number): number {
    return lockEnd(this.rare[DENIED_AT]!, this.rare[DENIALS_UNTIL]!, now) > now ? this.rare[DENIALS]! : 0
  }

  countDenials(count: number, now: number, until: number): void {
    this.rare[DENIALS] = count
    this.rare[DENIED_AT] = now
    this.rare[DENIALS_UNTIL] = until
    this.#noteRare()
  }

  #noteRare(): void {
    this.hasRare = true
    this.changed = true
  }

  /** Deletes everything. Only the note that a state was deleted stays, until a microsecond. */
  clear(now: number, until: number): void {
    this.entries = undefined
    this.writer = undefined
    this.until = 0
    this.rare.fill(0)
    this.changed = true
    if (until > now) this.noteChange(now, until)
  }

  /** Returns true if a limit wrote over this state, or the key was reset, at a microsecond or later, and this still matters. */
  hasChanged(since: number, now: number): boolean {
    return this.changeUntil > now && this.rare[CHANGED_AT]! >= since
  }

  /** Returns the microsecond until which the written state counts; now if there is none. */
  countsUntil(now: number): number {
    const { writer } = this
    return writer === undefined ? now : endOf(writer, this.cells, this.entries ?? noEntries, now)
  }

  /**
   * Returns the microsecond until which anything in the row counts, corrected for a clock that was ahead. It also finds an end in the last second, because a
   * clock may step back by this time. Reads the state.
   */
  lastsUntil(now: number): number {
    const { rare, writer } = this
    const oldest = now - TOLERANCE_MS * 1000
    let until = 0
    if (writer !== undefined) {
      this.read(writer, now)
      this.tick = ticks(writer, oldest)
      this.step(writer, writer.nonStrict, 0)
      until = oldest + this.outcome.reset * writer.micros
    }
    if (!this.hasRare) return until
    const locked = lockEnd(rare[LOCKED_AT]!, rare[LOCKED_UNTIL]!, now)
    const denied = lockEnd(rare[DENIED_AT]!, rare[DENIALS_UNTIL]!, now)
    return Math.max(until, locked, denied, this.changeUntil)
  }

  /** Returns the microsecond until which anything in the row counts after it is written. */
  expiry(): number {
    if (!this.hasRare) return this.until
    return Math.max(this.until, this.lockedUntil, this.rare[DENIALS_UNTIL]!, this.changeUntil)
  }
}

/** Returns the microsecond until which a state counts; now if it has expired. */
function endOf(writer: CompiledLimit, cells: Float64Array, entries: Entries, now: number): number {
  writer.step(writer.nonStrict, cells, 0, ticks(writer, now), 0, written, entries)
  return now + written.reset * writer.micros
}

/**
 * Returns the microsecond until which a lock-out lasts. If the clock was ahead at its start, it lasts for its length from `now` on. Its length is the `block`
 * of the limit that began it, even if the limit has changed since.
 */
export function lockEnd(since: number, until: number, now: number): number {
  return since > now + TOLERANCE_MS * 1000 ? now + (until - since) : until
}
