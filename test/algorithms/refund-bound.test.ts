import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { capacityOf, Life, limits, exactNames, Subject } from '../support/harness.ts'
import { mostInWindow } from '../support/worst-case.ts'

const RUNS = { numRuns: Number(process.env['RUNS'] ?? 200) }

/** What a client does at one moment: some requests, then refunds of earlier ones, with a request after each. */
interface Moment {
  /** Time before it, in windows. */
  readonly after: number
  readonly asks: number
  readonly refunds: number
  readonly oldestFirst: boolean
}

const moments: fc.Arbitrary<Moment[]> = fc.array(
  fc.record({
    after: fc.oneof(fc.constantFrom(0, 0.1, 0.5, 1), fc.double({ min: 0, max: 1.2, noNaN: true })),
    asks: fc.nat({ max: 7 }),
    refunds: fc.oneof({ weight: 2, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat({ max: 30 }) }),
    oldestFirst: fc.boolean(),
  }),
  { maxLength: 24 },
)

interface Charged {
  readonly now: number
  readonly at: number
  readonly charged: number
}

/** Returns the times of the requests that were admitted and not refunded. */
function lived(subject: Subject, trace: readonly Moment[]): number[] {
  const held: Charged[] = []
  let { now } = new Life(subject)
  const ask = (): void => {
    const { allowed, at, charged } = subject.ask(now)
    if (allowed) held.push({ now, at, charged })
  }
  for (const { after, asks, refunds, oldestFirst } of trace) {
    now += Math.round(after * subject.window)
    for (let i = 0; i < asks; i++) ask()
    for (let i = 0; i < refunds && held.length > 0; i++) {
      const { at, charged } = oldestFirst ? held.shift()! : held.pop()!
      subject.adjust(now, at, -charged)
      ask()
    }
  }
  return held.map((each) => each.now)
}

describe.each(exactNames())('%s', (name) => {
  it('admits no more than its bound in any window, without what was refunded', () => {
    const small = limits(name, { quota: fc.integer({ min: 1, max: 6 }), window: fc.constantFrom(10, 100, 1000) })
    fc.assert(
      fc.property(small, moments, (limit, trace) => {
        const subject = new Subject(limit)
        const times = lived(subject, trace).toSorted((a, b) => a - b)
        for (const [i, time] of times.entries()) {
          const within = times.findLastIndex((each) => each < time + subject.window) - i + 1
          expect(within).toBeLessThanOrEqual(mostInWindow(limit, capacityOf(subject)))
        }
      }),
      RUNS,
    )
  })
})
