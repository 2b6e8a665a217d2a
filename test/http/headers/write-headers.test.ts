import * as fc from 'fast-check'
import { type BareItem, parseDictionary, parseList } from 'structured-headers'
import { describe, expect, test } from 'vitest'
import { createOutcome } from '../../../src/algorithms/algorithm.ts'
import { noEntries } from '../../../src/algorithms/entries.ts'
import type { Decision } from '../../../src/limiter/decision.ts'
import { fieldNames, fieldWriter, mergeDecisions } from '../../../src/http/headers/write-headers.ts'
import type { HeaderStyle } from '../../../src/http/headers/styles.ts'
import { seconds } from '../../../src/http/headers/figures.ts'
import { limit, type LimitInput, compiled } from '../../../src/limits/limit.ts'
import { A1, A2, D1, D2, D3, D4, decide, linear, NOW, status, windowed, written } from '../decisions.ts'

const STYLES: readonly HeaderStyle[] = ['standard', 'draft-8', 'draft-7', 'draft-6', 'legacy', 'github']

describe('worked values', () => {
  test.each(['standard', 'draft-8'] as const)('%s', (style) => {
    const one = '"default";q=100;w=60'
    const two = '"burst";q=10;w=1, "hourly";q=1000;w=3600'
    expect(written(style, A1)).toEqual({ 'RateLimit-Policy': one, RateLimit: '"default";r=99;t=60' })
    expect(written(style, D1)).toEqual({ 'RateLimit-Policy': one, RateLimit: '"default";r=0;t=13' })
    expect(written(style, A2)).toEqual({ 'RateLimit-Policy': two, RateLimit: '"burst";r=9;t=1, "hourly";r=650;t=1800' })
    expect(written(style, D2)).toEqual({ 'RateLimit-Policy': two, RateLimit: '"burst";r=0;t=1' })
    expect(written(style, D3)).toEqual({ 'RateLimit-Policy': two, RateLimit: '"hourly";r=0;t=1800' })
    expect(written(style, D4)).toEqual({ 'RateLimit-Policy': two, RateLimit: '"burst";r=0;t=1, "hourly";r=0;t=1800' })
  })

  test('draft-7', () => {
    const two = '10;w=1, 1000;w=3600'
    const told = (decision: Decision) => written('draft-7', decision)
    expect(told(A1)).toEqual({ 'RateLimit-Policy': '100;w=60', RateLimit: 'limit=100, remaining=99, reset=60' })
    expect(told(D1)).toEqual({ 'RateLimit-Policy': '100;w=60', RateLimit: 'limit=100, remaining=0, reset=13' })
    expect(told(A2)).toEqual({ 'RateLimit-Policy': two, RateLimit: 'limit=10, remaining=9, reset=1' })
    expect(told(D2)).toEqual({ 'RateLimit-Policy': two, RateLimit: 'limit=10, remaining=0, reset=1' })
    expect(told(D3)).toEqual({ 'RateLimit-Policy': two, RateLimit: 'limit=1000, remaining=0, reset=1800' })
    expect(told(D4)).toEqual({ 'RateLimit-Policy': two, RateLimit: 'limit=1000, remaining=0, reset=1800' })
  })

  test('draft-6', () => {
    const fields = (policy: string, quota: string, remaining: string, reset: string) => ({
      'RateLimit-Policy': policy,
      'RateLimit-Limit': quota,
      'RateLimit-Remaining': remaining,
      'RateLimit-Reset': reset,
    })
    expect(written('draft-6', A1)).toEqual(fields('100;w=60', '100', '99', '60'))
    expect(written('draft-6', A2)).toEqual(fields('10;w=1, 1000;w=3600', '10', '9', '1'))
    expect(written('draft-6', D2)).toEqual(fields('10;w=1, 1000;w=3600', '10', '0', '1'))
    expect(written('draft-6', D3)).toEqual(fields('10;w=1, 1000;w=3600', '1000', '0', '1800'))
  })

  test('legacy', () => {
    const fields = (quota: string, remaining: string, reset: string) => ({
      'X-RateLimit-Limit': quota,
      'X-RateLimit-Remaining': remaining,
      'X-RateLimit-Reset': reset,
    })
    expect(written('legacy', A1)).toEqual(fields('100', '99', '60'))
    expect(written('legacy', D2)).toEqual(fields('10', '0', '1'))
    expect(written('legacy', D3)).toEqual(fields('1000', '0', '1800'))
  })

  test('github', () => {
    const fields = (quota: string, remaining: string, used: string, reset: string, resource: string) => ({
      'x-ratelimit-limit': quota,
      'x-ratelimit-remaining': remaining,
      'x-ratelimit-used': used,
      'x-ratelimit-reset': reset,
      'x-ratelimit-resource': resource,
    })
    expect(written('github', A1)).toEqual(fields('100', '99', '1', '1767225660', 'default'))
    expect(written('github', D3)).toEqual(fields('1000', '0', '1000', '1767227400', 'hourly'))
  })
})

