import type { CompiledLimit } from '../../limits/compiled-limit.ts'
import { Configurations } from './limit-ids.ts'
import { EntryLists, EntryView } from './entry-lists.ts'

/** The second at which what is never forgotten would be. */
const NEVER = 0xffff_ffff

/**
 * States side by side in flat memory, each in a numbered slot: its cells, which configuration wrote them, until when they
 * mean anything, until when the key is locked out, and its entries.
 */
export class Slab {
  /** `stride` numbers a slot. */
  cells: Float64Array
  lists: EntryLists | undefined
  #stride = 1
  readonly #configurations = new Configurations()
  #configuration: Uint32Array
  /**
   * The epoch second from which on a slot is fresh. It decides nothing but when memory is freed, and comes a second late, so
   * that a clock may step back a little.
   */
  #fresh: Uint32Array
  /** The microsecond until which a slot's key is locked out; absent until a limit blocks. */
  #locked: Float64Array | undefined

  constructor(capacity: number) {
    this.cells = new Float64Array(capacity)
    this.#configuration = new Uint32Array(capacity).fill(Configurations.NONE)
    this.#fresh = new Uint32Array(capacity)
  }

  get capacity(): number {
    return this.#fresh.length
  }

  /** Where the cells of a slot begin. */
  offset(slot: number): number {
    return slot * this.#stride
  }

  /** What wrote a slot; `undefined` when nothing has. */
  wrote(slot: number): CompiledLimit | undefined {
    return this.#configurations.at(this.#configuration[slot]!)
  }

  /** True when any key has ever been locked out. */
  get hasLocks(): boolean {
    return this.#locked !== undefined
  }

  /** The microsecond until which a slot's key is locked out; 0 for none. */
  lockedUntil(slot: number): number {
    return this.#locked === undefined ? 0 : this.#locked[slot]!
  }

  lock(slot: number, until: number): void {
    this.#locked ??= new Float64Array(this.capacity)
    this.#locked[slot] = until
    this.#fresh[slot] = Math.max(this.#fresh[slot]!, secondAfter(until))
  }

  /** Notes that a slot, unless locked for longer, is fresh at a microsecond. */
  remember(slot: number, until: number): void {
    const second = secondAfter(until)
    this.#fresh[slot] = this.#locked === undefined ? second : Math.max(second, secondAfter(this.#locked[slot]!))
  }

  /** The epoch second from which on a slot is fresh. */
  freshFrom(slot: number): number {
    return this.#fresh[slot]!
  }

  /** True when nothing in a slot means anything from an epoch second on. */
  isFresh(slot: number, second: number): boolean {
    return this.#fresh[slot]! <= second
  }

  /** Makes room for the states of a limit: cells as wide as its algorithm's, entries where it keeps them. */
  fit({ algorithm }: CompiledLimit): void {
    if (algorithm.initialState.length > this.#stride) this.#widen(algorithm.initialState.length)
    if (algorithm.entries) this.lists ??= new EntryLists(this.capacity)
  }

  /** Notes which configuration a slot is written under. */
  configure(slot: number, compiled: CompiledLimit): void {
    const id = this.#configuration[slot]!
    const wrote = this.#configurations.at(id)
    if (wrote === compiled || wrote?.signature === compiled.signature) return
    if (wrote?.algorithm.entries && !compiled.algorithm.entries) this.lists!.clear(slot)
    this.#configuration[slot] = this.#configurations.acquire(compiled)
    this.#configurations.release(id)
  }

  clear(slot: number): void {
    this.#configurations.release(this.#configuration[slot]!)
    this.#configuration[slot] = Configurations.NONE
    this.#fresh[slot] = 0
    if (this.#locked !== undefined) this.#locked[slot] = 0
    this.lists?.clear(slot)
  }

  /** Moves a slot into one that is clear. */
  move(from: number, to: number): void {
    this.cells.copyWithin(this.offset(to), this.offset(from), this.offset(from + 1))
    this.#configuration[to] = this.#configuration[from]!
    this.#configuration[from] = Configurations.NONE
    this.#fresh[to] = this.#fresh[from]!
    if (this.#locked !== undefined) this.#locked[to] = this.#locked[from]!
    this.lists?.move(from, to)
    this.clear(from)
  }

  /** Copies a slot of another slab into one that is clear. */
  adopt(slot: number, from: Slab, source: number): void {
    const wrote = from.wrote(source)
    if (wrote !== undefined) {
      this.fit(wrote)
      for (let i = 0; i < wrote.initialState.length; i++)
        this.cells[this.offset(slot) + i] = from.cells[from.offset(source) + i]!
      this.configure(slot, wrote)
      if (wrote.algorithm.entries) this.lists!.replace(slot, new EntryView().aim(from.lists!, source))
    }
    this.#fresh[slot] = from.#fresh[source]!
    if (from.#locked !== undefined) this.lock(slot, from.#locked[source]!)
  }

  resize(capacity: number): void {
    const before = this.capacity
    this.cells = copied(this.cells, new Float64Array(capacity * this.#stride))
    this.#configuration = copied(this.#configuration, new Uint32Array(capacity))
    if (capacity > before) this.#configuration.fill(Configurations.NONE, before)
    this.#fresh = copied(this.#fresh, new Uint32Array(capacity))
    if (this.#locked !== undefined) this.#locked = copied(this.#locked, new Float64Array(capacity))
    this.lists?.resize(capacity)
  }

  #widen(stride: number): void {
    const cells = new Float64Array(this.capacity * stride)
    for (let slot = 0; slot < this.capacity; slot++) {
      for (let i = 0; i < this.#stride; i++) cells[slot * stride + i] = this.cells[slot * this.#stride + i]!
    }
    this.cells = cells
    this.#stride = stride
  }
}

function secondAfter(microsecond: number): number {
  return microsecond === 0 ? 0 : Math.min(Math.ceil(microsecond / 1_000_000) + 1, NEVER)
}

function copied<Numbers extends Float64Array | Uint32Array>(from: Numbers, to: Numbers): Numbers {
  to.set(from.length > to.length ? from.subarray(0, to.length) : from)
  return to
}
