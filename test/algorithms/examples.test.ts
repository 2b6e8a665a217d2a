import { describe, expect, it } from 'vitest'
import { finch } from '../support/model.ts'
import { EPOCH_MS, Subject } from '../support/harness.ts'

const START = EPOCH_MS * 1000
const SECOND = 1_000_000

describe('the hybrid quotaLinear and its published pseudo-code', () => {
  it.each([1, 2, 7, 60])('agree with a quota of %d', (quota) => {
    const subject = new Subject({ algorithm: 'quotaLinear', quota, window: 1000 })
    const window = BigInt(subject.window)
    let client: Parameters<typeof finch>[2]
    let now = START
    for (let i = 0; i < 3000; i++) {
      now += [0, 1, 9_999, 100_003, 333_333, i % 100 === 0 ? 2_500_000 : 7][(i * 7) % 6]!
      const { allow, c } = finch(BigInt(quota), window, client, BigInt(now))
      client = c
      expect(subject.ask(now).allowed).toBe(allow)
    }
  })

  it('return no token before the window would have ended, then one at an even rate', () => {
    const subject = new Subject({ algorithm: 'quotaLinear', quota: 10, window: 1000 })
    expect(subject.burst(START + 1, 20)).toBe(10)
    expect(subject.peek(START + 1).retry).toBe(SECOND)
    expect(subject.burst(START + 1 + SECOND, 20)).toBe(1)
    expect(subject.peek(START + 1 + SECOND).retry).toBe(SECOND / 10)
  })

  it('treat a request of several units as several requests', () => {
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