describe('numbers', () => {
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
  ])('%d ms are %d s', (ms, whole) => expect(seconds(ms)).toBe(whole))

  test.each([
    [0, '1'],
    [-5, '1'],
    [200, '1'],
    [1001, '2'],
    [3000.0000000004, '3'],
    [59_999.4, '60'],
  ])('nothing left for %d ms: t=%s', (resetAfter, t) => {
    const told = decide([status(windowed('n', 5, 60_000), { resetAfter })])
    expect(written('standard', told)['RateLimit']).toBe(`"n";r=0;t=${t}`)
  })

  test('t is 0 when all is there', () => {
    const told = decide([status(windowed('n', 5, 60_000), { remaining: 5 })])
    expect(written('standard', told)['RateLimit']).toBe('"n";r=5;t=0')
  })

  test.each([
    [500, 1],
    [1500, 2],
    [60_000, 60],
  ])('a window of %d ms is w=%d', (window, w) => {
    const told = decide([status(windowed('n', 5, window))])
    expect(written('standard', told)['RateLimit-Policy']).toBe(`"n";q=5;w=${w}`)
    expect(written('draft-6', told)['RateLimit-Policy']).toBe(`5;w=${w}`)
  })

  test.each([
    [4.9, 4],
    [-3, 0],
    [-0, 0],
    [NaN, 0],
    [8, 5],
    [Infinity, 5],
  ])('%d remaining of 5 is r=%d', (remaining, r) => {
    const told = decide([status(windowed('n', 5, 1000), { remaining, resetAfter: 1000 })])
    expect(written('standard', told)['RateLimit']).toBe(`"n";r=${r};t=1`)
    expect(written('github', told)['x-ratelimit-used']).toBe(String(5 - r))
  })

  test('a quota has at most 15 digits', () => {
    const told = decide([status(windowed('n', 1e15, 1000), { remaining: 2e15, resetAfter: 1000 })])
    expect(written('standard', told)).toEqual({
      'RateLimit-Policy': '"n";q=999999999999999;w=1',
      RateLimit: '"n";r=999999999999999;t=1',
    })
  })

  test('the epoch reset is rounded up', () => {
    const told = decide([status(windowed('n', 5, 1000), { remaining: 1, resetAfter: 1 })])
    expect(written('github', told, {}, NOW + 0.25)['x-ratelimit-reset']).toBe('1767225601')
    expect(written('github', decide([status(windowed('n', 5, 1000), { remaining: 5 })]))['x-ratelimit-reset']).toBe(
      '1767225600',
    )
  })
})

