import type { Edit, Entries } from '../../algorithms/entries.ts'

export interface Entry {
  readonly time: number
  cost: number
}

/** Entries in an array; a handle is an index. Throws for an edit that no algorithm may make. */
export class EntryList implements Entries {
  readonly items: Entry[] = []

  get first(): number {
    return this.items.length > 0 ? 0 : -1
  }

  next(e: number): number {
    return e + 1 < this.items.length ? e + 1 : -1
  }

  time(e: number): number {
    return this.items[e]!.time
  }

  cost(e: number): number {
    return this.items[e]!.cost
  }

  apply({ drop, amend, amendCost, pushTime, pushCost }: Edit): void {
    if (!(drop >= 0 && drop <= this.items.length)) throw new Error(`drops ${drop} of ${this.items.length} entries`)
    if (amend !== -1 && !(amend >= drop && amend < this.items.length))
      throw new Error(`amends entry ${amend}, which is not there`)
    if (amend !== -1) this.items[amend]!.cost = amendCost
    this.items.splice(0, drop)
    if (pushCost > 0) this.#push(pushTime, pushCost)
  }

  #push(time: number, cost: number): void {
    const newest = this.items.at(-1)
    if (newest?.time === time) newest.cost += cost
    else this.items.push({ time, cost })
  }
}
