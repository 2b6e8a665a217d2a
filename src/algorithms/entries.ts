/**
 * A change of a key's entries, in this order: the oldest cost is dropped, some cost is subtracted from an entry, one entry is
 * added. An entry whose cost becomes 0 is removed.
 */
export interface Edit {
  /** The cost to drop, oldest first. The last entry may be dropped in part. */
  drop: number
  /** The time of the entry from which `takeCost` is subtracted. */
  takeTime: number
  /** The cost to subtract from the entry of `takeTime`; 0 for none. */
  takeCost: number
  /** An entry is added when `pushCost` > 0. It is not older than the newest; one of the same time is added to it. */
  pushTime: number
  /** The cost of the entry that is added; 0 for none. */
  pushCost: number
}

/**
 * The entries of a key whose state grows with use: (time, cost), oldest first. A time is a whole number and occurs once; a
 * cost is above 0. A store answers each question in far fewer steps than there are entries.
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

/** Clears an edit, so that it changes nothing. */
export function clearEdit(edit: Edit): void {
  writeEdit(edit, 0, 0, 0, 0, 0)
}

/** Writes all of an edit. */
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

/** A copy of entries that can be edited: times, and the sum of costs up to each. Each method is a binary search. */
export class EntryArray implements Entries {
  readonly #times: number[] = []
  readonly #totals: number[] = []
  /** The cost that was dropped. */
  #dropped = 0

  costUntil(time: number): number {
    const count = firstThat(this.#times.length, (i) => this.#times[i]! > time)
    return Math.max(0, this.#totalBefore(count) - this.#dropped)
  }

  timeOf(cost: number): number {
    const i = firstThat(this.#times.length, (each) => this.#totals[each]! - this.#dropped >= cost)
    return this.#times[i] ?? -Infinity
  }

  costAt(time: number): number {
    return this.costUntil(time) - this.costUntil(time - 1)
  }

  beforeNewest(): number {
    const i = this.#times.length - 2
    return i >= 0 && this.#totals[i]! > this.#dropped ? this.#times[i]! : -Infinity
  }

  clear(): void {
    this.#times.length = 0
    this.#totals.length = 0
    this.#dropped = 0
  }

  /** Applies an edit that subtracts nothing. */
  apply(edit: Edit): void {
    this.#dropped = Math.min(this.#dropped + edit.drop, this.#totalBefore(this.#times.length))
    if (edit.pushCost > 0) this.push(edit.pushTime, edit.pushCost)
  }

  push(time: number, cost: number): void {
    const newest = this.#times.length - 1
    const total = this.#totalBefore(newest + 1) + cost
    if (this.#times[newest] === time) this.#totals[newest] = total
    else {
      this.#times.push(time)
      this.#totals.push(total)
    }
  }

  #totalBefore(i: number): number {
    return i === 0 ? 0 : this.#totals[i - 1]!
  }
}

/** Returns the first of `count` indices for which a condition is true, or `count`. It must also be true for all later ones. */
function firstThat(count: number, holds: (index: number) => boolean): number {
  let low = 0
  let high = count
  while (low < high) {
    const middle = (low + high) >> 1
    if (holds(middle)) high = middle
    else low = middle + 1
  }
  return low
}

/** A view of entries after an edit that subtracts nothing. */
export class EditedEntries implements Entries {
  #base: Entries = noEntries
  #edit!: Readonly<Edit>
  /** What is left of the base. */
  #left = 0

  /** Shows `base` after `edit`. Neither may change while this is in use. */
  aim(base: Entries, edit: Readonly<Edit>): this {
    this.#base = base
    this.#edit = edit
    this.#left = Math.max(0, base.costUntil(Infinity) - edit.drop)
    return this
  }

  costUntil(time: number): number {
    const { drop, pushTime, pushCost } = this.#edit
    return Math.max(0, this.#base.costUntil(time) - drop) + (pushTime <= time ? pushCost : 0)
  }

  timeOf(cost: number): number {
    const { drop, pushTime, pushCost } = this.#edit
    if (cost <= this.#left) return this.#base.timeOf(cost + drop)
    return cost <= this.#left + pushCost ? pushTime : -Infinity
  }

  costAt(time: number): number {
    return this.costUntil(time) - this.costUntil(time - 1)
  }

  beforeNewest(): number {
    const { pushTime, pushCost } = this.#edit
    const newest = pushCost > 0 ? pushTime : this.timeOf(this.#left)
    const before = this.costUntil(newest - 1)
    return before > 0 ? this.timeOf(before) : -Infinity
  }
}
