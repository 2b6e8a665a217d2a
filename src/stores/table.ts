import type { Mechanism } from '../limit.ts'
import { Configurations } from './configurations.ts'
import { EntryLists } from './entry-lists.ts'

const FIRST_CAPACITY = 16
const NONE = -1
/** Slots looked at per decision, to free those that are fresh again. */
const SWEPT = 2

/**
 * The states of all keys of one limit, in flat memory: a `Map` from key to slot, and slabs that the slots index. Slots in
 * use are always the first `count`, so that a slab shrinks by being cut off.
 */
export class Table {
  readonly configurations: Configurations = new Configurations()
  readonly #slots = new Map<string, number>()
  #keys: string[] = new Array<string>(FIRST_CAPACITY)
  #stride = 1
  /** `stride` numbers a slot. */
  cells: Float64Array = new Float64Array(FIRST_CAPACITY)
  /** Which configuration wrote a slot. */
  configuration: Uint32Array = new Uint32Array(FIRST_CAPACITY)
  /**
   * The epoch second from which on nothing is remembered of a slot's key. It decides nothing but when memory is freed, and
   * comes a second late, so that a clock may step back a little.
   */
  fresh: Uint32Array = new Uint32Array(FIRST_CAPACITY)
  /** The microsecond until which a slot's key is locked out; absent until a limit blocks. */
  blocked: Float64Array | undefined
  lists: EntryLists | undefined
  count = 0
  /** The slot that a sweep looks at next. */
  #hand = 0

  slotOf(key: string): number {
    const slot = this.#slots.get(key)
    return slot === undefined ? NONE : slot
  }

  /** Where the cells of a slot begin. */
  offset(slot: number): number {
    return slot * this.#stride
  }

  blockedUntil(slot: number): number {
    return this.blocked === undefined || slot === NONE ? 0 : this.blocked[slot]!
  }

  block(slot: number, until: number): void {
    this.blocked ??= new Float64Array(this.configuration.length)
    this.blocked[slot] = until
  }

  /** Makes a table fit for a limit: cells as wide as its algorithm's, entries where it keeps them. */
  fit({ algorithm }: Mechanism): void {
    if (algorithm.blank.length > this.#stride) this.#widen(algorithm.blank.length)
    if (algorithm.entries) this.lists ??= new EntryLists(this.configuration.length)
  }

  /** Notes which configuration a slot's state is written under. */
  configure(slot: number, mechanism: Mechanism): void {
    const id = this.configuration[slot]!
    const wrote = this.configurations.at(id)
    if (wrote === mechanism || wrote?.signature === mechanism.signature) return
    if (wrote?.algorithm.entries && !mechanism.algorithm.entries) this.lists!.clear(slot)
    this.configuration[slot] = this.configurations.acquire(mechanism)
    this.configurations.release(id)
  }

  /** A slot for a key that has none. */
  add(key: string): number {
    const slot = this.count
    if (slot === this.configuration.length) this.#resize(2 * slot)
    this.count++
    this.#slots.set(key, slot)
    this.#keys[slot] = key
    this.configuration[slot] = Configurations.NONE
    this.fresh[slot] = 0
    return slot
  }

  /** Notes that a slot's key is fresh again at a microsecond. */
  remember(slot: number, until: number): void {
    this.fresh[slot] = Math.min(Math.ceil(until / 1_000_000) + 1, 0xffff_ffff)
  }

  /** Notes that a slot's key is to be remembered until a microsecond, or longer. */
  prolong(slot: number, until: number): void {
    const before = this.fresh[slot]!
    this.remember(slot, until)
    this.fresh[slot] = Math.max(this.fresh[slot]!, before)
  }

  /** Looks at a slot or two, and forgets those whose keys are fresh again at a microsecond. */
  sweep(now: number): void {
    const second = Math.floor(now / 1_000_000)
    for (let looks = 0; looks < SWEPT && this.count > 0; looks++) {
      if (this.#hand >= this.count) this.#hand = 0
      if (this.fresh[this.#hand]! <= second) this.remove(this.#hand)
      else this.#hand++
    }
  }

  /** Forgets a slot's key; the last slot moves into the gap. */
  remove(slot: number): void {
    this.#slots.delete(this.#keys[slot]!)
    this.configurations.release(this.configuration[slot]!)
    this.lists?.clear(slot)
    const last = --this.count
    if (slot !== last) this.#move(last, slot)
    this.#keys[last] = ''
    if (this.blocked !== undefined) this.blocked[last] = 0
    const capacity = this.configuration.length
    if (capacity > FIRST_CAPACITY && this.count * 4 < capacity) this.#resize(capacity / 2)
  }

  forget(key: string): void {
    const slot = this.slotOf(key)
    if (slot !== NONE) this.remove(slot)
  }

  clear(): void {
    while (this.count > 0) this.remove(this.count - 1)
  }

  #move(from: number, to: number): void {
    this.cells.copyWithin(this.offset(to), this.offset(from), this.offset(from + 1))
    this.configuration[to] = this.configuration[from]!
    this.fresh[to] = this.fresh[from]!
    if (this.blocked !== undefined) this.blocked[to] = this.blocked[from]!
    this.lists?.move(from, to)
    const key = this.#keys[from]!
    this.#keys[to] = key
    this.#slots.set(key, to)
  }

  #resize(capacity: number): void {
    const keys = new Array<string>(capacity)
    for (let slot = 0; slot < this.count; slot++) keys[slot] = this.#keys[slot]!
    this.#keys = keys
    this.cells = copied(this.cells, new Float64Array(capacity * this.#stride))
    this.configuration = copied(this.configuration, new Uint32Array(capacity))
    this.fresh = copied(this.fresh, new Uint32Array(capacity))
    if (this.blocked !== undefined) this.blocked = copied(this.blocked, new Float64Array(capacity))
    this.lists?.resize(capacity)
  }

  #widen(stride: number): void {
    const cells = new Float64Array(this.configuration.length * stride)
    for (let slot = 0; slot < this.count; slot++) {
      cells.set(this.cells.subarray(this.offset(slot), this.offset(slot + 1)), slot * stride)
    }
    this.cells = cells
    this.#stride = stride
  }
}

function copied<Slab extends Float64Array | Uint32Array>(from: Slab, to: Slab): Slab {
  to.set(from.length > to.length ? from.subarray(0, to.length) : from)
  return to
}
