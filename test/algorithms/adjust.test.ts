import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  capacityOf,
  EPOCH_MS,
  events,
  exactNames,
  forAll,
  Life,
  limits,
  names,
  pauses,
  Subject,
} from '../support/harness.ts'
import { mostInWindow } from '../support/worst-case.ts'

const START = EPOCH_MS * 1000

const part = fc.double({ min: 0, max: 1, noNaN: true })

describe.each(names())('%s', (name) => {
  /** Slots can be released at any time, so that the wait is a hint. They are free when all leases have ended. */
  const isExact = exactNames().includes(name)
  const keys = fc
    .tuple(limits(name), events({ back: true, adjust: true }), pauses, fc.double({ min: 0, max: 1.1, noNaN: true }))
    .map(([limit, past, pause, fraction]) => {
      const life = new Life(new Subject(limit))
      life.live(past)
      life.wait(Math.round(pause * life.subject.window))
      return { limit, subject: life.subject, now: life.now, cost: life.cost(fraction) }
    })

  // A new key that does not start full, a measured rate, and the last token of a hybrid change more than by their cost.
  const exact = (limit: { readonly [option: string]: unknown }, remaining: number): boolean =>
    name !== 'exponential' && limit['initial'] === undefined && !(name === 'quotaLinear' && remaining === 0)

  const pause = fc.oneof(fc.constant(0), part, fc.double({ min: 0, max: 3, noNaN: true }))

  it('decides as if a request was never charged if it is refunded at once', () => {
    forAll(keys, pause, part, ({ limit, subject, now, cost }, pause, share) => {
      const never = subject.clone()
      const { allowed, at, charged, remaining } = subject.ask(now, cost)
      if (!allowed || !exact(limit, remaining)) return
      subject.adjust(now, at, -charged)
      const later = now + Math.round(pause * subject.window)
      for (const each of [0, 1, cost, Math.ceil(share * capacityOf(subject)), capacityOf(subject)]) {
        const { at: _, ...known } = subject.peek(later, each)
        const { at: __, ...expected } = never.peek(later, each)
        expect(known).toEqual(expected)
      }
    })
  })

  it('refunds later no more than if the request was never charged', () => {
    forAll(keys, pause, pause, ({ limit, subject, now, cost }, first, second) => {
      const never = subject.clone()
      const { allowed, at, charged, remaining } = subject.ask(now, cost)
      if (!allowed || !exact(limit, remaining)) return
      const kept = subject.clone()
      const then = now + Math.round(first * subject.window)
      subject.adjust(then, at, -charged)
      const later = then + Math.round(second * subject.window)
      const left = subject.peek(later, 0).remaining
      expect(left).toBeLessThanOrEqual(never.peek(later, 0).remaining)
      expect(left).toBeGreaterThanOrEqual(kept.peek(later, 0).remaining)
    })
  })

  it('refunds at once what a request was charged', () => {
    forAll(keys, ({ limit, subject, now, cost }) => {
      const before = subject.peek(now, 0).remaining
      const { allowed, at, charged, remaining } = subject.ask(now, cost)
      if (!allowed) return
      subject.adjust(now, at, -charged)
      const after = subject.peek(now, 0).remaining
      if (exact(limit, remaining)) expect(after).toBe(before)
      else expect(after >= remaining && after <= capacityOf(subject)).toBe(true)
      if (name === 'exponential')
        expect(Math.abs(after - before)).toBeLessThanOrEqual(1 + capacityOf(subject) / subject.window)
    })
  })

  it('keeps every retry time it has reported, even if units are refunded in between', () => {
    const charges = fc.array(fc.record({ pause: part, share: part, refund: fc.boolean(), when: part }), {
      maxLength: 12,
    })
    forAll(keys, charges, part, ({ subject, now, cost }, past, share) => {
      let time = now
      const refunds: { readonly when: number; readonly at: number; readonly charged: number }[] = []
      for (const { pause, share: size, refund, when } of past) {
        time += Math.round(pause * 0.2 * subject.window)
        const { allowed, at, charged } = subject.ask(time, Math.ceil(size * capacityOf(subject)))
        if (allowed && refund) refunds.push({ when, at, charged })
      }
      const wanted = Math.max(cost, Math.ceil(share * capacityOf(subject)))
      const { allowed, retry, reset } = subject.ask(time, wanted)
      if (allowed || retry === Infinity) return
      for (const { when, at, charged } of refunds.toSorted((a, b) => a.when - b.when))
        subject.adjust(time + Math.round(when * retry), at, -charged)
      expect(subject.peek(time + (isExact ? retry : reset), wanted).allowed).toBe(true)
    })
  })

  it('changes nothing when units of a new key are refunded', () => {
    fc.assert(
      fc.property(limits(name), (limit) => {
        const subject = new Subject(limit)
        subject.adjust(START, START, -1)
        expect(subject.state()).toEqual(new Subject(limit).state())
      }),
    )
  })
})