describe('names', () => {
  test('quotes and backslashes are escaped', () => {
    const told = decide([status(windowed('a"b\\c', 5, 1000), { remaining: 4, resetAfter: 1000 })])
    expect(written('standard', told)).toEqual({
      'RateLimit-Policy': String.raw`"a\"b\\c";q=5;w=1`,
      RateLimit: String.raw`"a\"b\\c";r=4;t=1`,
    })
  })

  test('one that no header can hold is refused when the limit is made', () => {
    expect(() => linear('café', 1, 1000)).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
  })

  test('two limits of one name stay two items', () => {
    const told = decide([
      status(windowed('n', 5, 1000), { remaining: 4, resetAfter: 1000 }),
      status(windowed('n', 9, 2000), { remaining: 3, resetAfter: 2000 }),
    ])
    expect(written('standard', told)).toEqual({
      'RateLimit-Policy': '"n";q=5;w=1, "n";q=9;w=2',
      RateLimit: '"n";r=4;t=1, "n";r=3;t=2',
    })
  })

  test('a policy that two limits share is listed once', () => {
    const told = decide([
      status(windowed('n', 5, 1000), { remaining: 4 }),
      status(windowed('n', 5, 1000), { remaining: 3 }),
    ])
    expect(written('standard', told)).toEqual({
      'RateLimit-Policy': '"n";q=5;w=1',
      RateLimit: '"n";r=4;t=0, "n";r=3;t=0',
    })
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
  ])('%o is told at the same rate: %s', (json, policy) => {
    const told = decide([status(limit(json), { remaining: 1, resetAfter: 1000 })])
    expect(written('draft-6', told)['RateLimit-Policy']).toBe(policy)
  })

  test('a smaller one is not told', () => {
    const told = decide([status(linear('n', 100, 60_000, { burst: 10 }), { remaining: 9, resetAfter: 600 })])
    expect(written('draft-6', told)['RateLimit-Policy']).toBe('100;w=60')
  })

  test('what is left may be as large', () => {
    const told = decide([status(linear('n', 100, 60_000, { burst: 200 }), { remaining: 150, resetAfter: 30_000 })])
    expect(written('standard', told)['RateLimit']).toBe('"n";r=150;t=30')
    expect(written('github', told)['x-ratelimit-used']).toBe('50')
  })
})

describe('a linear limit that is used up tells when the next unit is back', () => {
  const t = (told: Decision) => written('draft-6', told)['RateLimit-Reset']

  test('gcra', () => {
    const of = linear('n', 100, 6_000_000)
    expect(t(decide([status(of, { remaining: 0, resetAfter: 6_000_000 })]))).toBe('60')
    expect(t(decide([status(of, { remaining: 0, resetAfter: 5_941_000 })]))).toBe('1')
    expect(t(decide([status(of, { remaining: 1, resetAfter: 5_940_000 })]))).toBe('5940')
  })

  test('in epoch seconds too', () => {
    const of = linear('n', 100, 6_000_000)
    const told = decide([status(of, { remaining: 0, resetAfter: 6_000_000 })])
    expect(written('github', told)['x-ratelimit-reset']).toBe(String(NOW / 1000 + 60))
  })

  test('a refill at intervals brings the quota at once', () => {
    const of = windowed('n', 10, 60_000, { algorithm: 'tokenBucket', capacity: 25, refill: 'interval' })
    expect(t(decide([status(of, { remaining: 0, resetAfter: 150_000 })]))).toBe('30')
  })

  test('a window comes back whole', () => {
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

  test('exactly as the algorithm has it', () => {
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
          const told = decide([status(of, { resetAfter: out.reset / p.perMs })])
          algorithm.step(p, state, 0, now, 1, out, noEntries)
          const exact = out.retry / p.perMs
          const seen = Number(t(told))
          // resetAfter is rounded up to a tick, so what is derived from it may lie a tick beyond, never before.
          expect(seen).toBeGreaterThanOrEqual(Math.max(1, seconds(exact)))
          expect(seen).toBeLessThanOrEqual(Math.max(1, seconds(exact + 1 / p.perMs)))
        }
      }),
    )
  })
})

describe('a denial', () => {
  test('t is when the same request would be admitted', () => {
    const told = decide([
      status(linear('n', 10, 10_000), { remaining: 3, cost: 5, retryAfter: 1100, resetAfter: 7000 }),
    ])
    expect(written('standard', told)['RateLimit']).toBe('"n";r=3;t=2')
  })

  test('what is never admitted tells of the quota alone', () => {
    const told = decide([
      status(windowed('n', 10, 10_000), { remaining: 3, cost: 50, retryAfter: Infinity, resetAfter: 7000 }),
    ])
    expect(written('standard', told)['RateLimit']).toBe('"n";r=3;t=7')
    expect(written('draft-7', told)['RateLimit']).toBe('limit=10, remaining=3, reset=7')
    expect(written('github', told)['x-ratelimit-reset']).toBe(String(NOW / 1000 + 7))
  })

  test('never is the longest wait', () => {
    const told = decide([
      status(windowed('a', 5, 1000), { retryAfter: Infinity, remaining: 5 }),
      status(windowed('b', 7, 1000), { retryAfter: 900, resetAfter: 900 }),
    ])
    expect(written('legacy', told)).toMatchObject({ 'X-RateLimit-Limit': '5', 'X-RateLimit-Remaining': '5' })
  })
})

