import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createOutcome } from '../../../src/algorithms/algorithm.ts'
import { noEntries } from '../../../src/algorithms/entries.ts'
import { wholeSeconds } from '../../../src/util/seconds.ts'
import type { Decision } from '../../../src/limiter/decision.ts'
import { compiled, limit, type LimitInput } from '../../../src/engine/limit.ts'
import { decide, linear, NOW, status, windowed, written } from '../decisions.ts'

describe('a number', () => {
  test.each([
    [0, 0],
    [-5, 0],
    [NaN, 0],
    [1e-7, 0],
    [200, 1],
    [1000, 1],
    [1001, 2],
    [3000.0000000004, 3],
    [59_999.4, 60],
    [Infinity, 999_999_999_999_999],
  ])('rounds %d ms to %d s', (ms, whole) => expect(wholeSeconds(ms)).toBe(whole))

  test.each([
    [0, '1'],
    [-5, '1'],
    [200, '1'],
    [1001, '2'],
    [3000.0000000004, '3'],
    [59_999.4, '60'],
  ])('when nothing is left for %d ms it writes t=%s', (resetAfter, t) => {
    const decided = decide([status(windowed('n', 5, 60_000), { resetAfter })])
    expect(written('standard', decided)['RateLimit']).toBe(`"n";r=0;t=${t}`)
  })

  test('writes t=0 when all units are left', () => {
    const decided = decide([status(windowed('n', 5, 60_000), { remaining: 5 })])
    expect(written('standard', decided)['RateLimit']).toBe('"n";r=5;t=0')
  })

  test.each([
    [500, 1],
    [1500, 2],
    [60_000, 60],
  ])('writes a window of %d ms as w=%d', (window, w) => {
    const decided = decide([status(windowed('n', 5, window))])
    expect(written('standard', decided)['RateLimit-Policy']).toBe(`"n";q=5;w=${w}`)
    expect(written('draft-6', decided)['RateLimit-Policy']).toBe(`5;w=${w}`)
  })

  test.each([
    [4.9, 4],
    [-3, 0],
    [-0, 0],
    [NaN, 0],
    [8, 5],
    [Infinity, 5],
  ])('writes %d remaining of 5 as r=%d', (remaining, r) => {
    const decided = decide([status(windowed('n', 5, 1000), { remaining, resetAfter: 1000 })])
    expect(written('standard', decided)['RateLimit']).toBe(`"n";r=${r};t=1`)
    expect(written('github', decided)['x-ratelimit-used']).toBe(String(5 - r))
  })

  test('writes a quota with at most 15 digits', () => {
    const decided = decide([status(windowed('n', 1e15, 1000), { remaining: 2e15, resetAfter: 1000 })])
    expect(written('standard', decided)).toEqual({
      'RateLimit-Policy': '"n";q=999999999999999;w=1',
      RateLimit: '"n";r=999999999999999;t=1',
    })
  })

  test('rounds an epoch reset up', () => {
    const decided = decide([status(windowed('n', 5, 1000), { remaining: 1, resetAfter: 1 })])
    expect(written('github', decided, {}, NOW + 0.25)['x-ratelimit-reset']).toBe('1767225601')
    expect(written('github', decide([status(windowed('n', 5, 1000), { remaining: 5 })]))['x-ratelimit-reset']).toBe(
      '1767225600',
    )
  })
})

describe('a capacity larger than the quota', () => {
  test.each<[LimitInput, string]>([
    [{ algorithm: 'gcra', quota: 100, window: '1m', burst: 200 }, '200;w=120'],
    [{ algorithm: 'tokenBucket', quota: 10, window: '1s', capacity: 25 }, '25;w=3'],
    [{ algorithm: 'leakyBucket', quota: 100, window: '1m', capacity: 130 }, '130;w=78'],
    [{ algorithm: 'gcra', quota: 3, window: 1000, burst: 21 }, '21;w=7'],
    // Products of a quota and a window that floats would round.
    [{ algorithm: 'fixedWindow', quota: 7_117_431_443, window: '30d' }, '7117431443;w=2592000'],
    [{ algorithm: 'fixedWindow', quota: 292_607_697, window: '365d' }, '292607697;w=31536000'],
  ])('of %o is written with a window of the same rate: %s', (json, policy) => {
    const decided = decide([status(limit(json), { remaining: 1, resetAfter: 1000 })])
    expect(written('draft-6', decided)['RateLimit-Policy']).toBe(policy)
  })

  test('is the only one that is written', () => {
    const decided = decide([status(linear('n', 100, 60_000, { burst: 10 }), { remaining: 9, resetAfter: 600 })])
    expect(written('draft-6', decided)['RateLimit-Policy']).toBe('100;w=60')
  })

  test('limits the remaining units', () => {
    const decided = decide([status(linear('n', 100, 60_000, { burst: 200 }), { remaining: 150, resetAfter: 30_000 })])
    expect(written('standard', decided)['RateLimit']).toBe('"n";r=150;t=30')
    expect(written('github', decided)['x-ratelimit-used']).toBe('50')
  })
})

