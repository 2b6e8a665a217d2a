const NONE = -1
const FIRST_CAPACITY = 64

/** Entries in flat memory: a time, a cost and the entry behind it. An entry takes 20 bytes. */
export class EntryPool {
  #pairs: Float64Array
  #next: Int32Array
  #free = NONE
  #used = 0
  #live = 0

  constructor(capacity: number) {
    this.#pairs = new Float64Array(2 * Math.max(capacity, FIRST_CAPACITY))
    this.#next = new Int32Array(Math.max(capacity, FIRST_CAPACITY))
  }

  /** How many entries are in use. */
  get live(): number {
    return this.#live
  }

  /** How many more have room. */
  get idle(): number {
    return this.#next.length - this.#live
  }

  /** True when it has the smallest size. */
  get isSmall(): boolean {
    return this.#next.length === FIRST_CAPACITY
  }

  time(e: number): number {
    return this.#pairs[2 * e]!
  }

  cost(e: number): number {
    return this.#pairs[2 * e + 1]!
  }

  /** Returns the entry behind another, or -1. */
  next(e: number): number {
    return this.#next[e]!
  }

  change(e: number, cost: number): void {
    this.#pairs[2 * e + 1]! += cost
  }

  link(e: number, next: number): void {
    this.#next[e] = next
  }

  take(time: number, cost: number): number {
    if (this.#free === NONE && this.#used === this.#next.length) this.#grow(2 * this.#used)
    const e = this.#free === NONE ? this.#used++ : this.#free
    if (e === this.#free) this.#free = this.#next[e]!
    this.#pairs[2 * e] = time
    this.#pairs[2 * e + 1] = cost
    this.#next[e] = NONE
    this.#live++
    return e
  }

  /** Frees so many entries in a row, at once. */
  free(first: number, last: number, count: number): void {
    this.#next[last] = this.#free
    this.#free = first
    this.#live -= count
  }

  #grow(capacity: number): void {
    const pairs = new Float64Array(2 * capacity)
    const next = new Int32Array(capacity)
    pairs.set(this.#pairs)
    next.set(this.#next)
    this.#pairs = pairs
    this.#next = next
  }
}
