import fc from 'fast-check'
import type { Edit } from '../../src/algorithms/entries.ts'
import { EntryList } from '../../src/testing/algorithm-behaviours.ts'

/** A change to entries, in fractions of what there is. */
export interface Change {
  readonly kind: 'push' | 'drop' | 'take'
  readonly part: number
  readonly pause: number
  readonly cost: number
}

/** What entries say of a time, and of a cost. */
export interface Question {
  readonly time: number
  readonly cost: number
}

/** An edit, and a question after it. */
export interface EditedBy {
  readonly edit: Edit
  readonly question: Question
}

/** Mostly pushes, so that the entries become many. There is a drop of a part of them for so many pushes. */
export function changes(pushes: number): fc.Arbitrary<Change> {
  return fc.record({
    kind: fc.oneof(
      { weight: pushes, arbitrary: fc.constant('push' as const) },
      { weight: Math.ceil(pushes / 4), arbitrary: fc.constant('take' as const) },
      { weight: 1, arbitrary: fc.constant('drop' as const) },
    ),
    // Most doubles from 0 to 1 are next to 0.
    part: fc.noBias(fc.nat({ max: 1000 })).map((part) => part / 1000),
    pause: fc.nat({ max: 3 }),
    cost: fc.integer({ min: 1, max: 3 }),
  })
}

/** A slow list of entries, which turns changes into edits and answers questions by the definitions. */
export class EditModel {
  readonly list: EntryList = new EntryList()
  #now = 1000

  /** Carries a change out, and returns the edit it came to. */
  edited({ kind, part, pause, cost }: Change): EditedBy {
    const edit: Edit = { drop: 0, takeTime: 0, takeCost: 0, pushTime: 0, pushCost: 0 }
    const total = this.list.costUntil(Infinity)
    // Most drops are short, a few are long.
    if (kind === 'drop') edit.drop = Math.round(part ** 4 * total)
    if (kind === 'take') this.#take(edit, part, cost)
    if (kind === 'push') {
      this.#now += pause
      edit.drop = part < 0.1 ? Math.min(total, cost) : 0
      edit.pushTime = this.#now
      edit.pushCost = cost
    }
    this.list.apply(edit)
    const { items } = this.list
    const time = items.length === 0 ? 0 : items[Math.floor(part * (items.length - 1))]!.time + (cost - 2)
    return { edit, question: { time, cost: Math.ceil(part * this.list.costUntil(Infinity)) } }
  }

  /** Returns the answers by the definitions. No list is asked for a cost of 0. */
  answers({ time, cost }: Question): number[] {
    const { list } = this
    return [list.costUntil(time), list.timeOf(Math.max(1, cost)), list.costAt(time), list.beforeNewest()]
  }

  /** Takes all or a part of the cost of an entry, often of a recent one. */
  #take(edit: Edit, part: number, cost: number): void {
    const { items } = this.list
    const entry = items[Math.round((1 - part ** 2) * (items.length - 1))]
    if (entry === undefined) return
    edit.takeTime = entry.time
    edit.takeCost = Math.min(cost, entry.cost)
  }
}
