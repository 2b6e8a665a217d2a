import type { Edit, EntryArray } from '../../algorithms/entries.ts'
import { EntryPool } from './entry-pool.ts'
import { EntrySpans, resized, SPAN } from './entry-spans.ts'

const NONE = -1

/**
 * The entries of all keys of a table in flat memory: a linked list for each slot, of 9 bytes, and no object for a key.
 *
 * The entries of a long list are in spans of up to 64, but for the newest 1 to 127, which are loose. A search passes spans, then
 * entries of one of them, and whole spans are dropped at once: the work of a decision grows by one step for 64 entries.
 */
export class EntryLists {
  #heads: Int32Array
  #tails: Int32Array
  /** How many entries of each slot are loose. */
  #loose: Uint8Array
  /** Absent until a list is long. */
  #spans: EntrySpans | undefined
  #pool = new EntryPool(0)

  constructor(slots: number) {
    this.#heads = new Int32Array(slots).fill(NONE)
    this.#tails = new Int32Array(slots).fill(NONE)
    this.#loose = new Uint8Array(slots)
  }

  /** Returns the cost of all entries of a slot up to and including a time. */
  costUntil(slot: number, time: number): number {
    const pool = this.#pool
    const spans = this.#spans
    let e = this.#heads[slot]!
    if (e === NONE || pool.time(e) > time) return 0
    let sum = 0
    for (let s = this.#firstSpan(slot); s !== NONE && pool.time(spans!.last(s)) <= time; s = spans!.next(s)) {
      sum += spans!.sum(s)
      e = pool.next(spans!.last(s))
    }
    for (; e !== NONE && pool.time(e) <= time; e = pool.next(e)) sum += pool.cost(e)
    return sum
  }

  /** Returns the time of the first entry at which the sum of costs reaches `cost`; -Infinity if there is none. */
  timeOf(slot: number, cost: number): number {
    const pool = this.#pool
    const spans = this.#spans
    let e = this.#heads[slot]!
    let sum = 0
    for (let s = this.#firstSpan(slot); s !== NONE && sum + spans!.sum(s) < cost; s = spans!.next(s)) {
      sum += spans!.sum(s)
      e = pool.next(spans!.last(s))
    }
    for (; e !== NONE; e = pool.next(e)) {
      sum += pool.cost(e)
      if (sum >= cost) return pool.time(e)
    }
    return -Infinity
  }

  /** Returns the cost of the entry of a time, 0 when there is none. */
  costAt(slot: number, time: number): number {
    const before = this.#lastBefore(slot, time, this.#spanBefore(slot, time))
    const e = this.#entryAfter(slot, before)
    return e !== NONE && this.#pool.time(e) === time ? this.#pool.cost(e) : 0
  }

