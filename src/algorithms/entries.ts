/** A change to a key's entries: drop the oldest `drop`, set the cost of entry `amend`, append one. Applied in this order. */
export interface Edit {
  drop: number
  /** An entry that stays, or -1. */
  amend: number
  amendCost: number
  /** An entry is appended when `pushCost` > 0; one of the same time as the newest is added to it. */
  pushTime: number
  pushCost: number
}

/**
 * The entries of a key whose state grows with use: a queue of (time, cost), oldest first, read through handles.
 * @example for (let e = entries.first; e !== -1; e = entries.next(e)) sum += entries.cost(e)
 */
export interface Entries {
  /** The oldest entry, or -1. */
  readonly first: number
  /** The entry after `e`, or -1. */
  next(e: number): number
  time(e: number): number
  cost(e: number): number
}

/** Leaves the entries as they are, unless an algorithm says otherwise. */
export function clearEdit(edit: Edit): void {
  edit.drop = 0
  edit.amend = -1
  edit.pushCost = 0
}

/** Writes all of an edit. */
export function writeEdit(
  edit: Edit,
  drop: number,
  amend: number,
  amendCost: number,
  pushTime: number,
  pushCost: number,
): void {
  edit.drop = drop
  edit.amend = amend
  edit.amendCost = amendCost
  edit.pushTime = pushTime
  edit.pushCost = pushCost
}

/** The entries of a key that has none. */
export const noEntries: Entries = { first: -1, next: () => -1, time: () => 0, cost: () => 0 }

/** Entries in two plain arrays: a copy to work on, where a handle is an index. */
export class EntryArray implements Entries {
  #times: number[] = []
  #costs: number[] = []
  #head = 0

  get first(): number {
    return this.#head < this.#times.length ? this.#head : -1
  }

  next(e: number): number {
    return e + 1 < this.#times.length ? e + 1 : -1
  }

  time(e: number): number {
    return this.#times[e]!
  }

  cost(e: number): number {
    return this.#costs[e]!
  }

  copy(from: Entries): void {
    this.clear()
    for (let e = from.first; e !== -1; e = from.next(e)) this.push(from.time(e), from.cost(e))
  }

  clear(): void {
    this.#times.length = 0
    this.#costs.length = 0
    this.#head = 0
  }

  apply(edit: Edit): void {
    if (edit.amend !== -1) this.#costs[edit.amend] = edit.amendCost
    this.#head += edit.drop
    if (edit.pushCost > 0) this.push(edit.pushTime, edit.pushCost)
  }

  push(time: number, cost: number): void {
    const newest = this.#times.length - 1
    if (newest >= this.#head && this.#times[newest] === time) this.#costs[newest]! += cost
    else {
      this.#times.push(time)
      this.#costs.push(cost)
    }
  }
}
