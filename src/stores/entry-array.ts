import type { Edit, Entries } from '../algorithm.ts'

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
