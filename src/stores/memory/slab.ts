import type { Outcome } from '../../algorithms/algorithm.ts'
import { type Entries, type EntryArray, newEntries } from '../../algorithms/entries.ts'
import { RARE, type Row } from '../../engine/row.ts'
import type { CompiledLimit } from '../../engine/compiled-limit.ts'
import { TOLERANCE_MS } from '../../util/ticks.ts'

/** The expiry of a slot that never expires. */
const NEVER = 0xffff_ffff
/** The most limits that are kept to make equal limits one object: a program may create a limit for each request. */
const MOST_LIMITS = 1000

/**
 * Rows in flat memory. Each row has a numbered slot, with its cells and the second in which to check whether it has expired. If necessary, it also has
 * the limit that wrote it, entries and rare parts.
 */
export class Slab {
  /** `stride` numbers for each slot. */
  cells: Float64Array
  stride: number
  capacity: number
  /** The limit that wrote all slots, until there are several. */
  #writer: CompiledLimit | undefined
  /** The limit that wrote each slot, once there are several. */
  #writers: (CompiledLimit | undefined)[] | undefined
  readonly #limits = new Map<string, CompiledLimit>()
  /** The entries of each slot. Absent until a limit keeps entries. */
  #entries: (EntryArray | undefined)[] | undefined
  /** The rare parts of rows, with one number for each slot. A part is absent until a row has it. */
  readonly #rare: (Float64Array | undefined)[] = new Array<undefined>(RARE).fill(undefined)
  #hasRare = false
  /** The epoch second in which each slot may have expired. Decisions in place do not change it: a sweep reads the state then. */
  #expiries: Uint32Array
  /** The longest time in microseconds for which a row was kept. */
  #longest = 0

  constructor(capacity: number, stride = 1) {
    this.capacity = capacity
    this.stride = stride
    this.cells = new Float64Array(capacity * stride)
    this.#expiries = new Uint32Array(capacity)
  }

  /** Returns true if a limit wrote the state of a slot and the slot has no rare part. */
  isPlain(slot: number, compiled: CompiledLimit): boolean {
    return this.#writerOf(slot)?.signature === compiled.signature && !(this.#hasRare && this.#isRare(slot))
  }

  #isRare(slot: number): boolean {
    for (const part of this.#rare) if (part !== undefined && part[slot] !== 0) return true
    return false
  }

  entriesOf(slot: number): Entries {
    return this.#entries![slot]!
  }

  /** Writes the first state of a limit into a clear slot. */
  begin(slot: number, compiled: CompiledLimit, outcome: Outcome, now: number): void {
    this.#setWriter(slot, compiled)
    this.keepUntil(slot, now, now + outcome.reset * compiled.micros)
    if (compiled.hasEntries) this.#entries![slot] = newEntries()
    this.write(slot, compiled, outcome)
  }

  /** Writes the next state of a limit over its own. */
  write(slot: number, compiled: CompiledLimit, { next, edit }: Outcome): void {
    const { cells } = this
    const at = slot * this.stride
    for (let i = 0; i < compiled.cells; i++) cells[at + i] = next[i]!
    if (compiled.hasEntries) this.#entries![slot]!.apply(edit)
  }