describe('who is told', () => {
  test('nobody of a shadow limit', () => {
    const shadow = windowed('ghost', 1, 1000, { shadow: true })
    const told = decide([
      status(shadow, { remaining: 0, retryAfter: 500, resetAfter: 500 }),
      status(windowed('n', 5, 1000), { remaining: 4, resetAfter: 1000 }),
      status(shadow, { remaining: 0 }),
    ])
    for (const style of STYLES)
      expect(JSON.stringify(written(style, told))).not.toMatch(/ghost|[lL]imit"?[=:]"?1\b|\b1;w/)
    expect(written('standard', told)).toEqual({ 'RateLimit-Policy': '"n";q=5;w=1', RateLimit: '"n";r=4;t=1' })
    for (const style of STYLES) expect(written(style, decide([status(shadow)]))).toEqual({})
  })

  test('a shadow limit that shares a quota leaves the policies alone', () => {
    const told = decide([status(windowed('n', 5, 1000)), status(windowed('ghost', 5, 9000, { shadow: true }))])
    expect(written('draft-6', told)['RateLimit-Policy']).toBe('5;w=1')
  })

  test.each(STYLES)('%s: nothing without limits, nothing when the store gave no answer', (style) => {
    expect(written(style, decide([]))).toEqual({})
    expect(written(style, { ...A1, degraded: 'open' })).toEqual({})
    expect(written(style, { ...D1, degraded: 'closed' })).toEqual({})
    expect(written(style, { ...A1, degraded: 'local' })).toEqual(written(style, A1))
  })
})

describe('policies of one quota in drafts 6 and 7', () => {
  const minute = windowed('minute', 100, 60_000)
  const hour = windowed('hour', 100, 3_600_000)
  const policy = (told: Decision) => written('draft-6', told)['RateLimit-Policy']

  test('the one that is used up sooner stands, the one that the other fields tell of', () => {
    const told = decide([status(minute, { remaining: 90 }), status(hour, { remaining: 40 })])
    expect(written('draft-6', told)).toMatchObject({ 'RateLimit-Policy': '100;w=3600', 'RateLimit-Remaining': '40' })
    const other = decide([status(minute, { remaining: 10 }), status(hour, { remaining: 40 })])
    expect(written('draft-7', other)).toMatchObject({
      'RateLimit-Policy': '100;w=60',
      RateLimit: 'limit=100, remaining=10, reset=0',
    })
  })

  test('also when another limit is the binding one', () => {
    const small = status(windowed('small', 5, 1000), { remaining: 1 })
    expect(policy(decide([small, status(hour, { remaining: 40 }), status(minute, { remaining: 41 })]))).toBe(
      '5;w=1, 100;w=3600',
    )
    expect(policy(decide([status(hour, { remaining: 42 }), small, status(minute, { remaining: 41 })]))).toBe(
      '100;w=60, 5;w=1',
    )
    const equal = { remaining: 50 }
    const [soon, late] = [status(minute, { ...equal, resetAfter: 9 }), status(hour, { ...equal, resetAfter: 10 })]
    expect(policy(decide([small, soon, late]))).toBe('5;w=1, 100;w=3600')
    expect(policy(decide([small, late, soon]))).toBe('5;w=1, 100;w=3600')
  })

  test('of equals the one that the other fields tell of', () => {
    const [soon, late] = [
      status(minute, { remaining: 50, resetAfter: 9 }),
      status(hour, { remaining: 50, resetAfter: 10 }),
    ]
    expect(policy(decide([soon, late]))).toBe('100;w=60')
    expect(policy(decide([late, soon]))).toBe('100;w=3600')
    const dear = status(minute, { remaining: 60, cost: 10 })
    expect(policy(decide([late, dear]))).toBe('100;w=60')
    expect(policy(decide([dear, late]))).toBe('100;w=60')
  })

  test('a shadow limit beside them is not told', () => {
    const ghost = status(windowed('ghost', 7, 1000, { shadow: true }))
    expect(policy(decide([status(minute, { remaining: 3 }), ghost, status(hour, { remaining: 2 })]))).toBe('100;w=3600')
  })

  test('a violated one goes before', () => {
    const denied = status(minute, { remaining: 3, cost: 5, retryAfter: 100 })
    expect(policy(decide([status(hour, { remaining: 1 }), denied]))).toBe('100;w=60')
    const longer = status(windowed('small', 5, 1000), { retryAfter: 900 })
    expect(policy(decide([longer, status(hour, { remaining: 1 }), denied]))).toBe('5;w=1, 100;w=60')
    expect(policy(decide([longer, denied, status(hour, { remaining: 1 })]))).toBe('5;w=1, 100;w=60')
  })

  test('quotas are unique whatever the limits', () => {
    const some = fc.array(
      fc.record({ quota: fc.integer({ min: 1, max: 3 }), window: fc.integer({ min: 1, max: 4 }), left: fc.nat(3) }),
    )
    fc.assert(
      fc.property(some, (list) => {
        const told = decide(
          list.map(({ quota, window, left }, i) => status(windowed(`${i}`, quota, window * 1000), { remaining: left })),
        )
        if (list.length === 0) return
        const quotas = parseList(policy(told)!).map(([quota]) => quota as number)
        expect(new Set(quotas).size).toBe(quotas.length)
        expect(new Set(quotas)).toEqual(new Set(list.map(({ quota }) => quota)))
        const bound = told.binding!.limit
        expect(parseList(policy(told)!)).toContainEqual([bound.quota, new Map([['w', bound.window / 1000]])])
      }),
    )
  })
})

