import type { Entries } from '../../algorithms/entries.ts'
import type { EntryLists } from './entry-lists.ts'

/** The entries of one slot, as an algorithm reads them. One view serves any number of slots in turn. */
export class EntryView implements Entries {
  #slot = -1
  #lists!: EntryLists

  aim(lists: EntryLists, slot: number): this {
    this.#lists = lists
    this.#slot = slot
    return this
  }

  costUntil(time: number): number {
    return this.#lists.costUntil(this.#slot, time)
  }

  timeOf(cost: number): number {
    return this.#lists.timeOf(this.#slot, cost)
  }

  costAt(time: number): number {
    return this.#lists.costAt(this.#slot, time)
  }

  beforeNewest(): number {
    return this.#lists.beforeNewest(this.#slot)
  }
}