  aim(row: Row, slot: number): void {
    const { cells, stride } = this
    row.aim(slot, this.#entries?.[slot], this.#writerOf(slot))
    for (let i = 0; i < stride; i++) row.cells[i] = cells[slot * stride + i]!
    if (this.#hasRare) this.#aimRare(row, slot)
  }

  #aimRare(row: Row, slot: number): void {
    for (let i = 0; i < RARE; i++) {
      const value = this.#rare[i]?.[slot] ?? 0
      row.rare[i] = value
      if (value !== 0) row.hasRare = true
    }
  }

  /** Writes a row, which may come from another place, into a slot. */
  save(row: Row, slot: number, now: number): void {
    const { writer, cells } = row
    for (let i = 0; i < (writer?.cells ?? 0); i++) this.cells[slot * this.stride + i] = cells[i]!
    if (this.#entries !== undefined) this.#entries[slot] = row.entries
    this.#setWriter(slot, writer)
    if (row.hasRare || this.#hasRare) this.#saveRare(row, slot)
    this.keepUntil(slot, now, row.expiry())
  }

  #saveRare(row: Row, slot: number): void {
    this.#hasRare = true
    for (let i = 0; i < RARE; i++) {
      const value = row.rare[i]!
      if (value !== 0 || this.#rare[i] !== undefined) (this.#rare[i] ??= new Float64Array(this.capacity))[slot] = value
    }
  }

  /** Sets the expiry of a slot. It is rounded up by a second or more, because it only frees memory. */
  keepUntil(slot: number, now: number, until: number): void {
    this.#expiries[slot] = until === 0 ? 0 : Math.min(Math.floor(until * 1e-6) + 2, NEVER)
    if (until - now > this.#longest) this.#longest = until - now
  }

  /** Returns whether a slot has expired. If not, sets the second in which to check it again. */
  hasExpired(slot: number, probe: Row, now: number): boolean {
    const second = Math.floor(now * 1e-6)
    const expiry = this.possibleExpiry(this.#expiries[slot]!, second)
    this.#expiries[slot] = expiry
    if (!hasPassed(expiry, second)) return false
    this.aim(probe, slot)
    // A state is kept longer by the time by which a clock may step back. A state from a clock that was ahead would begin again at each check.
    const oldest = now - TOLERANCE_MS * 1000
    const until = probe.lastsUntil(now)
    if (until <= oldest || probe.isCarriedOver) return true
    this.keepUntil(slot, now, until)
    return false
  }

  /** Returns the epoch second at which a slot may have expired. */
  expiry(slot: number): number {
    return this.#expiries[slot]!
  }

  /** Limits an expiry to the latest one that is possible at an epoch second. A later one was set while the clock was ahead, and would keep memory. */
  possibleExpiry(expiry: number, second: number): number {
    return Math.min(expiry, second + Math.ceil(this.#longest * 1e-6) + 2)
  }

  /** Makes room for the states of a limit. */
  fit({ cells, hasEntries }: CompiledLimit): void {
    if (hasEntries) this.#entries ??= new Array<undefined>(this.capacity).fill(undefined)
    if (cells <= this.stride) return
    const wider = new Float64Array(this.capacity * cells)
    for (let slot = 0; slot < this.capacity; slot++)
      for (let i = 0; i < this.stride; i++) wider[slot * cells + i] = this.cells[slot * this.stride + i]!
    this.cells = wider
    this.stride = cells
  }

  clear(slot: number): void {
    if (this.#writers !== undefined) this.#setWriter(slot, undefined)
    this.#expiries[slot] = 0
    if (this.#hasRare) for (const part of this.#rare) if (part !== undefined) part[slot] = 0
    if (this.#entries !== undefined) this.#entries[slot] = undefined
  }

  /** Moves a slot into a clear slot. */
  move(from: number, to: number): void {
    const { stride } = this
    this.cells.copyWithin(to * stride, from * stride, (from + 1) * stride)
    this.#expiries[to] = this.#expiries[from]!
    if (this.#hasRare) for (const part of this.#rare) if (part !== undefined) part[to] = part[from]!
    if (this.#entries !== undefined) this.#entries[to] = this.#entries[from]
    if (this.#writers !== undefined) this.#setWriter(to, this.#writerOf(from))
    this.clear(from)
  }

  resize(capacity: number): void {
    this.cells = copied(this.cells, new Float64Array(capacity * this.stride))
    this.#expiries = copied(this.#expiries, new Uint32Array(capacity))
    if (this.#writers !== undefined) this.#writers = resized(this.#writers, capacity)
    for (let i = 0; i < RARE; i++) {
      const part = this.#rare[i]
      if (part !== undefined) this.#rare[i] = copied(part, new Float64Array(capacity))
    }
    if (this.#entries !== undefined) this.#entries = resized(this.#entries, capacity)
    this.capacity = capacity
  }

  /** Returns the limit that wrote a slot that is in use. */
  #writerOf(slot: number): CompiledLimit | undefined {
    return this.#writers === undefined ? this.#writer : this.#writers[slot]
  }

  #setWriter(slot: number, writer: CompiledLimit | undefined): void {
    if (this.#writers === undefined) {
      this.#writer ??= writer
      if (writer !== undefined && this.#writer?.signature === writer.signature) return
      this.#writers = new Array<CompiledLimit | undefined>(this.capacity).fill(this.#writer)
    }
    if (this.#writers[slot]?.signature !== writer?.signature) this.#writers[slot] = writer && this.#only(writer)
  }

  /** Returns the same object for limits that are equal. */
  #only(limit: CompiledLimit): CompiledLimit {
    const known = this.#limits.get(limit.signature) ?? limit
    if (this.#limits.size >= MOST_LIMITS) this.#limits.clear()
    this.#limits.set(limit.signature, known)
    return known
  }
}

function resized<Value>(from: readonly Value[], length: number): Value[] {
  return Array.from({ length }, (_, i) => from[i]!)
}

function copied<Numbers extends Float64Array | Uint32Array>(from: Numbers, to: Numbers): Numbers {
  to.set(from.length > to.length ? from.subarray(0, to.length) : from)
  return to
}

/** Returns true if an expiry has passed at an epoch second. Expiries of more than 32 bits, from the year 2106 on, never pass. */
export function hasPassed(expiry: number, second: number): boolean {
  return expiry <= second && expiry < NEVER
}
