import type { Edit, Entries } from '../../algorithms/entries.ts'

export interface Entry {
  readonly time: number
  cost: number
}

/** Entries in an array, by the definitions. Throws for an edit that no algorithm may make. */
export class EntryList implements Entries {
  readonly items: Entry[] = []

  costUntil(time: number): number {
    return this.items.reduce((sum, each) => (each.time <= time ? sum + each.cost : sum), 0)
  }

  timeOf(cost: number): number {
    let sum = 0
    return this.items.find((each) => (sum += each.cost) >= cost)?.time ?? -Infinity
  }

  costAt(time: number): number {
    return this.items.find((each) => each.time === time)?.cost ?? 0
  }

  beforeNewest(): number {
    return this.items.at(-2)?.time ?? -Infinity
  }

  apply({ drop, takeTime, takeCost, pushTime, pushCost }: Edit): void {
    this.#drop(drop)
    if (takeCost !== 0) this.#take(takeTime, takeCost)
    if (pushCost !== 0) this.#push(pushTime, pushCost)
  }

  #drop(cost: number): void {
    if (!(cost >= 0 && cost <= this.costUntil(Infinity))) throw new Error(`drops a cost of ${cost}, more than there is`)
    let left = cost
    while (left > 0 && left >= this.items[0]!.cost) left -= this.items.shift()!.cost
    if (left > 0) this.items[0]!.cost -= left
  }

  #take(time: number, cost: number): void {
    if (!(cost > 0 && cost <= this.costAt(time))) throw new Error(`takes ${cost} off ${this.costAt(time)}`)
    const i = this.items.findIndex((each) => each.time === time)
    this.items[i]!.cost -= cost
    if (this.items[i]!.cost === 0) this.items.splice(i, 1)
  }

  #push(time: number, cost: number): void {
    const newest = this.items.at(-1)
    if (!(cost > 0)) throw new Error(`adds a cost of ${cost}`)
    if (newest !== undefined && newest.time > time) throw new Error(`adds an entry of ${time} behind ${newest.time}`)
    if (newest?.time === time) newest.cost += cost
    else this.items.push({ time, cost })
  }
}
