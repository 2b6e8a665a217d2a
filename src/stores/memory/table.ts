import { Crowds } from './sketch.ts'
import { Slab } from './slab.ts'

const FIRST_CAPACITY = 16
const NONE = -1
/** Slots looked at per decision, to free those that are fresh again; more when a table is full. */
const SWEPT = 2
const SWEPT_WHEN_FULL = 32

/**
 * The keys of one limit: a `Map` from key to slot, and a slab of states. Slots in use are always the first `count`, so that
 * a slab shrinks by being cut off. Keys beyond `maxKeys` share what they have with others: the crowds.
 */
export class Table {
  readonly slab: Slab = new Slab(FIRST_CAPACITY)
  readonly crowds: Crowds
  readonly #maxKeys: number
  readonly #slots = new Map<string, number>()
  #keys: string[] = new Array<string>(FIRST_CAPACITY)
  #count = 0
  /** The slot that a sweep looks at next. */
  #hand = 0

  constructor(maxKeys: number) {
    this.#maxKeys = maxKeys
    this.crowds = new Crowds(maxKeys)
  }

  slotOf(key: string): number {
    const slot = this.#slots.get(key)
    return slot === undefined ? NONE : slot
  }

  /** True when a key without a slot may have been counted in a crowd, or is to be. */
  get isCrowded(): boolean {
    return this.isFull || this.crowds.isOpen
  }

  get isFull(): boolean {
    return this.#count >= this.#maxKeys
  }

  /** A slot for a key that has none. */
  add(key: string): number {
    const slot = this.#count
    const capacity = this.slab.capacity
    if (slot === capacity)
      this.#resize(capacity < this.#maxKeys ? Math.min(2 * capacity, this.#maxKeys) : capacity + FIRST_CAPACITY)
    this.#count++
    this.#slots.set(key, slot)
    this.#keys[slot] = key
    return slot
  }

  forget(key: string): void {
    const slot = this.slotOf(key)
    if (slot !== NONE) this.#remove(slot)
  }

  clear(): void {
    while (this.#count > 0) this.#remove(this.#count - 1)
    this.crowds.clear()
  }

  /** Looks at a few slots, and forgets those whose keys are fresh at a microsecond. */
  sweep(now: number): void {
    const second = Math.floor(now / 1_000_000)
    for (let looks = this.isFull ? SWEPT_WHEN_FULL : SWEPT; looks > 0 && this.#count > 0; looks--) {
      if (this.#hand >= this.#count) this.#hand = 0
      if (this.slab.isFresh(this.#hand, second)) this.#remove(this.#hand)
      else this.#hand++
    }
  }

  /** Forgets a slot's key; the last slot moves into the gap. */
  #remove(slot: number): void {
    this.#slots.delete(this.#keys[slot]!)
    this.slab.clear(slot)
    const last = --this.#count
    if (slot !== last) this.#move(last, slot)
    this.#keys[last] = ''
    const capacity = this.slab.capacity
    if (capacity > FIRST_CAPACITY && this.#count * 4 < capacity)
      this.#resize(Math.max(FIRST_CAPACITY, Math.ceil(capacity / 2)))
  }

  #move(from: number, to: number): void {
    this.slab.move(from, to)
    const key = this.#keys[from]!
    this.#keys[to] = key
    this.#slots.set(key, to)
  }

  #resize(capacity: number): void {
    const keys = new Array<string>(capacity)
    for (let slot = 0; slot < this.#count; slot++) keys[slot] = this.#keys[slot]!
    this.#keys = keys
    this.slab.resize(capacity)
  }
}
