import fc from 'fast-check'
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { Edit } from '../../../src/algorithms/entries.ts'
import { EntryLists } from '../../../src/stores/memory/entry-lists.ts'
import { EntryPool } from '../../../src/stores/memory/entry-pool.ts'
import { EntrySpans } from '../../../src/stores/memory/entry-spans.ts'
import { type Change, changes, EditModel } from '../../support/entry-edits.ts'

const MANY = 100_000

function edit(parts: Partial<Edit>): Edit {
  return { drop: 0, takeTime: 0, takeCost: 0, pushTime: 0, pushCost: 0, ...parts }
}

/** Lists with so many entries in slot 0: entry `i` of cost 1 at time `i`. */
function filled(count: number): EntryLists {
  const lists = new EntryLists(2)
  for (let time = 0; time < count; time++) lists.push(0, time, 1)
  return lists
}

describe('entries in memory', () => {
  it('answer as a list does, whatever was added, dropped and taken off', () => {
    const slots = fc.array(fc.tuple(fc.nat({ max: 2 }), changes(300)), {
      minLength: 1000,
      maxLength: 3000,
      size: 'max',
    })
    const run = (all: readonly (readonly [number, Change])[]): void => {
      const lists = new EntryLists(3)
      const models = [new EditModel(), new EditModel(), new EditModel()]
      for (const [slot, change] of all) {
        const model = models[Math.max(0, slot - 1)]!
        const { edit, question } = model.edited(change)
        lists.apply(Math.max(0, slot - 1), edit)
        const { time, cost } = question
        const at = Math.max(0, slot - 1)
        expect([
          lists.costUntil(at, time),
          lists.timeOf(at, Math.max(1, cost)),
          lists.costAt(at, time),
          lists.beforeNewest(at),
        ]).toEqual(model.answers(question))
      }
    }
    fc.assert(fc.property(slots, run), { numRuns: 20, endOnFailure: true })
  })

  it('stay the same when slots are moved and their number changes', () => {
    const lists = filled(1000)
    lists.move(0, 1)
    expect([lists.costUntil(0, MANY), lists.costUntil(1, MANY)]).toEqual([0, 1000])
    lists.push(0, 5, 7)
    lists.resize(10)
    lists.move(1, 7)
    expect([lists.costUntil(0, MANY), lists.costUntil(1, MANY), lists.costUntil(7, 499)]).toEqual([7, 0, 500])
    lists.apply(7, edit({ drop: 900 }))
    lists.resize(8)
    lists.apply(7, edit({ takeTime: 950, takeCost: 1 }))
    expect([lists.costUntil(7, 899), lists.costUntil(7, MANY), lists.timeOf(7, 51)]).toEqual([0, 99, 951])
  })
})

describe('the work of one decision on 100,000 entries in memory', () => {
  afterEach(() => vi.restoreAllMocks())

  /** Returns how many entries and spans an action looks at. */
  function steps(action: () => unknown): number {
    const spies = [
      vi.spyOn(EntryPool.prototype, 'next'),
      vi.spyOn(EntryPool.prototype, 'time'),
      vi.spyOn(EntrySpans.prototype, 'next'),
      vi.spyOn(EntrySpans.prototype, 'first'),
    ]
    action()
    const count = spies.reduce((sum, { mock }) => sum + mock.calls.length, 0)
    vi.restoreAllMocks()
    return count
  }

  const SPANS = MANY / 64
  const lists = filled(MANY)

  it.each([
    ['the cost until a time', () => lists.costUntil(0, MANY - 1)],
    ['the time of a cost', () => lists.timeOf(0, MANY)],
    ['the cost at a time', () => lists.costAt(0, MANY - 1)],
    ['the entry before the newest', () => lists.beforeNewest(0)],
    ['a refund', () => lists.apply(0, edit({ takeTime: MANY - 200, takeCost: 1 }))],
    ['an added entry', () => lists.apply(0, edit({ pushTime: MANY, pushCost: 1 }))],
    ['a drop of nearly all', () => lists.apply(0, edit({ drop: MANY - 100 }))],
  ])('%s takes a few steps for each span', (_, action) => {
    const count = steps(action)
    expect(count).toBeGreaterThan(0)
    expect(count).toBeLessThan(4 * SPANS + 500)
  })

  it('entries that are refunded leave no short spans behind', () => {
    const sparse = filled(MANY)
    for (let time = 0; time < MANY; time++) if (time % 64 !== 0) sparse.apply(0, edit({ takeTime: time, takeCost: 1 }))
    expect(sparse.costUntil(0, MANY)).toBe(Math.ceil(MANY / 64))
    expect(steps(() => sparse.costUntil(0, MANY))).toBeLessThan(SPANS / 10)
  })
})