describe('two limiters of one request', () => {
  const user = windowed('user', 10, 1000)
  const resource = windowed('resource', 50, 60_000)
  const first = decide([status(user, { remaining: 4, resetAfter: 1000 })])
  const second = decide([status(resource, { remaining: 3, resetAfter: 60_000 })])
  const denial = decide([status(resource, { retryAfter: 30_000, resetAfter: 60_000 })])

  test('merge into one field in every style', () => {
    expect(written('standard', mergeDecisions(first, second))).toEqual({
      'RateLimit-Policy': '"user";q=10;w=1, "resource";q=50;w=60',
      RateLimit: '"user";r=4;t=1, "resource";r=3;t=60',
    })
    expect(written('draft-7', mergeDecisions(first, second))).toEqual({
      'RateLimit-Policy': '10;w=1, 50;w=60',
      RateLimit: 'limit=50, remaining=3, reset=60',
    })
    expect(written('draft-6', mergeDecisions(second, first))).toMatchObject({
      'RateLimit-Policy': '50;w=60, 10;w=1',
      'RateLimit-Limit': '50',
    })
    expect(written('legacy', mergeDecisions(first, second))).toMatchObject({ 'X-RateLimit-Limit': '50' })
    expect(written('github', mergeDecisions(first, second))).toMatchObject({ 'x-ratelimit-resource': 'resource' })
  })

  test('on a denial by the second only what is violated is listed', () => {
    const merged = mergeDecisions(first, denial)
    expect(merged.allowed).toBe(false)
    expect(merged.retryAfter).toBe(30_000)
    expect(written('standard', merged)).toEqual({
      'RateLimit-Policy': '"user";q=10;w=1, "resource";q=50;w=60',
      RateLimit: '"resource";r=0;t=30',
    })
  })

  test('a limit that both put to one key is told once, at its tightest', () => {
    const again = decide([status(user, { remaining: 3, resetAfter: 1000 }), status(resource, { remaining: 3 })])
    expect(written('standard', mergeDecisions(first, again))['RateLimit']).toBe('"user";r=3;t=1, "resource";r=3;t=0')
    expect(written('standard', mergeDecisions(again, first))['RateLimit']).toBe('"user";r=3;t=1, "resource";r=3;t=0')
    const out = decide([status(user, { remaining: 4, cost: 9, retryAfter: 700 })])
    expect(written('standard', mergeDecisions(decide([status(user, { remaining: 1 })]), out))['RateLimit']).toBe(
      '"user";r=4;t=1',
    )
  })

  test('one limit put to two keys is told twice', () => {
    const other = decide([status(user, { key: 'other', remaining: 8 })])
    expect(written('standard', mergeDecisions(first, other))).toEqual({
      'RateLimit-Policy': '"user";q=10;w=1',
      RateLimit: '"user";r=4;t=1, "user";r=8;t=0',
    })
  })
})