describe('a linear limit without units shows when the next unit is back', () => {
  const t = (decided: Decision) => written('draft-6', decided)['RateLimit-Reset']

  test('also in epoch seconds', () => {
    const of = linear('n', 100, 6_000_000)
    const decided = decide([status(of, { remaining: 0, resetAfter: 6_000_000 })])
    expect(written('github', decided)['x-ratelimit-reset']).toBe(String(NOW / 1000 + 60))
  })

  test('except that a window returns as a whole', () => {
    expect(t(decide([status(windowed('n', 100, 60_000), { resetAfter: 60_000 })]))).toBe('60')
  })

  const families: fc.Arbitrary<LimitInput> = fc
    .record({
      algorithm: fc.constantFrom('gcra', 'tokenBucket', 'leakyBucket', 'spacing', 'part-full'),
      quota: fc.integer({ min: 1, max: 50 }),
      window: fc.integer({ min: 1, max: 100_000 }),
      capacity: fc.integer({ min: 1, max: 50 }),
      refill: fc.constantFrom('greedy', 'interval'),
    })
    .map(({ algorithm, quota, window, capacity, refill }) => {
      if (algorithm === 'spacing') return { algorithm, quota: 1, window }
      if (algorithm === 'gcra') return { algorithm, quota, window, burst: capacity }
      if (algorithm === 'part-full')
        return { algorithm: 'tokenBucket', quota, window, capacity, refill, initial: capacity >> 1 }
      if (algorithm === 'tokenBucket') return { algorithm, quota, window, capacity, refill }
      return { algorithm, quota, window, capacity }
    })

  test('at exactly the time of the algorithm', () => {
    fc.assert(
      fc.property(families, fc.array(fc.integer({ min: 0, max: 5000 }), { maxLength: 60 }), (json, gaps) => {
        const of = limit(json)
        const { algorithm, parameters: p } = compiled(of)
        const state = Float64Array.from(algorithm.initialState)
        const out = createOutcome()
        let now = 1e9 * p.perMs
        for (const gap of [...gaps, ...Array<number>(60).fill(0)]) {
          now += gap
          algorithm.step(p, state, 0, now, 1, out, noEntries)
          if (out.allowed || out.persist) for (let i = 0; i < state.length; i++) state[i] = out.next[i]!
          if (!out.allowed || out.remaining > 0) continue
          const decided = decide([status(of, { resetAfter: out.reset / p.perMs })])
          algorithm.step(p, state, 0, now, 1, out, noEntries)
          const exact = out.retry / p.perMs
          const seen = Number(t(decided))
          // resetAfter is rounded up to a tick, so what is derived from it may lie a tick beyond, never before.
          expect(seen).toBeGreaterThanOrEqual(Math.max(1, wholeSeconds(exact)))
          expect(seen).toBeLessThanOrEqual(Math.max(1, wholeSeconds(exact + 1 / p.perMs)))
        }
      }),
    )
  })
})

describe('a denial', () => {
  test('writes in t when the same request is admitted', () => {
    const decided = decide([
      status(linear('n', 10, 10_000), { remaining: 3, cost: 5, retryAfter: 1100, resetAfter: 7000 }),
    ])
    expect(written('standard', decided)['RateLimit']).toBe('"n";r=3;t=2')
  })

  test('writes when all units are back if the request is never admitted', () => {
    const decided = decide([
      status(windowed('n', 10, 10_000), { remaining: 3, cost: 50, retryAfter: Infinity, resetAfter: 7000 }),
    ])
    expect(written('standard', decided)['RateLimit']).toBe('"n";r=3;t=7')
    expect(written('draft-7', decided)['RateLimit']).toBe('limit=10, remaining=3, reset=7')
    expect(written('github', decided)['x-ratelimit-reset']).toBe(String(NOW / 1000 + 7))
  })

  test('describes the limit that never admits the request', () => {
    const decided = decide([
      status(windowed('a', 5, 1000), { retryAfter: Infinity, remaining: 5 }),
      status(windowed('b', 7, 1000), { retryAfter: 900, resetAfter: 900 }),
    ])
    expect(written('legacy', decided)).toMatchObject({ 'X-RateLimit-Limit': '5', 'X-RateLimit-Remaining': '5' })
  })
})