/** Returns a key under ten a second. */
const ten = (algorithm: string): Subject => new Subject({ algorithm, quota: 10, window: 1000 })

describe('adjust() refunds only what still counts', () => {
  it('in the older window of a counter', () => {
    const subject = ten('slidingWindowCounter')
    subject.ask(START, 8)
    subject.ask(START + 1_500_000, 3)
    expect(subject.peek(START + 1_500_000, 0).remaining).toBe(3)
    subject.adjust(START + 1_500_000, START, -8)
    expect(subject.peek(START + 1_500_000, 0).remaining).toBe(7)
    subject.adjust(START + 1_500_000, START - 1, -3)
    expect(subject.peek(START + 1_500_000, 0).remaining).toBe(7)
  })

  it('in the newer window of a counter, and the older one still counts when the clock steps back', () => {
    const subject = ten('slidingWindowCounter')
    subject.ask(START, 8)
    subject.ask(START + 1_000_000, 1)
    subject.adjust(START + 1_000_000, START + 1_000_000, -1)
    expect(subject.peek(START + 999_999, 0)).toMatchObject({ remaining: 2, at: START + 1_000_000 })
    expect(subject.ask(START + 999_999, 3).allowed).toBe(false)
    subject.adjust(START + 999_999, START + 999_999, 1)
    expect(subject.peek(START + 1_000_000, 0).remaining).toBe(1)
  })

  it('in the entry of a log, and in no other', () => {
    const subject = ten('slidingWindowLog')
    for (const [i, cost] of [2, 3, 4].entries()) subject.ask(START + i * 10, cost)
    subject.adjust(START + 30, START + 10, -5)
    expect(subject.peek(START + 30, 0).remaining).toBe(4)
    subject.adjust(START + 30, START + 20, -4)
    expect(subject.peek(START + 30, 0)).toMatchObject({ remaining: 8, reset: 1_000_000 - 30 })
    subject.adjust(START + 30, START, -2)
    expect(subject.state()).toEqual({ cells: [0, expect.any(Number)], entries: [] })
  })

  it('in the window of a hybrid, also when it has become smooth', () => {
    const subject = new Subject({ algorithm: 'quotaLinear', quota: 100, window: 1000 })
    subject.ask(START, 1)
    const early = subject.ask(START + 900_000, 50)
    const late = subject.ask(START + 1_000_000, 100)
    const before = subject.state()
    subject.adjust(START + 1_010_000, early.at, -early.charged)
    expect(subject.state()).toEqual(before)
    expect(subject.burst(START + 1_999_999, 100)).toBe(0)
    subject.adjust(START + 1_999_999, late.at, -late.charged)
    expect(subject.burst(START + 2_000_000, 100)).toBe(1)
    const smooth = subject.ask(START + 2_100_000, 5)
    subject.adjust(START + 2_100_000, smooth.at, -smooth.charged)
    expect(subject.ask(START + 2_100_000, 10).allowed).toBe(true)
  })

  it('nothing of a measured rate that was measured again', () => {
    const subject = new Subject({ algorithm: 'exponential', quota: 100, window: 1000 })
    const first = subject.ask(START, 40)
    subject.ask(START + 1_000_000, 1)
    const { cells } = subject.state()
    subject.adjust(START + 1_200_000, first.at, -first.charged)
    expect(subject.state().cells).toEqual(cells)
  })
})

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
    forAll(small, moments, (limit, trace) => {
      const subject = new Subject(limit)
      const times = lived(subject, trace).toSorted((a, b) => a - b)
      for (const [i, time] of times.entries()) {
        const within = times.findLastIndex((each) => each < time + subject.window) - i + 1
        expect(within).toBeLessThanOrEqual(mostInWindow(limit, capacityOf(subject)))
      }
    })
  })
})
