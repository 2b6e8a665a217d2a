/**
 * A change of a key's entries. The steps, in this order: the oldest cost is dropped, some cost is subtracted from an entry, one entry is
 * added. An entry is removed when its cost becomes 0.
 */
export interface Edit {
  /** The cost to drop, oldest first. The last entry may be dropped in part. */
  drop: number
  /** The time of the entry from which `takeCost` is subtracted. */
  takeTime: number
  /** The cost to subtract from the entry of `takeTime`; 0 for none. */
  takeCost: number
  /** The time of the entry that is added. It is not before the newest entry. If it is the same time, the cost is added to that entry. */
  pushTime: number
  /** The cost of the entry that is added; 0 for none. */
  pushCost: number
}

/**
 * The entries of a key whose state grows with use: (time, cost), oldest first. Each time is a whole number and occurs once. Each cost is
 * above 0.
 */
export interface Entries {
  /** Returns the cost of all entries up to and including a time. */
  costUntil(time: number): number
  /** Returns the time of the first entry at which the sum of costs reaches `cost`; -Infinity if there is none. */
  timeOf(cost: number): number
  /** Returns the cost of the entry at a time; 0 if there is none. */
  costAt(time: number): number
  /** Returns the time of the entry before the newest one; -Infinity if there is none. */
  beforeNewest(): number
}

export function clearEdit(edit: Edit): void {
  writeEdit(edit, 0, 0, 0, 0, 0)
}

export function writeEdit(
  edit: Edit,
  drop: number,
  takeTime: number,
  takeCost: number,
  pushTime: number,
  pushCost: number,
): void {
  edit.drop = drop
  edit.takeTime = takeTime
  edit.takeCost = takeCost
  edit.pushTime = pushTime
  edit.pushCost = pushCost
}

/** The entries of a key that has none. */
export const noEntries: Entries = {
  costUntil: () => 0,
  timeOf: () => -Infinity,
  costAt: () => 0,
  beforeNewest: () => -Infinity,
}

let made: (() => EntryArray) | undefined

/** Sets the function that creates entries. Only algorithms with entries provide it, so a bundle without them has no `EntryArray`. */
export function bringEntries(make: (() => EntryArray) | undefined): void {
  made ??= make
}

/** Creates empty entries, with the function that an algorithm has provided. */
export function newEntries(): EntryArray {
  return made!()
}

/** The number of unused places at the start of a list before the list is packed. */
const IDLE = 32

/**
 * The entries of one key: the times, and for each time the sum of the costs up to it. So each question is a binary search. Dropped entries
 * stay at the start until they are more than half of the list, so that a drop is fast.
 */
export class EntryArray implements Entries {
  #times: number[] = []
  #totals: number[] = []
  /** The index of the oldest entry. */
  #first = 0
  /** The cost that was dropped. All totals still contain it. It may include a part of the oldest entry. */
  #dropped = 0

  get length(): number {
    return this.#times.length - this.#first
  }

  costUntil(time: number): number {
    return this.#totalBefore(this.#after(time)) - this.#dropped
  }

  timeOf(cost: number): number {
    return this.#times[firstAbove(this.#totals, cost + this.#dropped, this.#first, true)] ?? -Infinity
  }

  costAt(time: number): number {
    const i = this.#after(time) - 1
    return i >= this.#first && this.#times[i] === time ? this.#costOf(i) : 0
  }

  beforeNewest(): number {
    const i = this.#times.length - 2
    return i >= this.#first ? this.#times[i]! : -Infinity
  }

  each(visit: (time: number, cost: number) => void): void {
    for (let i = this.#first; i < this.#times.length; i++) visit(this.#times[i]!, this.#costOf(i))
  }

  /** Returns a copy without the oldest `drop` units. */
  copy(drop = 0): EntryArray {
    const copy = new EntryArray()
    const dropped = this.#dropped + drop
    const first = firstAbove(this.#totals, dropped, this.#first)
    if (first === this.#times.length) return copy
    copy.#times = this.#times.slice(first)
    copy.#totals = this.#totals.slice(first)
    copy.#dropped = dropped
    return copy
  }

  apply({ drop, takeTime, takeCost, pushTime, pushCost }: Readonly<Edit>): void {
    if (drop > 0) this.#drop(drop)
    if (takeCost > 0) this.#take(takeTime, takeCost)
    if (pushCost > 0) this.push(pushTime, pushCost)
  }

  /** Adds an entry. It must not be older than the newest one. */
  push(time: number, cost: number): void {
    if (this.length === 0 && this.#first === 1) return this.#begin(time, cost)
    // Totals are exact below 2^53.
    if (this.#totalBefore(this.#times.length) + cost > Number.MAX_SAFE_INTEGER) this.#pack()
    const newest = this.#times.length - 1
    const total = this.#totalBefore(newest + 1) + cost
    if (newest >= this.#first && this.#times[newest] === time) this.#totals[newest] = total
    else {
      this.#times.push(time)
      this.#totals.push(total)
    }
  }

  /** Reuses the one place of an empty list. */
  #begin(time: number, cost: number): void {
    this.#times[0] = time
    this.#totals[0] = cost
    this.#first = 0
    this.#dropped = 0
  }

  clear(): void {
    this.#times = []
    this.#totals = []
    this.#first = 0
    this.#dropped = 0
  }

  #drop(cost: number): void {
    const { length } = this.#times
    this.#dropped += cost
    this.#first = firstAbove(this.#totals, this.#dropped, this.#first)
    if (this.#first === length) this.clear()
    else if (this.#first > IDLE && 2 * this.#first > length) this.#pack()
  }

  #take(time: number, cost: number): void {
    const at = this.#after(time) - 1
    if (at < this.#first || this.#times[at] !== time) return
    const taken = Math.min(cost, this.#costOf(at))
    const isGone = taken === this.#costOf(at)
    for (let i = at; i < this.#totals.length; i++) this.#totals[i]! -= taken
    if (!isGone) return
    if (this.length === 1) this.#empty()
    else if (at === this.#times.length - 1) {
      this.#times.pop()
      this.#totals.pop()
    } else {
      this.#times.splice(at, 1)
      this.#totals.splice(at, 1)
    }
  }

  /** A list of one place keeps its arrays, because the next entry often follows soon. This saves 100 ns, compared with two new arrays. */
  #empty(): void {
    if (this.#times.length > 1) this.clear()
    else this.#first = 1
  }

  /** Removes the dropped entries. This frees their memory, and the totals begin at 0 again. */
  #pack(): void {
    this.#times = this.#times.slice(this.#first)
    this.#totals = this.#totals.slice(this.#first).map((total) => total - this.#dropped)
    this.#first = 0
    this.#dropped = 0
  }

  /** Returns the index after the last entry that is not later than a time. */
  #after(time: number): number {
    return firstAbove(this.#times, time, this.#first)
  }

  /** Returns the total of the entries before an index. It is at least the dropped cost. */
  #totalBefore(i: number): number {
    return i <= this.#first ? this.#dropped : this.#totals[i - 1]!
  }

  #costOf(i: number): number {
    return this.#totals[i]! - this.#totalBefore(i)
  }
}

/** Returns the index of the first value from `low` on that is above a bound, or equal to it with `orEqual`. The values are sorted. */
function firstAbove(values: readonly number[], bound: number, low: number, orEqual = false): number {
  let high = values.length
  while (low < high) {
    const middle = (low + high) >> 1
    const each = values[middle]!
    if (each > bound || (orEqual && each === bound)) high = middle
    else low = middle + 1
  }
  return low
}
