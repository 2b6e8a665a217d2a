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

  it('admits no client that does not slow down, when strict', () => {
    const subject = new Subject({ algorithm: 'exponential', quota: 10, window: 1000, strict: true })
    let last = 0
    for (let i = 0; i < 10_000; i++) if (subject.ask(START + i * 1000).allowed) last = i
    expect(last).toBeLessThan(20)
  })
})
