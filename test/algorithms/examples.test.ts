import { describe, expect, it } from 'vitest'
import { finch } from '../support/model.ts'
import { EPOCH_MS, Subject } from '../support/harness.ts'

const START = EPOCH_MS * 1000
const SECOND = 1_000_000

/** Charges all limits if all admit, else none. */
function askAll(subjects: readonly Subject[], now: number): boolean {
  const admitted = subjects.every((each) => each.peek(now).allowed)
  if (admitted) for (const each of subjects) each.ask(now)
  return admitted
}

describe('tiered limits: 60 per hour and 10 per 5 s', () => {
  const tiers = (): Subject[] => [
    new Subject({ algorithm: 'tokenBucket', quota: 60, window: '1h' }),
    new Subject({ algorithm: 'tokenBucket', quota: 10, window: '5s' }),
  ]

  it('admit one request a minute forever', () => {
    const both = tiers()
    for (let minute = 0; minute < 600; minute++) expect(askAll(both, START + minute * 60 * SECOND)).toBe(true)
  })

  it('deny 60 requests in one second', () => {
    const both = tiers()
    let admitted = 0
    for (let i = 0; i < 60; i++) if (askAll(both, START + Math.floor((i * SECOND) / 60))) admitted++
    // Ten at once, and one more for each half second.
    expect(admitted).toBe(11)
    expect(both[0]!.peek(START + SECOND, 0).remaining).toBe(49)
  })
})

it('10 per minute and a spacing of 2 s', () => {
  const both = [
    new Subject({ algorithm: 'slidingWindowLog', quota: 10, window: '1m' }),
    new Subject({ algorithm: 'spacing', quota: 1, window: '2s' }),
  ]
  const admitted: number[] = []
  for (let tenth = 0; tenth < 600; tenth++) if (askAll(both, START + tenth * 100_000)) admitted.push(tenth / 10)
  expect(admitted).toEqual([0, 2, 4, 6, 8, 10, 12, 14, 16, 18])
  expect(askAll(both, START + 60 * SECOND)).toBe(true)
})

describe('7 per minute, 5 in the minute before, 3 in this one, 30 % into it', () => {
  const minute = 60 * SECOND
  const subject = new Subject({ algorithm: 'slidingWindowCounter', quota: 7, window: '1m' })
  const begin = Math.ceil(START / minute) * minute
  const now = begin + minute + 0.3 * minute
  for (let i = 0; i < 5; i++) subject.ask(begin + i)
  for (let i = 0; i < 3; i++) subject.ask(begin + minute + 0.29 * minute)

  it('counter: 3 + 5 · 0.7 = 6.5 counts as 6, so one more is admitted', () => {
    expect(subject.peek(now, 0).remaining).toBe(1)
    expect(subject.ask(now).allowed).toBe(true)
    expect(subject.peek(now).allowed).toBe(false)
  })
})

describe('a client at a times the permitted rate is throttled after w / (a − 1), and q · a / (a − 1) requests', () => {
  it.each([
    [2, 100],
    [3, 60],
    [1.5, 40],
    [11, 100],
  ])('a = %d, q = %d', (a, q) => {
    const w = 60 * SECOND
    const subject = new Subject({ algorithm: 'gcra', quota: q, window: '1m' })
    let n = 0
    const time = (i: number): number => START + Math.round((i * w) / (a * q))
    while (subject.ask(time(n)).allowed) n++
    // The article allows fractions of a token. Here a request takes a whole token.
    const off = a / (a - 1)
    expect(Math.abs(n - q * off)).toBeLessThanOrEqual(off)
    expect(Math.abs(time(n) - START - w / (a - 1))).toBeLessThanOrEqual((off * w) / (a * q))
  })
})

describe('the recorders of a sliding window', () => {
  it('the log: counts two in the last second of three requests 300 ms apart and one 600 ms later', () => {
    const subject = new Subject({ algorithm: 'slidingWindowLog', quota: 100, window: 1000 })
    for (let i = 0; i < 3; i++) subject.ask(START + i * 300_000)
    expect(subject.peek(START + 900_000, 0).remaining).toBe(97)
    expect(subject.ask(START + 1_500_000).remaining).toBe(98)
  })

  it('the log: counts two requests in one tick as two', () => {
    const subject = new Subject({ algorithm: 'slidingWindowLog', quota: 2, window: 1000 })
    expect([subject.ask(START), subject.ask(START), subject.ask(START)].map(({ allowed }) => allowed)).toEqual([
      true,
      true,
      false,
    ])
  })

  it('the log, strict: counts denied requests too', () => {
    const subject = new Subject({ algorithm: 'slidingWindowLog', quota: 3, window: 1000, strict: true })
    for (let i = 0; i < 50; i++) expect(subject.ask(START + i * 100_000).allowed).toBe(i < 3)
    expect(subject.ask(START + 4_900_000 + 799_999).allowed).toBe(false)
    expect(subject.ask(START + 4_900_000 + 799_999 + 1_000_000).allowed).toBe(true)
  })
})

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

describe('a fixed window', () => {
  it('starts with the first admitted request', () => {
    const subject = new Subject({ algorithm: 'fixedWindow', quota: 3, window: 1000 })
    expect(subject.ask(START, 4)).toMatchObject({ allowed: false, retry: Infinity, reset: 0 })
    expect(subject.ask(START + 500, 3)).toMatchObject({ allowed: true, remaining: 0, reset: SECOND })
    expect(subject.ask(START + 999_999)).toMatchObject({ allowed: false, retry: 501 })
  })

  it('starts on the clock, or at an offset from it', () => {
    const day = 86_400 * SECOND
    const subject = new Subject({ algorithm: 'fixedWindow', quota: 3, window: '1d', anchor: 'clock', offset: '6h' })
    expect(subject.ask(START, 3)).toMatchObject({ remaining: 0, reset: day / 4 })
    expect(subject.ask(START + day / 4 - 1).allowed).toBe(false)
    expect(subject.ask(START + day / 4)).toMatchObject({ allowed: true, reset: day })
  })
})

describe('a token bucket with interval refill', () => {
  it('returns its quota every window, from the request that started it', () => {
    const subject = new Subject({ algorithm: 'tokenBucket', refill: 'interval', quota: 2, window: 1000, capacity: 5 })
    expect(subject.burst(START, 9)).toBe(5)
    expect(subject.peek(START)).toMatchObject({ retry: SECOND, reset: 3 * SECOND })
    expect(subject.burst(START + SECOND - 1, 9)).toBe(0)
    expect(subject.burst(START + SECOND, 9)).toBe(2)
    expect(subject.peek(START + SECOND, 3)).toMatchObject({ retry: 2 * SECOND })
  })

  it('starts with its initial tokens, and again after it has been full for a window', () => {
    const json = { algorithm: 'tokenBucket', refill: 'interval', quota: 2, window: 1000, capacity: 4, initial: 1 }
    const subject = new Subject(json)
    expect(subject.burst(START, 9)).toBe(1)
    // Full after two windows; new again after the third.
    expect(subject.peek(START, 0).reset).toBe(3 * SECOND)
    expect(subject.peek(START + 3 * SECOND - 1, 0)).toMatchObject({ remaining: 4, reset: 1 })
    expect(subject.peek(START + 3 * SECOND, 0)).toMatchObject({ remaining: 1, reset: 0 })
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
