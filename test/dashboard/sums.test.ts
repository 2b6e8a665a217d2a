import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Series } from '../../src/dashboard/state.ts'
import type { Summary } from '../../src/dashboard/summary.ts'
import { addUp, type Member } from '../../src/dashboard/sums.ts'

const NOW = 1_700_000_005_000

function series(limit: string, allowed: readonly number[], denied: readonly number[] = [], words = ''): Series {
  return { limiter: limit === '' ? '' : 'api', limit, words, counts: [allowed, denied, [], []] }
}

/** A process that wrote `age` milliseconds ago, and whose clock is `ahead` of ours. */
function member(id: string, age: number, summary: Partial<Summary>, ahead = 0): Member {
  const now = NOW - age + ahead
  const nothing = { series: [series('', [])], denied: { keys: [], unlisted: 0 }, stores: [], rules: [] }
  const own = { format: 1 as const, host: id, pid: 1, since: now - 60_000, now, every: 2000, memory: 1 }
  return { id, age, summary: { ...own, ...nothing, ...summary } }
}

const newest = (counts: readonly (readonly number[])[], kind: number, buckets: number): readonly number[] =>
  counts[kind]!.slice(-buckets)

describe('what processes do together', () => {
  it('is the sum of their counts, each in its time, also if a clock is wrong', () => {
    const counts = [series('', [1, 2, 3]), series('hourly', [1, 2, 3], [7])]
    const sums = addUp(
      [
        member('a', 0, { series: counts }),
        // It wrote two buckets ago. Its clock is an hour and three seconds ahead.
        member('b', 20_000, { series: counts, every: 30_000 }, 3_603_000),
      ],
      NOW,
    )
    const hourly = sums.series[1]!
    expect(hourly).toMatchObject({ limiter: 'api', limit: 'hourly' })
    expect(newest(hourly.counts, 0, 6)).toEqual([0, 1, 2, 3 + 1, 2, 3])
    expect(newest(hourly.counts, 1, 4)).toEqual([0, 7, 0, 7])
    expect(hourly.counts[0]).toHaveLength(60)
  })

  it('has the rates of the last ten to twenty seconds, of processes that are not lost', () => {
    // Five seconds of the newest bucket are over.
    const counts = [series('', [9, 15, 15], [30])]
    const ages = Object.entries({ a: 0, b: 1000, c: 7001 })
    const members = ages.map(([id, age]) => member(id, age, { series: counts }))
    const sums = addUp(members, NOW)
    expect(sums.processes.map(({ rates, isLost }) => [...rates.slice(0, 2), isLost])).toEqual([
      [2, 2, false],
      [30 / 14, 30 / 14, false],
      [0, 0, true],
    ])
    expect(sums.series[0]!.rates[0]).toBeCloseTo(2 + 30 / 14)
    // What it had counted before it was lost happened. It wrote in the bucket before.
    expect(newest(sums.series[0]!.counts, 0, 4)).toEqual([9, 9 * 2 + 15, 15 * 3, 15 * 2])
  })

  it('begins when the first process began, by the clock of this one', () => {
    const sums = addUp([member('a', 0, {}), member('b', 1000, {}, 3_600_000)], NOW)
    expect(sums.since).toBe(NOW - 61_000)
    expect(sums.processes[1]).toMatchObject({ host: 'b', since: NOW - 61_000, age: 1000 })
  })

  it('has each state once, with the number of processes, and none of a process that is lost', () => {
    const down = { name: 'orders', state: 'away' as const, reason: 'ECONNREFUSED', since: 5 }
    const rules = { version: 3, policies: 2, loadedAt: 5, problem: '' }
    const sums = addUp(
      [
        member('a', 0, { stores: [{ ...down, since: 9 }], rules: [rules] }),
        member('b', 0, { stores: [down], rules: [{ ...rules, version: 2 }] }),
        member('c', 0, { stores: [{ ...down, state: 'healthy' }], rules: [rules, { ...rules, version: 4 }] }),
        member('d', 9000, { stores: [{ ...down, name: 'gone' }], rules: [rules] }),
      ],
      NOW,
    )
    expect(sums.stores).toEqual([
      { ...down, processes: 2 },
      { ...down, state: 'healthy', processes: 1 },
    ])
    expect(sums.rules.map(({ version, processes }) => [version, processes])).toEqual([
      [3, 2],
      [2, 1],
      [4, 1],
    ])
    expect(sums.processes.map(({ store, rules: versions }) => [store, versions])).toEqual([
      ['away', '3'],
      ['away', '2'],
      ['healthy', '3, 4'],
      ['away', '3'],
    ])
  })

  it('has the times of states by the clock of this process', () => {
    const down = { name: 'orders', state: 'away' as const, reason: '', since: NOW - 9000 }
    const unchanged = { ...down, name: 'users', state: 'healthy' as const, since: 0 }
    const rules = { version: 3, policies: 2, loadedAt: NOW - 8000, problem: '' }
    const ahead = 3_600_000
    // The latency of the store, which differs each time, does not change a time.
    const other = member('b', 40, { stores: [{ ...down, since: NOW - 9500 + ahead }, unchanged] }, ahead + 30)
    const late = member('c', 0, { rules: [{ ...rules, loadedAt: NOW - 8500 - ahead }] }, -ahead)
    const sums = addUp([member('a', 0, { stores: [down], rules: [rules] }), other, late], NOW)
    expect(sums.stores.map(({ since }) => since)).toEqual([NOW - 9500, 0])
    expect(sums.rules.map(({ loadedAt }) => loadedAt)).toEqual([NOW - 8500])
  })

  it('shows a hundred limits, and adds the others', () => {
    const many = (id: string): Member =>
      member(id, 0, { series: [series('', [1]), ...Array.from({ length: 50 }, (_, i) => series(`${id} ${i}`, [1]))] })
    const sums = addUp(['a', 'b', 'c'].map(many), NOW)
    expect(sums.series).toHaveLength(102)
    expect(sums.series[101]).toMatchObject({ limiter: '', limit: 'other', counts: [[50], [], [], []] })
  })

  it('is nothing for no process', () => {
    expect(addUp([], NOW)).toMatchObject({ series: [], processes: [], denied: [], since: NOW })
  })

  it('bounds how often a key was denied, whatever each process has listed', () => {
    const counts = fc.dictionary(fc.constantFrom('ann', 'bob', 'eve', 'joe'), fc.integer({ min: 1, max: 9 }))
    const denials = fc.array(counts, { minLength: 1, maxLength: 4 })
    fc.assert(
      fc.property(denials, fc.integer({ min: 1, max: 4 }), (each, size) => {
        const lists = each.map((denied) => {
          const sorted = Object.entries(denied).toSorted(([, a], [, b]) => b - a)
          const most = sorted.slice(0, size)
          const keys = most.map(([key, count]) => ({ key, limiter: 'api', limit: 'hourly', count, error: 0 }))
          return { keys, unlisted: sorted[size]?.[1] ?? 0 }
        })
        const members = lists.map((list, i) => member(String(i), 0, { denied: list }))
        const { denied } = addUp(members, NOW)
        for (const { key, count, error } of denied) {
          const truth = each.reduce((sum, one) => sum + (one[key] ?? 0), 0)
          expect(count).toBeGreaterThanOrEqual(truth)
          expect(count - error).toBeLessThanOrEqual(truth)
        }
        const listed = new Set(lists.flatMap(({ keys }) => keys.map(({ key }) => key)))
        expect(new Set(denied.map(({ key }) => key))).toEqual(listed)
        if (lists.every(({ unlisted }) => unlisted === 0)) expect(denied.every(({ error }) => error === 0)).toBe(true)
      }),
    )
  })
})
