import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  capacityOf,
  EPOCH_MS,
  events,
  exactNames,
  Life,
  limits,
  names,
  pauses,
  strictNames,
  Subject,
} from '../support/harness.ts'

/** It measures a rate instead of counting, so a cost that is split over ticks may fit although it does not at once. */
const MEASURED = ['exponential']

const RUNS = { numRuns: Number(process.env['RUNS'] ?? 200) }

describe.each(names())('%s', (name) => {
  const trace = events({ back: true, adjust: true })
  /** Slots can be released at any time, so that the wait is a hint. */
  const isExact = exactNames().includes(name)

  /** A key that was used before, the time, and a cost. */
  const keys = fc
    .tuple(limits(name), trace, pauses, fc.double({ min: 0, max: 1.1, noNaN: true }))
    .map(([limit, past, pause, fraction]) => {
      const life = new Life(new Subject(limit))
      life.live(past)
      life.wait(Math.round(pause * life.subject.window))
      return { limit, subject: life.subject, now: life.now, cost: life.cost(fraction) }
    })

  it('admits at retry and after it, but not one tick before', () => {
    fc.assert(
      fc.property(keys, fc.double({ min: 0, max: 3, noNaN: true }), ({ subject, now, cost }, later) => {
        const { allowed, retry } = subject.ask(now, cost)
        if (allowed || cost > capacityOf(subject)) {
          expect(retry).toBe(allowed ? 0 : Infinity)
          return
        }
        expect(Number.isSafeInteger(retry) && retry > 0).toBe(true)
        if (!isExact) {
          expect(retry).toBe(subject.parameters['hint'])
          return
        }
        expect(subject.peek(now + retry - 1, cost).allowed).toBe(false)
        expect(subject.peek(now + retry, cost).allowed).toBe(true)
        // A bucket that was full for a window is new again, and a new one may start with fewer tokens.
        if (subject.limit['initial'] !== undefined) return
        expect(subject.peek(now + retry + Math.round(later * subject.window), cost).allowed).toBe(true)
      }),
      RUNS,
    )
  })

  it('reports the same retry time whenever it is asked', () => {
    fc.assert(
      fc.property(keys, fc.double({ min: 0, max: 1, noNaN: true }), ({ subject, now, cost, limit }, share) => {
        const { retry } = subject.ask(now, cost)
        if (retry === 0 || retry === Infinity || limit.strict === true) return
        const waited = Math.floor(share * (retry - 1))
        const { retry: later, allowed } = subject.peek(now + waited, cost)
        if (isExact) expect(later).toBe(retry - waited)
        else expect(later).toBe(allowed ? 0 : retry)
      }),
      RUNS,
    )
  })

  it('admits what remains in one request, and not one unit more', () => {
    fc.assert(
      fc.property(keys, ({ subject, now, cost }) => {
        const { remaining } = subject.ask(now, cost)
        expect(Number.isSafeInteger(remaining) && remaining >= 0 && remaining <= capacityOf(subject)).toBe(true)
        expect(subject.peek(now, remaining).allowed).toBe(true)
        if (!MEASURED.includes(name)) expect(subject.peek(now, remaining + 1).allowed).toBe(false)
      }),
      RUNS,
    )
  })

  it('admits what remains unit by unit, and not one unit more', () => {
    fc.assert(
      fc.property(keys, ({ subject, now, cost }) => {
        const { remaining } = subject.ask(now, cost)
        if (remaining > 50) return
        expect(subject.burst(now, remaining)).toBe(remaining)
        if (!MEASURED.includes(name)) expect(subject.peek(now).allowed).toBe(false)
      }),
      RUNS,
    )
  })

  it('decides as for a new key once reset has passed, and not one tick before', () => {
    fc.assert(
      fc.property(keys, fc.double({ min: 0, max: 2, noNaN: true }), ({ limit, subject, now, cost }, later) => {
        const { reset } = subject.ask(now, cost)
        expect(Number.isSafeInteger(reset) && reset >= 0).toBe(true)
        if (reset > 0) expect(subject.peek(now + reset - 1, 0).reset).toBe(1)
        const time = now + reset + Math.round(later * subject.window)
        for (const each of [0, 1, cost, capacityOf(subject), capacityOf(subject) + 1]) {
          const fresh = new Subject(limit)
          const known = subject.clone()
          expect(known.ask(time, each)).toEqual(fresh.ask(time, each))
          if (each > 0) expect(known.peek(time, 0)).toEqual(fresh.peek(time, 0))
        }
      }),
      RUNS,
    )
  })

  it('reports after a charge what the next peek reports', () => {
    fc.assert(
      fc.property(keys, ({ subject, now, cost }) => {
        const asked = subject.ask(now, cost)
        const { remaining, reset } = subject.peek(now, 0)
        expect({ remaining, reset }).toEqual({ remaining: asked.remaining, reset: asked.reset })
      }),
      RUNS,
    )
  })

  it('never admits more when the clock steps back', () => {
    const back = fc.double({ min: 0, max: 3, noNaN: true })
    fc.assert(
      fc.property(keys, back, fc.integer({ min: 1, max: 3 }), ({ subject, now, cost }, ago, units) => {
        if (!subject.ask(now, cost).allowed) return
        const { remaining } = subject.peek(now, 0)
        const earlier = now - Math.round(ago * subject.window)
        expect(subject.peek(earlier, 0).remaining).toBeLessThanOrEqual(remaining)
        if (!MEASURED.includes(name)) expect(subject.peek(earlier, remaining + 1).allowed).toBe(false)
        subject.adjust(earlier, earlier, units)
        const charged = Math.max(0, remaining - units)
        expect(Math.abs(subject.peek(now, 0).remaining - charged)).toBeLessThanOrEqual(MEASURED.includes(name) ? 1 : 0)
      }),
      RUNS,
    )
  })

  it('charges nothing for a cost of 0, nor for a denial without strict', () => {
    fc.assert(
      fc.property(keys, ({ subject, now, cost, limit }) => {
        const before = subject.state()
        expect(subject.ask(now, 0)).toMatchObject({ allowed: true, retry: 0, delay: 0 })
        expect(subject.state()).toEqual(before)
        const report = subject.peek(now, 0)
        const { allowed, remaining } = subject.ask(now, cost)
        if (allowed || limit.strict === true) return
        expect(remaining).toBe(report.remaining)
        if (limit['initial'] === undefined) expect(subject.state()).toEqual(before)
      }),
      RUNS,
    )
  })
})

describe.each(strictNames())('%s', (name) => {
  it('charges denied requests when strict, so that a client that keeps retrying stays denied', () => {
    fc.assert(
      fc.property(limits(name, { strict: true }), fc.double({ min: 0.01, max: 0.99, noNaN: true }), (limit, share) => {
        const subject = new Subject(limit)
        let now = EPOCH_MS * subject.parameters['perMs']!
        const capacity = capacityOf(subject)
        while (subject.ask(now, capacity).allowed) continue
        for (let i = 0; i < 20; i++) {
          const { retry } = subject.ask(now, capacity)
          now += Math.floor(share * retry)
          if (Math.floor(share * retry) === retry) return
          const { allowed, remaining } = subject.ask(now, capacity)
          expect({ allowed, remaining }).toEqual({ allowed: false, remaining: 0 })
        }
      }),
      RUNS,
    )
  })
})