describe('what only the newest draft can tell', () => {
  const two = decide([
    status(windowed('bytes', 65_535, 10_000), { key: '203.0.113.7', remaining: 5, resetAfter: 1000 }),
    status(windowed('n', 5, 1000), { key: 'other', remaining: 4, resetAfter: 1000 }),
  ])

  test('quota units', () => {
    expect(written('standard', two, { unit: { bytes: 'content-bytes', n: 'requests' } })['RateLimit-Policy']).toBe(
      '"bytes";q=65535;qu="content-bytes";w=10, "n";q=5;w=1',
    )
    expect(written('standard', two, { unit: 'concurrent-requests' })['RateLimit-Policy']).toBe(
      '"bytes";q=65535;qu="concurrent-requests";w=10, "n";q=5;qu="concurrent-requests";w=1',
    )
    const inherited = decide([status(windowed('constructor', 5, 1000))])
    expect(written('standard', inherited, { unit: {} })['RateLimit-Policy']).toBe('"constructor";q=5;w=1')
    for (const unit of ['é', '', null, 5, ['requests']])
      expect(() => fieldWriter('standard', { unit: unit as string })).toThrow(
        expect.objectContaining({ code: 'INVALID_OPTION' }),
      )
    expect(() => fieldWriter('standard', { unit: { n: '\n' } })).toThrow(
      expect.objectContaining({ code: 'INVALID_OPTION' }),
    )
  })

  test('partitions, by a keyed hash', () => {
    const fields = written('standard', two, { partitionKey: { secret: 'test-secret' } })
    expect(fields['RateLimit-Policy']).toMatch(/^"bytes";q=65535;w=10;pk=:ZcHJA4zWGVZ\/1Ped:, "n";q=5;w=1;pk=:.{16}:$/)
    expect(fields['RateLimit']).toMatch(/^"bytes";r=5;t=1;pk=:ZcHJA4zWGVZ\/1Ped:, "n";r=4;t=1;pk=:.{16}:$/)
    const [first, second] = parseList(fields['RateLimit-Policy']!).map(([, parameters]) =>
      (parameters as Map<string, BareItem>).get('pk'),
    )
    expect(first).toBeInstanceOf(ArrayBuffer)
    expect((first as ArrayBuffer).byteLength).toBe(12)
    expect(new Uint8Array(second as ArrayBuffer)).not.toEqual(new Uint8Array(first as ArrayBuffer))
    expect(written('standard', two)['RateLimit']).not.toContain('pk')
  })

  test('partitions leave shadow limits and unviolated ones out', () => {
    const told = decide([
      status(windowed('ghost', 1, 1000, { shadow: true })),
      status(windowed('a', 1, 1000), { retryAfter: 100 }),
      status(windowed('b', 2, 1000), { remaining: 1 }),
    ])
    const fields = written('standard', told, { partitionKey: { secret: 's' } })
    expect(parseList(fields['RateLimit-Policy']!).map(([name]) => name)).toEqual(['a', 'b'])
    expect(parseList(fields['RateLimit']!).map(([name]) => name)).toEqual(['a'])
  })

  test('a secret is a must', () => {
    expect(() => fieldWriter('standard', { partitionKey: { secret: '' } })).toThrow(
      expect.objectContaining({ code: 'INVALID_OPTION' }),
    )
    expect(() => fieldWriter('standard', { partitionKey: {} as { secret: string } })).toThrow(/partitionKey.secret/)
    expect(() => fieldWriter('standard', { partitionKey: 'hunter2' as never })).toThrow(/, got a string$/)
    expect(() => fieldWriter('standard', { partitionKey: null as never })).toThrow(/^partitionKey: expected options/)
    expect(() => fieldWriter('standard', { partitionKey: { secret: 's', salt: 't' } as never })).toThrow(
      expect.objectContaining({ code: 'UNKNOWN_OPTION' }),
    )
  })
})

