import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Edit, EntryArray } from '../../src/algorithms/entries.ts'
import { changes, EditModel } from '../support/entry-edits.ts'

function edit(parts: Partial<Edit>): Edit {
  return { drop: 0, takeTime: 0, takeCost: 0, pushTime: 0, pushCost: 0, ...parts }
}

/** Entries of cost 1 at the times from 0 on. */
function filled(count: number): EntryArray {
  const entries = new EntryArray()
  for (let time = 0; time < count; time++) entries.push(time, 1)
  return entries
}

function itemsOf(entries: EntryArray): [number, number][] {
  const items: [number, number][] = []
  entries.each((time, cost) => items.push([time, cost]))
  return items
}

describe('entries', () => {
  it('answer as a list does, whatever was added, dropped and subtracted', () => {
    const all = fc.array(changes(300), { minLength: 300, maxLength: 1500, size: 'max' })
    const property = fc.property(all, (list) => {
      const entries = new EntryArray()
      const model = new EditModel()
      for (const change of list) {
        const { edit, question } = model.edited(change)
        entries.apply(edit)
        const { time, cost } = question
        const [until, first] = [entries.costUntil(time), entries.timeOf(Math.max(1, cost))]
        expect([until, first, entries.costAt(time), entries.beforeNewest()]).toEqual(model.answers(question))
      }
      expect(entries.length).toBe(model.list.items.length)
      expect(itemsOf(entries)).toEqual(model.list.items.map(({ time, cost }) => [time, cost]))
    })
    fc.assert(property, { numRuns: 15 })
  })

  it('are copied without what was dropped', () => {
    const entries = filled(1000)
    entries.apply(edit({ drop: 990 }))
    const copy = entries.copy()
    entries.apply(edit({ drop: 5, pushTime: 2000, pushCost: 7 }))
    expect(itemsOf(copy)).toEqual(Array.from({ length: 10 }, (_, i) => [990 + i, 1]))
    expect([entries.length, entries.costUntil(Infinity)]).toEqual([6, 12])
  })

  it('are copied without the oldest units, as if those were dropped from a copy', () => {
    const all = fc.array(changes(50), { minLength: 1, maxLength: 60 })
    const property = fc.property(all, fc.nat({ max: 300 }), (list, drop) => {
      const entries = new EntryArray()
      const model = new EditModel()
      for (const change of list) entries.apply(model.edited(change).edit)
      const before = itemsOf(entries)
      const [copy, dropped] = [entries.copy(drop), entries.copy()]
      dropped.apply(edit({ drop }))
      expect(itemsOf(copy)).toEqual(itemsOf(dropped))
      for (const each of [copy, dropped]) each.apply(edit({ drop: 1, pushTime: 1e9, pushCost: 2 }))
      expect(itemsOf(copy)).toEqual(itemsOf(dropped))
      expect(itemsOf(entries)).toEqual(before)
    })
    fc.assert(property)
  })

  it('stay exact when more than 2^53 was added and dropped', () => {
    const entries = new EntryArray()
    const cost = 2 ** 51 + 1
    entries.push(0, cost)
    for (let time = 1; time < 100; time++) {
      entries.apply(edit({ pushTime: time, pushCost: cost }))
      expect(itemsOf(entries)).toEqual([
        [time - 1, cost],
        [time, cost],
      ])
      entries.apply(edit({ drop: cost }))
    }
  })
})