  /** Returns the time of the entry before the newest, or -Infinity. */
  beforeNewest(slot: number): number {
    const newestSpan = this.#spans === undefined ? NONE : this.#spans.newest(slot)
    const tail = this.#tails[slot]!
    let before = NONE
    // There is always a loose entry behind the last span.
    let e = newestSpan === NONE ? this.#heads[slot]! : this.#spans!.last(newestSpan)
    for (; e !== tail; e = this.#pool.next(e)) before = e
    return before === NONE ? -Infinity : this.#pool.time(before)
  }

  apply(slot: number, edit: Edit): void {
    if (edit.drop > 0) this.#drop(slot, edit.drop)
    if (edit.takeCost > 0) this.#takeOff(slot, edit.takeTime, edit.takeCost)
    if (edit.pushCost > 0) this.push(slot, edit.pushTime, edit.pushCost)
  }

  push(slot: number, time: number, cost: number): void {
    const pool = this.#pool
    const tail = this.#tails[slot]!
    if (tail !== NONE && pool.time(tail) === time) return pool.change(tail, cost)
    const e = pool.take(time, cost)
    if (tail === NONE) this.#heads[slot] = e
    else pool.link(tail, e)
    this.#tails[slot] = e
    if (++this.#loose[slot]! === 2 * SPAN) this.#addSpan(slot)
  }

  clear(slot: number): void {
    this.#drop(slot, Infinity)
  }

  /** Adds the entries of a slot to an array. */
  copy(slot: number, to: EntryArray): void {
    const pool = this.#pool
    for (let e = this.#heads[slot]!; e !== NONE; e = pool.next(e)) to.push(pool.time(e), pool.cost(e))
  }

  /** Replaces the entries of a slot by a copy of those of a slot of other lists. */
  replace(slot: number, from: EntryLists, source: number): void {
    this.clear(slot)
    const pool = from.#pool
    for (let e = from.#heads[source]!; e !== NONE; e = pool.next(e)) this.push(slot, pool.time(e), pool.cost(e))
  }

  move(from: number, to: number): void {
    this.#heads[to] = this.#heads[from]!
    this.#tails[to] = this.#tails[from]!
    this.#loose[to] = this.#loose[from]!
    this.#spans?.move(from, to)
    this.#heads[from] = NONE
    this.#tails[from] = NONE
    this.#loose[from] = 0
  }

  /** Makes room for another number of slots. */
  resize(slots: number): void {
    const keep = Math.min(slots, this.#heads.length)
    const loose = this.#loose
    this.#loose = new Uint8Array(slots)
    this.#loose.set(loose.subarray(0, keep))
    this.#heads = resized(this.#heads, keep, slots)
    this.#tails = resized(this.#tails, keep, slots)
    this.#spans?.resize(keep, slots)
    this.trim()
  }

  /** Packs the entries when most of the memory is idle: after so many were freed that a look at all slots costs little in comparison. */
  trim(): void {
    const { live, idle, isSmall } = this.#pool
    if (!isSmall && idle > 3 * live && idle * 4 >= this.#heads.length) this.#pack()
  }

  #firstSpan(slot: number): number {
    return this.#spans === undefined ? NONE : this.#spans.first(slot)
  }

  /** Puts the oldest of the loose entries into a span. */
  #addSpan(slot: number): void {
    const pool = this.#pool
    const spans = (this.#spans ??= new EntrySpans(this.#heads.length))
    const newest = spans.newest(slot)
    let last = this.#entryAfter(slot, newest === NONE ? NONE : spans.last(newest))
    let sum = pool.cost(last)
    for (let i = 1; i < SPAN; i++) {
      last = pool.next(last)
      sum += pool.cost(last)
    }
    spans.add(slot, sum, SPAN, last)
    this.#loose[slot]! -= SPAN
  }

  /** Drops the oldest cost: whole spans, then entries, then a part of one. */
  #drop(slot: number, given: number): void {
    let cost = given
    for (let s = this.#firstSpan(slot); s !== NONE && this.#spans!.sum(s) <= cost; s = this.#firstSpan(slot)) {
      cost -= this.#spans!.sum(s)
      this.#shift(slot, this.#spans!.last(s), this.#spans!.count(s))
      this.#spans!.remove(slot, NONE)
    }
    for (let e = this.#heads[slot]!; cost > 0 && e !== NONE; e = this.#heads[slot]!) {
      const dropped = Math.min(cost, this.#pool.cost(e))
      cost -= dropped
      this.#dropOldest(slot, e, dropped)
    }
  }

  #dropOldest(slot: number, e: number, cost: number): void {
    const isGone = cost === this.#pool.cost(e)
    const s = this.#firstSpan(slot)
    if (s !== NONE) this.#spans!.change(s, -cost, isGone ? -1 : 0)
    else if (isGone) this.#loose[slot]!--
    if (isGone) this.#shift(slot, e, 1)
    else this.#pool.change(e, -cost)
  }

  /** Frees the oldest entries, up to `last`. */
  #shift(slot: number, last: number, count: number): void {
    const first = this.#heads[slot]!
    const next = this.#pool.next(last)
    this.#heads[slot] = next
    if (next === NONE) this.#tails[slot] = NONE
    this.#pool.free(first, last, count)
  }

  /** Subtracts some cost from the entry of a time. An entry without a cost is removed. */
  #takeOff(slot: number, time: number, cost: number): void {
    const spans = this.#spans
    const spanBefore = this.#spanBefore(slot, time)
    const before = this.#lastBefore(slot, time, spanBefore)
    const e = this.#entryAfter(slot, before)
    this.#pool.change(e, -cost)
    const isGone = this.#pool.cost(e) === 0
    const s = spanBefore === NONE ? this.#firstSpan(slot) : spans!.next(spanBefore)
    if (s !== NONE) spans!.change(s, -cost, 0)
    if (!isGone) return
    if (s !== NONE) spans!.removeEntry(slot, spanBefore, s, e, before)
    this.#remove(slot, before, e)
    if (s === NONE && --this.#loose[slot]! === 0 && spans !== undefined) this.#loose[slot] = spans.removeNewest(slot)
  }

  /** Returns the last span whose entries are all before a time, or -1. */
  #spanBefore(slot: number, time: number): number {
    const spans = this.#spans
    let before = NONE
    for (let s = this.#firstSpan(slot); s !== NONE && this.#pool.time(spans!.last(s)) < time; s = spans!.next(s))
      before = s
    return before
  }

  /** Returns the last entry before a time, or -1. */
  #lastBefore(slot: number, time: number, spanBefore: number): number {
    let before = spanBefore === NONE ? NONE : this.#spans!.last(spanBefore)
    let e = this.#entryAfter(slot, before)
    for (; e !== NONE && this.#pool.time(e) < time; e = this.#pool.next(e)) before = e
    return before
  }

  /** Returns the entry behind another, the oldest behind -1. */
  #entryAfter(slot: number, before: number): number {
    return before === NONE ? this.#heads[slot]! : this.#pool.next(before)
  }

  #remove(slot: number, before: number, e: number): void {
    const next = this.#pool.next(e)
    if (before === NONE) this.#heads[slot] = next
    else this.#pool.link(before, next)
    if (this.#tails[slot] === e) this.#tails[slot] = before
    this.#pool.free(e, e, 1)
  }

  #pack(): void {
    const old = this.#pool
    this.#pool = new EntryPool(2 * old.live)
    this.#spans = undefined
    this.#loose.fill(0)
    for (let slot = 0; slot < this.#heads.length; slot++) {
      let e = this.#heads[slot]!
      this.#heads[slot] = NONE
      this.#tails[slot] = NONE
      for (; e !== NONE; e = old.next(e)) this.push(slot, old.time(e), old.cost(e))
    }
  }
}
