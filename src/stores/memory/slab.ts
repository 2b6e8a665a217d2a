import type { CompiledLimit } from '../../limits/compiled-limit.ts'
import { isAhead, lockEnd } from '../clock-fault.ts'
import { Denials } from './denials.ts'
import { EntryLists } from './entry-lists.ts'
import { LimitIds, NO_LIMIT } from './limit-ids.ts'

/** The expiry of a slot that never expires. */
const NEVER = 0xffff_ffff

/**
 * States in flat memory, each in a numbered slot: its cells and the limit that wrote them, the second in which it
 * expires and, if limits need them, a lock and entries.
 */
export class Slab {
  /** `stride` numbers for each slot: its cells, then the id of the limit that wrote them. */
  cells: Float64Array
  stride = 2
  capacity: number
  lists: EntryLists | undefined
  /** Two microseconds for each slot: until when its key is locked out, and since when. Absent until a key is locked. */
  locks: Float64Array | undefined
  /** Two microseconds for each slot: until when a change of its limit or a reset matters, and when that was. Absent until there is one. */
  #changes: Float64Array | undefined
  /** Absent until a denial is counted. */
  denials: Denials | undefined
  /** The epoch second in which each slot expires. It is only written on a decision, and read in runs by a sweep. */
  #expiries: Uint32Array
  /** The microseconds for which the most lasting state or lock was kept, and the most lasting state. */
  #longest = 0
  #longestState = 0
  readonly #limits = new LimitIds()

  constructor(capacity: number) {
    this.capacity = capacity
    this.cells = new Float64Array(capacity * this.stride)
    this.#expiries = new Uint32Array(capacity)
  }

  /** Returns where the cells of a slot begin. */
  offset(slot: number): number {
    return slot * this.stride
  }

  /** Returns the limit that wrote a slot, or undefined when none has. */
  writtenBy(slot: number): CompiledLimit | undefined {
    return this.#limits.at(this.cells[(slot + 1) * this.stride - 1]!)
  }

  /** Returns true when a limit itself wrote a slot by a clock that was not ahead of a tick, and its key has no lock. */
  isPlain(slot: number, compiled: CompiledLimit, tick: number): boolean {
    if (this.locks !== undefined && this.locks[2 * slot] !== 0) return false
    if (this.writtenBy(slot) !== compiled) return false
    return !isAhead(compiled, this.cells, this.offset(slot), tick)
  }

  /** Returns the microsecond until which a slot's key is locked out, 0 for none. It is corrected if a clock ahead began the lock-out. */
  lockedUntil(slot: number, now: number): number {
    return this.locks === undefined ? 0 : lockEnd(this.locks[2 * slot + 1]!, this.locks[2 * slot]!, now)
  }

  /** Returns true when a clock that is ahead of a microsecond began the lock-out of a slot's key. */
  isLockAhead(slot: number, now: number): boolean {
    return this.locks !== undefined && this.lockedUntil(slot, now) !== this.locks[2 * slot]
  }

  /** Locks a slot's key out from now on. A lock-out that ends at that time keeps its begin. */
  lock(slot: number, now: number, until: number): void {
    this.locks ??= new Float64Array(2 * this.capacity)
    if (this.locks[2 * slot] !== until) this.locks[2 * slot + 1] = now
    this.locks[2 * slot] = until
    this.#prolong(slot, now, until)
  }

  /** Notes how many denials of a slot's key count until a microsecond. */
  countDenials(slot: number, count: number, now: number, until: number): void {
    this.denials ??= new Denials(this.capacity)
    this.denials.set(slot, count, now, until)
    this.#prolong(slot, now, until)
  }

  /** Returns how many denials of a slot's key still count. */
  denialsOf(slot: number, now: number): number {
    return this.denials === undefined ? 0 : this.denials.count(slot, now)
  }

  unlock(slot: number): void {
    this.locks?.fill(0, 2 * slot, 2 * slot + 2)
  }