describe('styles', () => {
  test('none', () => {
    expect(written(false, A1)).toEqual({})
    expect(written([], A1)).toEqual({})
  })

  test('several at once', () => {
    expect(Object.keys(written(['standard', 'legacy'], A1))).toEqual([
      'RateLimit-Policy',
      'RateLimit',
      'X-RateLimit-Limit',
      'X-RateLimit-Remaining',
      'X-RateLimit-Reset',
    ])
  })

  test.each([['draft-9'], [['standard', 'draft-9']], [null], [{}], [true]])('%o is refused', (headers) => {
    expect(() => fieldWriter(headers as never)).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
  })

  test.each<readonly HeaderStyle[]>([
    ['standard', 'draft-7'],
    ['standard', 'draft-6'],
    ['legacy', 'github'],
  ])('%s and %s write one field in two ways', (...both) => {
    expect(() => fieldWriter(both)).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
  })

  test('what they write can be exposed', () => {
    expect(fieldNames('standard')).toEqual(['RateLimit', 'RateLimit-Policy'])
    expect(fieldNames(false)).toEqual([])
    for (const style of STYLES) {
      const names = fieldNames(style).map((name) => name.toLowerCase())
      expect(
        Object.keys(written(style, A2))
          .map((name) => name.toLowerCase())
          .toSorted(),
      ).toEqual(names.toSorted())
    }
  })
})

describe('whatever is told can be parsed', () => {
  const name = fc.string({
    unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)),
    minLength: 1,
  })
  const figure = fc.oneof(fc.double(), fc.integer(), fc.constantFrom(0, -1, Infinity, NaN, 1e15, 1e300))
  const positive = fc.integer({ min: 1, max: 2 ** 51 })
  const one = fc.record({
    limit: fc
      .record({
        name,
        quota: positive,
        window: positive,
        capacity: fc.option(positive, { nil: undefined }),
        shadow: fc.boolean(),
      })
      // A bucket of any capacity can be counted exactly when its units are milliseconds.
      .map(({ name: as, quota, window, capacity, shadow }) =>
        capacity === undefined
          ? windowed(as, quota, window, { shadow })
          : windowed(as, quota, quota, { algorithm: 'tokenBucket', capacity, shadow }),
      ),
    key: fc.string(),
    cost: fc.nat(9),
    remaining: figure,
    resetAfter: figure,
    retryAfter: fc.oneof(fc.constant(0), fc.double({ min: 0.001, noNaN: true })),
  })
  const decision = fc
    .array(one, { maxLength: 5 })
    .map((all) => decide(all.map(({ limit: of, ...said }) => status(of, said))))
  const enforced = (told: Decision) => told.limits.filter((each) => each.limit.shadow !== true)
  const inBounds = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) < 1e15

  test.each([{}, { partitionKey: { secret: 's' }, unit: 'a"b' }])('standard %o', (options) => {
    fc.assert(
      fc.property(decision, (told) => {
        const fields = written('standard', told, options)
        const policies = parseList(fields['RateLimit-Policy'] ?? '')
        const states = parseList(fields['RateLimit'] ?? '')
        const listed = enforced(told).filter((each) => told.allowed || !each.allowed)
        expect(new Set(policies.map(([as]) => as))).toEqual(new Set(enforced(told).map(({ limit: of }) => of.name)))
        expect(states.map(([as]) => as)).toEqual(listed.map(({ limit: of }) => of.name))
        for (const [, p] of policies as [BareItem, Map<string, BareItem>][])
          expect(inBounds(p.get('q')) && inBounds(p.get('w')) && p.get('w') !== 0).toBe(true)
        for (const [, p] of states as [BareItem, Map<string, BareItem>][]) {
          expect(inBounds(p.get('r')) && inBounds(p.get('t'))).toBe(true)
          expect(p.get('r') === 0 && p.get('t') === 0).toBe(false)
        }
      }),
    )
  })

  test('draft-7', () => {
    fc.assert(
      fc.property(decision, (told) => {
        const { RateLimit } = written('draft-7', told)
        const said = parseDictionary(RateLimit ?? '')
        expect([...said.keys()]).toEqual(told.binding === undefined ? [] : ['limit', 'remaining', 'reset'])
        for (const [value] of said.values()) expect(inBounds(value)).toBe(true)
      }),
    )
  })

  test('draft-6, legacy, github', () => {
    fc.assert(
      fc.property(decision, (told) => {
        for (const style of ['draft-6', 'legacy', 'github'] as const) {
          for (const [field, value] of Object.entries(written(style, told))) {
            if (field.endsWith('resource')) expect(value).toBe(told.binding!.limit.name)
            else if (!field.endsWith('Policy')) expect(value).toMatch(/^\d+$/)
          }
        }
      }),
    )
  })
})
