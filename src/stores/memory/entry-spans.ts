const NONE = -1
const FIRST_CAPACITY = 16
/** The most entries in a span. */
export const SPAN = 64

/** The numbers of an array of indices that are kept when its length changes; -1 for the rest. */
export function resized(from: Int32Array, keep: number, length: number): Int32Array {
  const to = new Int32Array(length).fill(NONE)
  to.set(from.subarray(0, keep))
  return to
}

/**
 * The spans of all slots of a table in flat memory: a linked list for each slot. A span summarises consecutive entries of a long
 * list, so that a search passes them in one step: their cost, their number and the last of them.
 */
export class EntrySpans {
  #heads: Int32Array
  #tails: Int32Array
  #sums: Float64Array = new Float64Array(FIRST_CAPACITY)
  #counts: Int32Array = new Int32Array(FIRST_CAPACITY)
  #lasts: Int32Array = new Int32Array(FIRST_CAPACITY)
  #next: Int32Array = new Int32Array(FIRST_CAPACITY)
  #free = NONE
  #used = 0

  constructor(slots: number) {
    this.#heads = new Int32Array(slots).fill(NONE)
    this.#tails = new Int32Array(slots).fill(NONE)
  }

  /** Returns the span of the oldest entries of a slot, or -1. */
  first(slot: number): number {
    return this.#heads[slot]!
  }

  /** Returns the span of the newest entries of a slot that are in one, or -1. */
  newest(slot: number): number {
    return this.#tails[slot]!
  }

  next(s: number): number {
    return this.#next[s]!
  }

  sum(s: number): number {
    return this.#sums[s]!
  }

  count(s: number): number {
    return this.#counts[s]!
  }

  /** Returns the last entry of a span. */
  last(s: number): number {
    return this.#lasts[s]!
  }

  /** Adds to the cost and the number of a span's entries. */
  change(s: number, cost: number, count: number): void {
    this.#sums[s]! += cost
    this.#counts[s]! += count
  }

  /** Removes entry `e`, which is behind `entryBefore`, from a span behind `before`. A span without entries goes; small ones are joined. */
  removeEntry(slot: number, before: number, s: number, e: number, entryBefore: number): void {
    if (--this.#counts[s]! === 0) return this.remove(slot, before)
    if (this.#lasts[s] === e) this.#lasts[s] = entryBefore
    this.#join(slot, s, this.#next[s]!)
    this.#join(slot, before, s)
  }

  add(slot: number, sum: number, count: number, last: number): void {
    const s = this.#take()
    this.#sums[s] = sum
    this.#counts[s] = count
    this.#lasts[s] = last
    this.#next[s] = NONE
    if (this.#heads[slot] === NONE) this.#heads[slot] = s
    else this.#next[this.#tails[slot]!] = s
    this.#tails[slot] = s
  }

  /** Removes the span behind `before`, the first one when that is -1. */
  remove(slot: number, before: number): void {
    const s = before === NONE ? this.#heads[slot]! : this.#next[before]!
    if (before === NONE) this.#heads[slot] = this.#next[s]!
    else this.#next[before] = this.#next[s]!
    if (this.#tails[slot] === s) this.#tails[slot] = before
    this.#next[s] = this.#free
    this.#free = s
  }

  /** Removes the span of the newest entries. Returns how many entries it had, 0 when there is no span. */
  removeNewest(slot: number): number {
    const newest = this.#tails[slot]!
    if (newest === NONE) return 0
    let before = NONE
    for (let s = this.#heads[slot]!; s !== newest; s = this.#next[s]!) before = s
    this.remove(slot, before)
    return this.#counts[newest]!
  }

  /** Joins a span with the one behind it, when their entries fit into one. */
  #join(slot: number, s: number, after: number): void {
    if (s === NONE || after === NONE || this.#counts[s]! + this.#counts[after]! > SPAN) return
    this.change(s, this.#sums[after]!, this.#counts[after]!)
    this.#lasts[s] = this.#lasts[after]!
    this.remove(slot, s)
  }

  move(from: number, to: number): void {
    this.#heads[to] = this.#heads[from]!
    this.#tails[to] = this.#tails[from]!
    this.#heads[from] = NONE
    this.#tails[from] = NONE
  }

  resize(keep: number, slots: number): void {
    this.#heads = resized(this.#heads, keep, slots)
    this.#tails = resized(this.#tails, keep, slots)
  }

  #take(): number {
    const free = this.#free
    if (free !== NONE) this.#free = this.#next[free]!
    else if (this.#used === this.#next.length) this.#grow(2 * this.#used)
    return free === NONE ? this.#used++ : free
  }

  #grow(capacity: number): void {
    const sums = new Float64Array(capacity)
    sums.set(this.#sums)
    this.#sums = sums
    this.#counts = resized(this.#counts, this.#used, capacity)
    this.#lasts = resized(this.#lasts, this.#used, capacity)
    this.#next = resized(this.#next, this.#used, capacity)
  }
}
