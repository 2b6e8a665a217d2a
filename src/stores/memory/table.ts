import type { Outcome } from '../../algorithms/algorithm.ts'
import { type Entries, type EntryArray, newEntries } from '../../algorithms/entries.ts'
import { NOWHERE, RARE, type Row } from '../../engine/row.ts'
import type { CompiledLimit } from '../../engine/compiled-limit.ts'
import { copyText } from '../../util/bounded-key.ts'
import { TOLERANCE_MS } from '../../util/ticks.ts'
import type { CacheEntry } from '../store.ts'

/** The expiry of a slot that never expires. */
const NEVER = 0xffff_ffff
/** The most limits that are kept to make equal limits one object: a program may create a limit for each request. */
const MOST_LIMITS = 1000
const FIRST_CAPACITY = 16
/** How many slots one sweep checks for expiry. */
const SWEPT = 16
const SWEPT_WHEN_FULL = 32
/** How many slots a sweep of all slots checks between two readings of the time. */
const SWEPT_AT_ONCE = 256
/** Decisions between two sweeps. A table is swept at once after a key has found no room. */
const SWEEP_INTERVAL = 16

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
  /** The limit that wrote all slots, while no slot has a rare part. */
  #plainFor: CompiledLimit | undefined
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
    if (this.#plainFor === compiled) return true
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
    this.#plainFor = undefined
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
      if (writer !== undefined && this.#writer === undefined) {
        this.#writer = writer
        if (!this.#hasRare) this.#plainFor = writer
      }
      if (writer !== undefined && this.#writer?.signature === writer.signature) return
      this.#plainFor = undefined
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

/** The part of the rows of keys above `maxKeys` that a table uses. */
interface Expiring {
  hasExpired(now: number): boolean
}

/** Holds the rows of keys above `maxKeys`, from the first such key until nothing in these rows counts. */
export interface Beyond<Rows extends Expiring = Expiring> {
  rows: Rows | undefined
}

/**
 * The keys of one limit: a `Map` from key to slot, and a slab of rows. The slots in use are always the first `count` slots, so that a slab can shrink.
 */
export class Table<Rows extends Expiring = Expiring> implements CacheEntry {
  /** The store. It is replaced when the table is released, so that no policy uses the table from its cache. */
  owner: object
  readonly limiter: string
  readonly limit: string
  readonly slab: Slab
  readonly slots: Map<string, number> = new Map<string, number>()
  readonly beyond: Beyond<Rows>
  /** Decisions until the next sweep. The first one is due at once, so that many short-lived tables are swept. */
  untilSweep = 1
  /** True if the table was used since its last sweep by `Tables`. */
  isUsed = true
  readonly #maxKeys: number
  #keys: string[] = []
  #count = 0
  /** The slot that a sweep checks next. */
  #sweepCursor = 0

  /** @param beyond the shared rows. A table without slots gets the slots of other tables, and a slab that it does not use */
  constructor(
    owner: object,
    { limiter, limit }: { readonly limiter: string; readonly limit: string },
    maxKeys: number,
    beyond: Beyond<Rows> = { rows: undefined },
    slab: Slab = new Slab(FIRST_CAPACITY),
  ) {
    this.owner = owner
    this.limiter = limiter
    this.limit = limit
    this.#maxKeys = maxKeys
    this.beyond = beyond
    this.slab = slab
  }

  /** Returns the key for shared rows, which several tables may use. The lengths come first, so that two different keys never have the same text. */
  sharedKey(key: string): string {
    return `${this.limiter.length}:${this.limiter}${this.limit.length}:${this.limit}${key}`
  }

  get isEmpty(): boolean {
    return this.#count === 0 && this.beyond.rows === undefined
  }

  get isFull(): boolean {
    return this.#count >= this.#maxKeys
  }

  /** Aims a row at a key. The row of a new key is nowhere. Returns false if the key may be in a shared row. */
  aim(row: Row, key: string): boolean {
    this.isUsed = true
    const slot = this.slots.get(key)
    if (slot === undefined) {
      row.begin()
      return this.beyond.rows === undefined && !this.isFull
    }
    this.slab.aim(row, slot)
    return true
  }

  /**
   * Returns the slot of a key, and `NOWHERE` for a new key. Returns `undefined` if there is no room for a new key, or if the state cannot be stepped in its
   * place, because it has rare parts or another limit wrote it.
   */
  find(key: string, compiled: CompiledLimit): number | undefined {
    this.isUsed = true
    const slot = this.slots.get(key)
    if (slot !== undefined) return this.slab.isPlain(slot, compiled) ? slot : undefined
    return this.beyond.rows === undefined && !this.isFull ? NOWHERE : undefined
  }

  begin(key: string, compiled: CompiledLimit, outcome: Outcome, now: number): void {
    this.slab.begin(this.#add(key), compiled, outcome, now)
  }

  save(row: Row, key: string, now: number): void {
    if (row.slot === NOWHERE) row.slot = this.#add(key)
    this.slab.save(row, row.slot, now)
  }

  #add(given: string): number {
    const key = copyText(given)
    const slot = this.#count
    const { capacity } = this.slab
    if (slot === capacity)
      this.#resize(capacity < this.#maxKeys ? Math.min(2 * capacity, this.#maxKeys) : capacity + FIRST_CAPACITY)
    this.#count++
    this.slots.set(key, slot)
    this.#keys[slot] = key
    return slot
  }

  remove(key: string): void {
    const slot = this.slots.get(key)
    if (slot !== undefined) this.#remove(slot)
  }

  clear(): void {
    while (this.#count > 0) this.#remove(this.#count - 1)
    this.beyond.rows = undefined
  }

  /** Checks a few slots, and forgets keys whose states have expired at a microsecond. Frees memory that is not used. */
  sweep(now: number, probe: Row): void {
    this.#look(this.isFull ? SWEPT_WHEN_FULL : SWEPT, now, probe)
    // Otherwise the probe would keep the entries of a deleted key in memory.
    probe.begin()
    this.untilSweep = SWEEP_INTERVAL
    if (this.beyond.rows?.hasExpired(now)) this.beyond.rows = undefined
  }

  /** Checks all slots, until `end` in milliseconds of `performance.now()`. Returns false if some slots were not checked. */
  sweepAll(now: number, probe: Row, end: number): boolean {
    let left = this.#count
    while (left > 0 && performance.now() < end) {
      this.#look(SWEPT_AT_ONCE, now, probe)
      left -= SWEPT_AT_ONCE
    }
    this.sweep(now, probe)
    return left <= 0
  }

  #look(slots: number, now: number, probe: Row): void {
    for (let looks = Math.min(this.#count, slots); looks > 0; looks--) {
      if (this.#sweepCursor >= this.#count) this.#sweepCursor = 0
      if (this.slab.hasExpired(this.#sweepCursor, probe, now)) this.#remove(this.#sweepCursor)
      else this.#sweepCursor++
    }
  }

  /** Forgets the key of a slot. The last slot moves into the gap. */
  #remove(slot: number): void {
    this.slots.delete(this.#keys[slot]!)
    this.slab.clear(slot)
    const last = --this.#count
    if (slot !== last) this.#move(last, slot)
    this.#keys[last] = ''
    const { capacity } = this.slab
    if (capacity > FIRST_CAPACITY && this.#count * 4 < capacity)
      this.#resize(Math.max(FIRST_CAPACITY, Math.ceil(capacity / 2)))
  }

  #move(from: number, to: number): void {
    this.slab.move(from, to)
    const key = this.#keys[from]!
    this.#keys[to] = key
    this.slots.set(key, to)
  }

  #resize(capacity: number): void {
    const keys = new Array<string>(capacity)
    for (let slot = 0; slot < this.#count; slot++) keys[slot] = this.#keys[slot]!
    this.#keys = keys
    this.slab.resize(capacity)
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
