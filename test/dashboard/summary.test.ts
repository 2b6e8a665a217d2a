import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { MOST_LIMITS } from '../../src/dashboard/counters.ts'
import { BUCKETS, type Series } from '../../src/dashboard/state.ts'
import { MOST_DENIED, readSummary, type Summary, totalOf, writeSummary } from '../../src/dashboard/summary.ts'
import { LARGEST_TEXT } from '../../src/stores/texts.ts'

// Names and keys may consist of characters that JSON writes as six bytes, or UTF-8 as four.
const text = (maxLength: number): fc.Arbitrary<string> =>
  fc.oneof(
    fc.string({ maxLength }),
    fc.string({ unit: 'binary', maxLength: maxLength / 2 }),
    fc.constant('\u0001'.repeat(maxLength)),
  )
const count = fc.oneof(fc.nat(9), fc.nat(2 ** 32 - 1))
const time = fc.double({ min: 0, max: 8.64e15, noNaN: true })
const list = fc.array(count, { maxLength: BUCKETS })

const series: fc.Arbitrary<Series> = fc.record({
  limiter: text(128),
  limit: text(128),
  words: text(600),
  counts: fc.tuple(list, list, list, list),
})
const denied = fc.record({ key: text(64), limiter: text(128), limit: text(128), count, error: count })
const state = fc.record({
  name: text(300),
  state: fc.constantFrom('healthy' as const, 'slow' as const, 'away' as const),
  reason: text(300),
  since: time,
})
const rules = fc.record({ version: count, policies: count, loadedAt: time, problem: text(300) })
const summaries: fc.Arbitrary<Summary> = fc.record({
  format: fc.constant(1 as const),
  host: text(64),
  pid: fc.nat(),
  since: time,
  now: time,
  every: fc.nat(60_000),
  memory: fc.nat(),
  series: fc.array(series, { minLength: 1, maxLength: MOST_LIMITS + 2, size: 'max' }),
  denied: fc.record({ keys: fc.array(denied, { maxLength: MOST_DENIED, size: 'max' }), unlisted: count }),
  stores: fc.array(state, { maxLength: 20, size: 'max' }),
  rules: fc.array(rules, { maxLength: 20, size: 'max' }),
})

const verdicts = (all: readonly Series[]): number => all.reduce((sum, each) => sum + totalOf(each), 0)

describe('a summary', () => {
  it('has at most 16 kB, whatever is in it, can be read, and loses no request', () => {
    fc.assert(
      fc.property(summaries, (summary) => {
        const written = writeSummary(summary)
        expect(Buffer.byteLength(written)).toBeLessThanOrEqual(LARGEST_TEXT)
        const read = readSummary(written)!
        expect([read.host, read.since, read.series[0]]).toEqual([summary.host, summary.since, summary.series[0]])
        expect(verdicts(read.series)).toBe(verdicts(summary.series))
        // A key that was left out was denied no more often than the list says.
        for (const { count: left } of summary.denied.keys.slice(read.denied.keys.length).slice(0, 1))
          expect(read.denied.unlisted).toBeGreaterThanOrEqual(left)
      }),
      { numRuns: 40 },
    )
  })

  it('keeps the limits with the most requests, and a store that does not answer', () => {
    const limit = (name: string, requests: number): Series => ({
      limiter: 'api',
      limit: name,
      words: 'x'.repeat(600),
      counts: [Array.from({ length: BUCKETS }, () => requests), [], [], []],
    })
    const limits = Array.from({ length: MOST_LIMITS }, (_, i) => limit(`limit ${i}`, i))
    const stores = Array.from({ length: 20 }, (_, i) => ({
      name: `store ${i} ${'y'.repeat(250)}`,
      state: i === 19 ? ('away' as const) : ('healthy' as const),
      reason: 'z'.repeat(300),
      since: 1,
    }))
    const summary = { ...blank(), series: [{ ...limit('', 1), limiter: '' }, ...limits], stores }
    const read = readSummary(writeSummary(summary))!
    expect(read.series[1]!.limit).toBe(`limit ${MOST_LIMITS - 1}`)
    expect(read.series.at(-1)!).toMatchObject({ limiter: '', limit: 'other' })
    expect(read.stores[0]!.name).toMatch(/^store 19 /)
  })

  it('is not read from anything else: no text throws, or is taken for one', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (given) => {
        expect(readSummary(given)).toBeUndefined()
      }),
    )
  })

  const all = (more: object): object => ({ series: [{ ...blank().series[0], ...more }] })
  const key = { key: 'a', limiter: 'b', limit: 'c', count: 1, error: 0 }
  const keys = Array.from({ length: MOST_DENIED + 1 }, () => key)
  const wrong: Readonly<Record<string, object>> = {
    'another format': { format: 2 },
    'no series': { series: [] },
    'too many series': { series: new Array(MOST_LIMITS + 3).fill(blank().series[0]) },
    'too many counts': all({ counts: [new Array(BUCKETS + 1).fill(1), [], [], []] }),
    'a kind of counts that is missing': all({ counts: [[], [], []] }),
    'a count below 0': all({ counts: [[-1], [], [], []] }),
    'a count that is a text': all({ counts: [['1'], [], [], []] }),
    'a name that is an object': all({ limiter: {} }),
    'a long host': { host: 'x'.repeat(301) },
    'a time that no date has': { since: 1e17 },
    'a state that is none': { stores: [{ name: 'a', state: 'fine', reason: '', since: 0 }] },
    'too many keys': { denied: { keys, unlisted: 0 } },
    'rules that are none': { rules: [null] },
  }
  it.each(Object.keys(wrong))('is not read with %s', (name) => {
    expect(readSummary(JSON.stringify(blank()))).toEqual(blank())
    expect(readSummary(JSON.stringify({ ...blank(), ...wrong[name] }))).toBeUndefined()
  })
})

function blank(): Summary {
  const all = { limiter: '', limit: '', words: '', counts: [[], [], [], []] }
  const lists = { series: [all], denied: { keys: [], unlisted: 0 }, stores: [], rules: [] }
  return { format: 1, host: 'web-1', pid: 1, since: 0, now: 1e12, every: 2000, memory: 1, ...lists }
}
