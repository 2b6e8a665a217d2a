import { copyText } from '../../util/copy-text.ts'
import type { CacheEntry } from '../policy-cache.ts'
import type { Sketch } from './sketch.ts'
import { Slab } from './slab.ts'
import { reset } from './state.ts'

const FIRST_CAPACITY = 16
const NONE = -1
/** Slots that one sweep looks at, to free those that have expired. */
const SWEPT = 16
/** Decisions between two sweeps. A full table is swept at each decision, and more of it. */
const SWEEP_INTERVAL = 16
const SWEPT_WHEN_FULL = 32

/** Where the sketch of keys beyond `maxKeys` is: from the first such key on, until nothing in it counts. */
export interface SketchHolder {
  sketch: Sketch | undefined
}

/**
 * The keys of one limit: a `Map` from key to slot, and a slab of states. Slots in use are always the first `count`, so that
 * a slab shrinks from its end. Keys beyond `maxKeys` share counters in a sketch.
 */
export class Table implements CacheEntry {
  /** The store. Another object once the table is released, so that no policy finds it any longer. */
  owner: object
  readonly limiter: string
  readonly limit: string
  readonly slab: Slab
  readonly slots: Map<string, number> = new Map<string, number>()
  readonly holder: SketchHolder
  readonly #maxKeys: number
  #keys: string[] = []
  #count = 0
  /** The slot that a sweep looks at next. */
  #sweepCursor = 0
  /** Decisions until the next sweep. The first one is due at once, so that many short-lived tables are swept. */
  untilSweep = 1

  /** @param holder where its sketch is, and any slab, for a table without keys of its own */
  constructor(
    owner: object,
    { limiter, limit }: { readonly limiter: string; readonly limit: string },
    maxKeys: number,
    holder: SketchHolder = { sketch: undefined },
    slab: Slab = new Slab(FIRST_CAPACITY),
  ) {
    this.owner = owner
    this.limiter = limiter
    this.limit = limit
    this.#maxKeys = maxKeys
    this.holder = holder
    this.slab = slab
  }

  get sketch(): Sketch | undefined {
    return this.holder.sketch
  }

  /** Returns a key as the sketch knows it, which tables may share. Lengths come first, so that no text can pass for a boundary. */
  sketchKey(key: string): string {
    return `${this.limiter.length}:${this.limiter}${this.limit.length}:${this.limit}${key}`
  }

  /** True when nothing in it counts. */
  get isEmpty(): boolean {
    return this.#count === 0 && this.sketch === undefined
  }

  /** Returns the slot of a key, -1 when it has none. */
  slotOf(key: string): number {
    return this.slots.get(key) ?? NONE
  }

  /** True when a key without a slot may have been counted in a sketch, or is to be. */
  get overflows(): boolean {
    return this.isFull || this.sketch !== undefined
  }

  get isFull(): boolean {
    return this.#count >= this.#maxKeys
  }

  /** Returns a slot for a key that has none. */
  add(given: string): number {
    const key = copyText(given)
    const slot = this.#count
    const { capacity } = this.slab
    if (slot === capacity)
      this.#resize(capacity < this.#maxKeys ? Math.min(2 * capacity, this.#maxKeys) : capacity + FIRST_CAPACITY)
    this.#count++
    this.slots.set(key, slot)
    this.#keys[slot] = key
    if (this.isFull) this.untilSweep = 1
    return slot
  }

  /** Deletes the state of a key. Returns false when it shares its counters, so that what others have used stays. */
  forget(key: string, now: number): boolean {
    const slot = this.slotOf(key)
    if (slot === NONE) return this.sketch?.forget(this.sketchKey(key), now) ?? true
    if (!reset(this.slab, slot, now)) this.#remove(slot)
    return true
  }

  clear(): void {
    while (this.#count > 0) this.#remove(this.#count - 1)
    this.holder.sketch = undefined
  }

  /** Looks at a few slots, and forgets the keys whose states have expired at a microsecond. Frees memory that is idle. */
  sweep(now: number): void {
    const second = Math.floor(now / 1_000_000)
    for (let looks = Math.min(this.#count, this.isFull ? SWEPT_WHEN_FULL : SWEPT); looks > 0; looks--) {
      if (this.#sweepCursor >= this.#count) this.#sweepCursor = 0
      this.slab.correctExpiry(this.#sweepCursor, second)
      if (this.slab.isExpired(this.#sweepCursor, second)) this.#remove(this.#sweepCursor)
      else this.#sweepCursor++
    }
    this.untilSweep = this.isFull ? 1 : SWEEP_INTERVAL
    this.slab.lists?.trim()
    if (this.sketch?.hasExpired(now)) this.holder.sketch = undefined
  }

  /** Forgets a slot's key; the last slot moves into the gap. */
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
