import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { RecentSketch, SLICES, SpaceSaving } from '../../src/metrics/top-denied.ts'

/** Items of a heavy-tailed stream: item k is drawn with a probability of about 1 / k^(1 + 1 / skew). */
const heavyTailed = (most: number): fc.Arbitrary<string[]> =>
  fc
    .tuple(
      fc.integer({ min: 1, max: 5 }),
      fc.array(fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }), { maxLength: most, size: 'max' }),
    )
    .map(([skew, draws]) => draws.map((draw) => `item ${Math.min(5000, Math.floor((1 - draw) ** -skew))}`))

function countsOf(items: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const item of items) counts.set(item, (counts.get(item) ?? 0) + 1)
  return counts
}

describe('SpaceSaving', () => {
  it('counts each item within its error, and has every item above the least count', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 40 }), heavyTailed(2000), (capacity, stream) => {
        const sketch = new SpaceSaving(capacity)
        for (const item of stream) sketch.add(item)
        const exact = countsOf(stream)
        expect(sketch.total).toBe(stream.length)
        expect(sketch.least * capacity).toBeLessThanOrEqual(stream.length)
        expect([...sketch.items()].length).toBeLessThanOrEqual(1.25 * capacity)
        if (exact.size <= capacity) expect(sketch.least).toBe(0)
        const isWrong = ([item, count]: readonly [string, number]): boolean => {
          const counter = sketch.get(item)
          if (counter === undefined) return count > sketch.least
          return counter.count < count || counter.count - counter.error > count || counter.error > sketch.least
        }
        expect([...exact].filter(isWrong)).toEqual([])
      }),
      { numRuns: Number(process.env['RUNS'] ?? 100) },
    )
  })

  // The garbage of a first try would hide what a second one takes.
  it('takes memory for the items that have come, not for its capacity', { retry: 0 }, () => {
    const before = process.memoryUsage().heapUsed
    const sketches = Array.from({ length: 20 }, () => new SpaceSaving(80_000))
    for (const sketch of sketches) sketch.add('item')
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(10_000_000)
    expect(sketches.map(({ least }) => least)).toEqual(sketches.map(() => 0))
  })
})

describe('RecentSketch', () => {
  const WINDOW = 5000

  /** A stream with times: each item comes some milliseconds after the one before it. */
  const timed = fc
    .tuple(heavyTailed(1500), fc.infiniteStream(fc.constantFrom(0, 0, 0, 1, 7, 40, 900, 2500)))
    .map(([items, gaps]) => {
      let time = 1_767_225_600_000
      return items.map((item) => ({ item, time: (time += gaps.next().value as number) }))
    })

  it('counts the slices of its window within the stated errors', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 30 }), fc.integer({ min: 1, max: 50 }), timed, (capacity, size, stream) => {
        const sketch = new RecentSketch(capacity, WINDOW)
        for (const { item, time } of stream) sketch.add(item, time)
        const now = stream.at(-1)?.time ?? 0
        const oldest = Math.floor(now / (WINDOW / SLICES)) - SLICES
        const exact = countsOf(
          stream.filter(({ time }) => Math.floor(time / (WINDOW / SLICES)) >= oldest).map(({ item }) => item),
        )
        const summary = sketch.summary(size, now)
        expect(summary.total).toBe([...exact.values()].reduce((sum, count) => sum + count, 0))
        expect(summary.items.length).toBeLessThanOrEqual(size)
        const listed = new Set(summary.items.map(({ item }) => item))
        const isWrong = ({ item, count, error }: (typeof summary.items)[0]): boolean => {
          const truth = exact.get(item) ?? 0
          return count < truth || count - error > truth || error * capacity > summary.total
        }
        expect(summary.items.filter(isWrong)).toEqual([])
        expect([...exact].filter(([item, count]) => !listed.has(item) && count > summary.unlisted)).toEqual([])
        expect(summary.items.map(({ count }) => count)).toEqual(
          summary.items.map(({ count }) => count).toSorted((a, b) => b - a),
        )
      }),
      { numRuns: Number(process.env['RUNS'] ?? 100) },
    )
  })

  it('contains all of the last window, and nothing older than 1.2 windows', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 10_000_000 }), fc.integer({ min: 0, max: 2 * WINDOW }), (start, age) => {
        const sketch = new RecentSketch(10, WINDOW)
        sketch.add('a', start)
        const { total } = sketch.summary(10, start + age)
        if (age <= WINDOW) expect(total).toBe(1)
        if (age >= 1.2 * WINDOW) expect(total).toBe(0)
      }),
    )
  })

  it('counts into the newest slice when the clock steps back', () => {
    const sketch = new RecentSketch(10, WINDOW)
    sketch.add('a', 100_000)
    sketch.add('a', 50)
    expect(sketch.summary(10, 100_000).items).toEqual([{ item: 'a', count: 2, error: 0 }])
  })
})
