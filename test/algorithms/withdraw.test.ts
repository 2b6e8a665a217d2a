import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Limit } from '../../src/engine/limit.ts'
import { Life, limits, Subject } from '../support/harness.ts'

const RUNS = { numRuns: Number(process.env['RUNS'] ?? 200) }

/** A request. If another limiter denies it, its reservation here is withdrawn after some other requests. */
interface Arrival {
  /** Time before it, in windows. */
  readonly after: number
  readonly cost: number
  readonly withdrawnAfter: number | undefined
}

const after = fc.oneof(fc.constant(0), fc.constant(1), fc.double({ min: 0, max: 1.2, noNaN: true }))
const arrivals: fc.Arbitrary<Arrival[]> = fc.array(
  fc.record({
    after,
    cost: fc.oneof({ weight: 3, arbitrary: fc.constant(1) }, { weight: 1, arbitrary: fc.integer({ min: 1, max: 4 }) }),
    withdrawnAfter: fc.oneof(fc.constant(undefined), fc.nat({ max: 3 })),
  }),
  { maxLength: 40 },
)

interface Admitted {
  readonly at: number
  readonly cost: number
}

/** Returns the requests that are admitted and not withdrawn. */
function lived(subject: Subject, start: number, trace: readonly Arrival[]): Admitted[] {
  const admitted: Admitted[] = []
  const open: { at: number; units: number; left: number }[] = []
  let now = start
  for (const { after, cost, withdrawnAfter } of trace) {
    now += Math.round(after * subject.window)
    const { allowed, at, charged } = subject.ask(now, cost)
    for (const each of open.filter((reserved) => reserved.left-- === 0)) subject.adjust(now, each.at, -each.units)
    if (!allowed) continue
    if (withdrawnAfter === undefined) admitted.push({ at: now, cost })
    else open.push({ at, units: charged, left: withdrawnAfter })
  }
  return admitted
}

/** Small limits, where edge cases are frequent. */
const small = (name: string): fc.Arbitrary<Limit> =>
  limits(name, { quota: fc.integer({ min: 1, max: 6 }), window: fc.constantFrom(10, 100, 1000), strict: false })

describe('a withdrawn reservation admits no request that it would not admit otherwise', () => {
  it.each([
    'gcra',
    'leakyBucket',
    'spacing',
    'slidingWindowLog',
    'slidingWindowBuckets',
    'slidingWindowCounter',
    'exponential',
  ])('under %s', (name) => {
    fc.assert(
      fc.property(small(name), arrivals, (limit, trace) => {
        const subject = new Subject(limit)
        const without = new Subject(limit)
        const start = new Life(subject).now
        for (const { at, cost } of lived(subject, start, trace)) expect(without.ask(at, cost).allowed).toBe(true)
      }),
      RUNS,
    )
  })
})

describe('a withdrawn reservation can move a window, and the window admits no more than its bound', () => {
  it.each([
    ['tokenBucket', 2],
    ['fixedWindow', 2],
    ['quotaLinear', 2],
  ])('under %s', (name, times) => {
    const plain = small(name).filter(({ quota, capacity }) => Number(capacity ?? quota) <= quota)
    fc.assert(
      fc.property(plain, arrivals, (limit, trace) => {
        const subject = new Subject(limit)
        const admitted = lived(subject, new Life(subject).now, trace)
        for (const { at } of admitted) {
          const within = admitted.filter((each) => each.at >= at && each.at < at + subject.window)
          expect(within.reduce((sum, { cost }) => sum + cost, 0)).toBeLessThanOrEqual(times * limit.quota)
        }
      }),
      RUNS,
    )
  })
})

describe('a late withdrawal refunds nothing of other charges', () => {
  it.each([
    ['a refill', { algorithm: 'tokenBucket', quota: 2, window: 1000, refill: 'interval' }, 1],
    ['a burst that has become even', { algorithm: 'quotaLinear', quota: 2, window: 1000 }, 3],
    ['what has decayed', { algorithm: 'exponential', quota: 2, window: 1000 }, 2],
  ] as const)('after %s', (_, limit, windows) => {
    const subject = new Subject(limit)
    const without = new Subject(limit)
    const start = new Life(subject).now
    const { at, charged } = subject.ask(start, 2)
    const later = start + windows * subject.window
    for (const each of [subject, without]) each.burst(later, 3)
    subject.adjust(later, at, -charged)
    const [left, before] = [subject.peek(later), without.peek(later)]
    expect(left).toEqual(before)
    expect(left.allowed).toBe(false)
  })

  it('and refunds all of the reservation if there were no other charges', () => {
    for (const algorithm of ['gcra', 'tokenBucket', 'quotaLinear', 'exponential']) {
      const subject = new Subject({ algorithm, quota: 4, window: 1000 })
      const start = new Life(subject).now
      subject.ask(start, 1)
      const before = subject.peek(start, 0).remaining
      const { at, charged } = subject.ask(start, 2)
      subject.adjust(start, at, -charged)
      expect(subject.peek(start, 0).remaining).toBe(before)
    }
  })
})
