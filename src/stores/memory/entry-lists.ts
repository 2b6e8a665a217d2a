import type { Edit, Entries } from '../../algorithms/entries.ts'

const NONE = -1
const FIRST_CAPACITY = 64

/** The entries of one slot, as an algorithm reads them. One view serves any number of slots in turn. */
export class EntryView implements Entries {
  first: number = NONE
  #lists!: EntryLists

  aim(lists: EntryLists, slot: number): this {
    this.#lists = lists
    this.first = lists.first(slot)
    return this
  }

  next(e: number): number {
    return this.#lists.next(e)
  }

  time(e: number): number {
    return this.#lists.time(e)
  }

  cost(e: number): number {
    return this.#lists.cost(e)
  }
}

/**
 * The entries of all keys of a table in flat memory: a linked list of (time, cost) for each slot. An entry takes 20 bytes, a slot
 * 8, and there is no object for a key.
 */
export class EntryLists {
  #heads: Int32Array
  #tails: Int32Array
  #pairs = new Float64Array(2 * FIRST_CAPACITY)
  #next = new Int32Array(FIRST_CAPACITY)
  #free = NONE
  #used = 0
  #live = 0

  constructor(slots: number) {
    this.#heads = new Int32Array(slots).fill(NONE)
    this.#tails = new Int32Array(slots).fill(NONE)
  }

  next(e: number): number {
    return this.#next[e]!
  }

  time(e: number): number {
    return this.#pairs[2 * e]!
  }

  cost(e: number): number {
    return this.#pairs[2 * e + 1]!
  }

  first(slot: number): number {
    return this.#heads[slot]!
  }

  apply(slot: number, edit: Edit): void {
    if (edit.amend !== NONE) this.#pairs[2 * edit.amend + 1] = edit.amendCost
    for (let n = edit.drop; n > 0; n--) this.#shift(slot)
    if (edit.pushCost > 0) this.push(slot, edit.pushTime, edit.pushCost)
  }

  push(slot: number, time: number, cost: number): void {
    const tail = this.#tails[slot]!
    if (tail !== NONE && this.time(tail) === time) {
      this.#pairs[2 * tail + 1]! += cost
      return
    }
    const e = this.#take(time, cost)
    if (tail === NONE) this.#heads[slot] = e
    else this.#next[tail] = e
    this.#tails[slot] = e
  }

  clear(slot: number): void {
    while (this.#heads[slot] !== NONE) this.#shift(slot)
  }

  replace(slot: number, entries: Entries): void {
    this.clear(slot)
    for (let e = entries.first; e !== NONE; e = entries.next(e)) this.push(slot, entries.time(e), entries.cost(e))
  }

  move(from: number, to: number): void {
    this.#heads[to] = this.#heads[from]!
    this.#tails[to] = this.#tails[from]!
    this.#heads[from] = NONE
    this.#tails[from] = NONE
  }

  /** Makes room for another number of slots. */
  resize(slots: number): void {
    const keep = Math.min(slots, this.#heads.length)
    this.#heads = resized(this.#heads, keep, slots)
    this.#tails = resized(this.#tails, keep, slots)
    this.trim()
  }

  /** Packs the entries when most of the memory is idle: after so many were freed that looking at all slots is cheap beside it. */
  trim(): void {
    const idle = this.#next.length - this.#live
    if (this.#next.length > FIRST_CAPACITY && idle > 3 * this.#live && idle * 4 >= this.#heads.length)
      this.#pack(this.#heads.length)
  }

  #shift(slot: number): void {
    const e = this.#heads[slot]!
    const next = this.#next[e]!
    this.#heads[slot] = next
    if (next === NONE) this.#tails[slot] = NONE
    this.#next[e] = this.#free
    this.#free = e
    this.#live--
  }

  #take(time: number, cost: number): number {
    if (this.#free === NONE && this.#used === this.#next.length) this.#reallocate(2 * this.#used)
    const e = this.#free === NONE ? this.#used++ : this.#free
    if (e === this.#free) this.#free = this.#next[e]!
    this.#pairs[2 * e] = time
    this.#pairs[2 * e + 1] = cost
    this.#next[e] = NONE
    this.#live++
    return e
  }

  #reallocate(capacity: number): void {
    const pairs = new Float64Array(2 * capacity)
    const next = new Int32Array(capacity)
    pairs.set(this.#pairs)
    next.set(this.#next)
    this.#pairs = pairs
    this.#next = next
  }

  #pack(slots: number): void {
    const old = new EntryLists(0)
    old.#pairs = this.#pairs
    old.#next = this.#next
    const capacity = Math.max(FIRST_CAPACITY, 2 * this.#live)
    this.#pairs = new Float64Array(2 * capacity)
    this.#next = new Int32Array(capacity)
    this.#free = NONE
    this.#used = 0
    this.#live = 0
    for (let slot = 0; slot < slots; slot++) {
      let e = this.#heads[slot]!
      this.#heads[slot] = NONE
      this.#tails[slot] = NONE
      for (; e !== NONE; e = old.next(e)) this.push(slot, old.time(e), old.cost(e))
    }
  }
}

function resized(from: Int32Array, keep: number, length: number): Int32Array {
  const to = new Int32Array(length).fill(NONE)
  to.set(from.subarray(0, keep))
  return to
}
