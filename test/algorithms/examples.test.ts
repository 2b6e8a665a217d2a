import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { EPOCH_MS, events, forAll, Life, limits, Subject } from '../support/harness.ts'

const START = EPOCH_MS * 1000
const SECOND = 1_000_000
const part = fc.double({ min: 0, max: 1, noNaN: true })

// model.test.ts compares it with its published pseudo-code.
describe('the hybrid quotaLinear', () => {
  it('returns no token before the window would have ended, then one at an even rate', () => {
    const subject = new Subject({ algorithm: 'quotaLinear', quota: 10, window: 1000 })
    expect(subject.burst(START + 1, 20)).toBe(10)
    expect(subject.peek(START + 1).retry).toBe(SECOND)
    expect(subject.burst(START + 1 + SECOND, 20)).toBe(1)
    expect(subject.peek(START + 1 + SECOND).retry).toBe(SECOND / 10)
  })

  it('treats a request of several units as several requests', () => {
    const subject = new Subject({ algorithm: 'quotaLinear', quota: 10, window: 1000 })
    const unitByUnit = subject.clone()
    subject.ask(START, 4)
    subject.ask(START + 5, 6)
    unitByUnit.burst(START, 4)
    unitByUnit.burst(START + 5, 6)
    expect(subject.state()).toEqual(unitByUnit.state())
  })
})

describe('a leaky bucket', () => {
  it('reports an even delay to each request', () => {
    const subject = new Subject({ algorithm: 'leakyBucket', quota: 5, window: 1000, capacity: 3 })
    expect(subject.ask(START).delay).toBe(0)
    expect(subject.ask(START).delay).toBe(SECOND / 5)
    expect(subject.ask(START - 7)).toMatchObject({ allowed: true, delay: (2 * SECOND) / 5 + 7 })
    expect(subject.ask(START)).toMatchObject({ allowed: false, delay: 0, retry: SECOND / 5 })
    expect(subject.ask(START + SECOND / 5).delay).toBe((2 * SECOND) / 5)
  })

  it('rounds a wait up to a whole tick', () => {
    const subject = new Subject({ algorithm: 'leakyBucket', quota: 3, window: 1000 })
    expect([subject.ask(START).delay, subject.ask(START).delay, subject.ask(START).delay]).toEqual([
      0, 333_334, 666_667,
    ])
  })

  it('reports no delay with shape: false', () => {
    const subject = new Subject({ algorithm: 'leakyBucket', quota: 5, window: 1000, capacity: 3, shape: false })
    for (let i = 0; i < 3; i++) expect(subject.ask(START)).toMatchObject({ allowed: true, delay: 0 })
    expect(subject.ask(START).allowed).toBe(false)
  })
})

describe('exponential', () => {
  it('measures the rate of its formula with the logarithms of the platform', () => {
    forAll(limits('exponential'), events({ back: false, adjust: false }), (limit, trace) => {
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
    })
  })

  it('treats a key as new when its rate has decayed below one half', () => {
    forAll(limits('exponential', { strict: false }), part, (limit, part) => {
      const subject = new Subject(limit)
      const { window } = subject
      const cost = Math.max(1, Math.round(part * limit.quota))
      const { reset } = subject.ask(START, cost)
      expect(Math.abs(reset - window * Math.log(2 * cost))).toBeLessThanOrEqual(1 + window * 1e-14)
      if (window > 1e6) expect(cost * Math.exp(-(reset - 2) / window)).toBeGreaterThan(0.5 * (1 - 1e-13))
    })
  })

  it('admits no client that does not slow down, when strict', () => {
    const subject = new Subject({ algorithm: 'exponential', quota: 10, window: 1000, strict: true })
    let last = 0
    for (let i = 0; i < 10_000; i++) if (subject.ask(START + i * 1000).allowed) last = i
    expect(last).toBeLessThan(20)
  })
})
