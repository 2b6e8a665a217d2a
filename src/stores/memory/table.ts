import type { Outcome } from '../../algorithms/algorithm.ts'
import { NOWHERE, type Row } from '../../engine/row.ts'
import type { CompiledLimit } from '../../engine/compiled-limit.ts'
import { copyText } from '../../util/bounded-key.ts'
import type { CacheEntry } from '../store.ts'
import type { SharedRows } from './shared-rows.ts'
import { Slab } from './slab.ts'

const FIRST_CAPACITY = 16
/** How many slots one sweep checks for expiry. */
const SWEPT = 16
const SWEPT_WHEN_FULL = 32
/** How many slots a sweep of all slots checks between two readings of the time. */
const SWEPT_AT_ONCE = 256
/** Decisions between two sweeps. A table is swept at once after a key has found no room. */
const SWEEP_INTERVAL = 16

/** Holds the rows of keys above `maxKeys`, from the first such key until nothing in these rows counts. */
export interface Beyond {
  rows: SharedRows | undefined
}

/**
 * The keys of one limit: a `Map` from key to slot, and a slab of rows. The slots in use are always the first `count` slots, so that a slab can shrink.
 */
export class Table implements CacheEntry {
  /** The store. It is replaced when the table is released, so that no policy uses the table from its cache. */
  owner: object
  readonly limiter: string
  readonly limit: string
  readonly slab: Slab
  readonly slots: Map<string, number> = new Map<string, number>()
  readonly beyond: Beyond
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
    beyond: Beyond = { rows: undefined },
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
