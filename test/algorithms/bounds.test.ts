import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Limit } from '../../src/engine/limit.ts'
import { events, type Event, Life, limits, Subject } from '../support/harness.ts'

const RUNS = { numRuns: Number(process.env['RUNS'] ?? 200) }

interface Admitted {
  readonly at: number
  readonly cost: number
}

function admitted(limit: Limit, trace: readonly Event[]): { requests: Admitted[]; window: number } {
  const life = new Life(new Subject(limit))
  const requests: Admitted[] = []
  life.live(trace, ({ allowed, at }, cost) => {
    if (allowed) requests.push({ at, cost })
  })
  return { requests, window: life.subject.window }
}

/** Returns the most that was admitted in any window. The fullest window starts with a request. */
function busiest(requests: readonly Admitted[], window: number): number {
  const sums = requests.map(({ at }) =>
    requests.reduce((sum, each) => (each.at >= at && each.at < at + window ? sum + each.cost : sum), 0),
  )
  return Math.max(0, ...sums)
}

describe.each([
  ['slidingWindowLog', 1],
  ['slidingWindowBuckets', 1],
  ['fixedWindow', 2],
  ['slidingWindowCounter', 2],
  ['gcra', 2],
  ['leakyBucket', 2],
] as const)('%s', (name, times) => {
  it(`never admits more than ${times} × quota in any window`, () => {
    const plain = limits(name).filter(
      ({ quota, burst, capacity }) => Number(burst ?? quota) <= quota && Number(capacity ?? quota) <= quota,
    )
    fc.assert(
      fc.property(plain, events({ back: false, adjust: false }), (limit, trace) => {
        const { requests, window } = admitted(limit, trace)
        expect(busiest(requests, window)).toBeLessThanOrEqual(times * limit.quota)
      }),
      RUNS,
    )
  })
})

describe('fixedWindow', () => {
  it('never admits more than the quota between two window edges on the clock', () => {
    const clock = limits('fixedWindow').filter(({ anchor }) => anchor === 'clock')
    fc.assert(
      fc.property(clock, events({ back: true, adjust: false }), (limit, trace) => {
        const { requests, window } = admitted(limit, trace)
        const offset = (Number(limit['offset']) * window) / limit.window
        const sums = new Map<number, number>()
        for (const { at, cost } of requests) {
          const edge = Math.floor((at - offset) / window)
          sums.set(edge, (sums.get(edge) ?? 0) + cost)
        }
        expect(Math.max(0, ...sums.values())).toBeLessThanOrEqual(limit.quota)
      }),
      RUNS,
    )
  })
})

describe('slidingWindowBuckets', () => {
  it('returns a unit at most one bucket later than the log', () => {
    const buckets = limits('slidingWindowBuckets', { strict: false })
    fc.assert(
      fc.property(buckets, fc.double({ min: 0, max: 1, noNaN: true }), ({ quota, window, buckets }, phase) => {
        const subject = new Subject({ algorithm: 'slidingWindowBuckets', quota, window, buckets })
        const now = new Life(subject).now + Math.floor(phase * subject.window)
        subject.ask(now, quota)
        const { retry } = subject.peek(now, 1)
        expect(retry).toBeGreaterThan(subject.window)
        expect(retry).toBeLessThanOrEqual(subject.window + subject.window / Number(buckets))
      }),
      RUNS,
    )
  })
})