  /** Notes that the limit of a slot changes or its key is reset, and until when the state before counts. Nothing is noted if that is over. */
  markChange(slot: number, now: number, until: number): void {
    if (until <= now) return
    const ending = Math.max(until, this.changeUntil(slot))
    this.#changes ??= new Float64Array(2 * this.capacity)
    this.#changes[2 * slot] = ending
    this.#changes[2 * slot + 1] = now
    if (ending - now > this.#longest) this.#longest = ending - now
  }

  /** Returns the microsecond until which a change of a slot's limit or a reset matters, 0 for none. */
  changeUntil(slot: number): number {
    return this.#changes === undefined ? 0 : this.#changes[2 * slot]!
  }

  /** Returns true when a slot's limit has changed or its key was reset at a microsecond or later, as far as that matters now. */
  hasChanged(slot: number, since: number, now: number): boolean {
    return this.changeUntil(slot) > now && this.#changes![2 * slot + 1]! >= since
  }

  /** Sets when a slot expires, in microseconds; what else is kept of it may prolong it. Expiry only frees memory, so it comes a second late. */
  setExpiry(slot: number, now: number, lasting: number): void {
    const locked = this.locks === undefined ? 0 : this.locks[2 * slot]!
    const denied = this.denials === undefined ? 0 : this.denials.until(slot)
    const kept = Math.max(locked, denied, this.changeUntil(slot))
    this.#expiries[slot] = Math.max(secondAfter(now + lasting), secondAfter(kept))
    if (lasting > this.#longest) this.#longest = lasting
    if (lasting > this.#longestState) this.#longestState = lasting
  }

  /** Returns the microseconds for which the most lasting state was kept. */
  get longestState(): number {
    return this.#longestState
  }

  /** Returns the epoch second at which a slot expires. */
  expiry(slot: number): number {
    return this.#expiries[slot]!
  }

  /** Returns true if a slot has expired at an epoch second. */
  isExpired(slot: number, second: number): boolean {
    return hasPassed(this.expiry(slot), second)
  }

  /** Returns an expiry as it can be at an epoch second. A later one was set by a clock that ran ahead, and would keep memory until then. */
  possibleExpiry(expiry: number, second: number): number {
    return Math.min(expiry, second + Math.ceil(this.#longest * 1e-6) + 2)
  }

  /** Corrects the expiry of a slot at an epoch second. */
  correctExpiry(slot: number, second: number): void {
    this.#expiries[slot] = this.possibleExpiry(this.expiry(slot), second)
  }

  /** Makes room for the states of a limit: cells for its algorithm, entries where it keeps any. */
  fit({ cells, hasEntries }: CompiledLimit): void {
    if (cells >= this.stride) this.#widen(cells + 1)
    if (hasEntries) this.lists ??= new EntryLists(this.capacity)
  }

  /** Notes which limit has written a slot. */
  setWriter(slot: number, compiled: CompiledLimit): void {
    const before = this.writtenBy(slot)
    if (before === compiled || before?.signature === compiled.signature) return
    if (before?.hasEntries && !compiled.hasEntries) this.lists!.clear(slot)
    this.#setId(slot, this.#limits.acquire(compiled))
  }

  clear(slot: number): void {
    this.#setId(slot, NO_LIMIT)
    this.#expiries[slot] = 0
    this.unlock(slot)
    this.#changes?.fill(0, 2 * slot, 2 * slot + 2)
    this.denials?.clear(slot)
    this.lists?.clear(slot)
  }

  /** Moves a slot into one that is clear. */
  move(from: number, to: number): void {
    this.cells.copyWithin(this.offset(to), this.offset(from), this.offset(from + 1))
    this.cells[this.offset(from + 1) - 1] = NO_LIMIT
    this.#expiries[to] = this.#expiries[from]!
    this.locks?.copyWithin(2 * to, 2 * from, 2 * from + 2)
    this.#changes?.copyWithin(2 * to, 2 * from, 2 * from + 2)
    this.denials?.move(from, to)
    this.lists?.move(from, to)
    this.clear(from)
  }

  /** Copies a slot of another slab into one that is clear, except that a change may have been noted there. */
  adopt(slot: number, from: Slab, source: number): void {
    const writer = from.writtenBy(source)
    if (writer !== undefined) {
      this.fit(writer)
      for (let i = 0; i < writer.cells; i++) this.cells[this.offset(slot) + i] = from.cells[from.offset(source) + i]!
      this.setWriter(slot, writer)
      if (writer.hasEntries) this.lists!.replace(slot, from.lists!, source)
    }
    this.#expiries[slot] = from.expiry(source)
    this.#longest = Math.max(this.#longest, from.#longest)
    if (from.#changes !== undefined) {
      const changedAt = Math.max(from.#changes[2 * source + 1]!, this.#changes?.[2 * slot + 1] ?? 0)
      this.markChange(slot, changedAt, from.changeUntil(source))
    }
    if (from.denials !== undefined) {
      this.denials ??= new Denials(this.capacity)
      this.denials.copy(slot, from.denials, source)
    }
    if (from.locks !== undefined) this.lock(slot, from.locks[2 * source + 1]!, from.locks[2 * source]!)
  }

  resize(capacity: number): void {
    this.cells = copied(this.cells, new Float64Array(capacity * this.stride))
    this.#expiries = copied(this.#expiries, new Uint32Array(capacity))
    if (this.locks !== undefined) this.locks = copied(this.locks, new Float64Array(2 * capacity))
    if (this.#changes !== undefined) this.#changes = copied(this.#changes, new Float64Array(2 * capacity))
    this.denials?.resize(capacity)
    this.lists?.resize(capacity)
    this.capacity = capacity
  }

  #prolong(slot: number, now: number, until: number): void {
    this.#expiries[slot] = Math.max(this.expiry(slot), secondAfter(until))
    if (until - now > this.#longest) this.#longest = until - now
  }

  #setId(slot: number, id: number): void {
    const at = this.offset(slot + 1) - 1
    this.#limits.release(this.cells[at]!)
    this.cells[at] = id
  }

  #widen(stride: number): void {
    const cells = new Float64Array(this.capacity * stride)
    for (let slot = 0; slot < this.capacity; slot++) {
      const from = slot * this.stride
      for (let i = 0; i < this.stride - 1; i++) cells[slot * stride + i] = this.cells[from + i]!
      cells[(slot + 1) * stride - 1] = this.cells[from + this.stride - 1]!
    }
    this.cells = cells
    this.stride = stride
  }
}

function secondAfter(microsecond: number): number {
  return microsecond === 0 ? 0 : Math.min(Math.floor(microsecond * 1e-6) + 2, NEVER)
}

function copied<Numbers extends Float64Array | Uint32Array>(from: Numbers, to: Numbers): Numbers {
  to.set(from.length > to.length ? from.subarray(0, to.length) : from)
  return to
}

/** Returns true when an expiry has passed at an epoch second. Seconds of more than 32 bits, from 2106 on, never pass. */
export function hasPassed(expiry: number, second: number): boolean {
  return expiry <= second && expiry < NEVER
}
