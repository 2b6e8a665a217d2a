import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { EPOCH_MS, events, Life, limits, Subject } from '../support/harness.ts'

const RUNS = { numRuns: Number(process.env['RUNS'] ?? 200) }

const START = EPOCH_MS * 1000

describe('exponential', () => {
  it('measures the rate of its formula with the logarithms of the platform', () => {
    fc.assert(
      fc.property(limits('exponential'), events({ back: false, adjust: false }), (limit, trace) => {
        const life = new Life(new Subject(limit))
        const W = life.subject.window
        let rate = 0
        let last = -Infinity
        life.live(trace, ({ allowed, at, charged }, n) => {
          const elapsed = at - last
          const fresh = rate * Math.exp(-elapsed / W) < 0.5
          const x = Math.max(elapsed, 1) / W
          const measured = fresh ? n : Math.max(n, (n * -Math.expm1(-x)) / x + Math.exp(-x) * rate)
          const close = Math.abs(measured - limit.quota) <= 1e-14 * limit.quota
          if (!close) expect(allowed).toBe(measured <= limit.quota)
          const held = rate * Math.exp(-(fresh ? Infinity : x))
          expect(Math.abs(charged - (measured - held)) <= 1e-14 * (measured + held)).toBe(true)
          if (!allowed && limit.strict !== true) return
          rate = allowed ? measured : Math.max(limit.quota * (1 + 2 / W), fresh ? 0 : rate * Math.exp(-elapsed / W))
          last = at
          const { cells } = life.subject.state()
          expect(Math.abs(cells[0]! - rate) <= 4e-15 * rate).toBe(true)
          rate = cells[0]!
        })
      }),
      RUNS,
    )
  })

  it('treats a key as new when its rate has decayed below one half', () => {
    fc.assert(
      fc.property(
        limits('exponential', { strict: false }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (limit, part) => {
          const subject = new Subject(limit)
          const cost = Math.max(1, Math.round(part * limit.quota))
          const { reset } = subject.ask(START, cost)
          expect(Math.abs(reset - subject.window * Math.log(2 * cost))).toBeLessThanOrEqual(1 + subject.window * 1e-14)
          if (subject.window > 1e6)
            expect(cost * Math.exp(-(reset - 2) / subject.window)).toBeGreaterThan(0.5 * (1 - 1e-13))
        },
      ),
      RUNS,
    )
  })

  it('loses no request of a burst to rounding in a long window', () => {
    const subject = new Subject({ algorithm: 'exponential', quota: 1000, window: '365d' })
    expect(subject.burst(START, 2000)).toBe(1000)
  })

  it('admits a client that keeps to the rate forever, and measures that rate', () => {
    const subject = new Subject({ algorithm: 'exponential', quota: 10, window: 1000 })
    for (let i = 0; i < 1000; i++) expect(subject.ask(START + i * 100_000).allowed).toBe(true)
    expect(subject.state().cells[0]).toBeCloseTo(10, 9)
  })

  it('limits a faster client to the rate', () => {
    const subject = new Subject({ algorithm: 'exponential', quota: 10, window: 1000 })
    let admitted = 0
    for (let i = 0; i < 100_000; i++) if (subject.ask(START + i * 1000).allowed) admitted++
    // A burst at first, then the rate.
    expect(admitted).toBeGreaterThan(1000)
    expect(admitted).toBeLessThan(1020)
  })

  it('admits no client that does not slow down, when strict', () => {
    const subject = new Subject({ algorithm: 'exponential', quota: 10, window: 1000, strict: true })
    let last = 0
    for (let i = 0; i < 10_000; i++) if (subject.ask(START + i * 1000).allowed) last = i
    expect(last).toBeLessThan(20)
  })

  it('reports waits that never increase over a year', () => {
    const subject = new Subject({ algorithm: 'exponential', quota: 1e9, window: '365d' })
    subject.ask(START, 1e9)
    for (const cost of [1, 2, 1000, 1e6, 5e8, 1e9]) {
      const { retry } = subject.peek(START, cost)
      for (const before of [1, 2, 3, 1000]) expect(subject.peek(START + retry - before, cost).allowed).toBe(false)
      for (const after of [0, 1, 2, 1000]) expect(subject.peek(START + retry + after, cost).allowed).toBe(true)
    }
  })
})
