import * as fc from 'fast-check'
import { validateHeaderName } from 'node:http'
import { describe, expect, test } from 'vitest'
import { concurrent, createLimiter, everyone, type Limit } from '../../../src/index.ts'
import { mergeDecisions } from '../../../src/http/headers/stacked.ts'
import { headerConfig, writtenHeaders } from '../../../src/http/headers/styles.ts'
import { A2, decide, linear, NOW, status, windowed, written } from '../decisions.ts'

type Part = 'limit' | 'remaining' | 'reset'

/** The header of a part of a limit in each style. */
const NAMES = {
  openai: (part: Part, name: string) => `x-ratelimit-${part}-${name}`,
  anthropic: (part: Part, name: string) => `anthropic-ratelimit-${name}-${part}`,
} as const
const styles = Object.keys(NAMES) as (keyof typeof NAMES)[]

/** Returns the milliseconds of a duration of Go, or NaN. */
function parsedDuration(text: string): number {
  const match = /^(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d{1,3})?)s)?$|^(\d+)ms$/.exec(text)
  if (match === null || text === '') return NaN
  const [, hours = 0, minutes = 0, seconds = 0, ms = 0] = match
  return Number(hours) * 3_600_000 + Number(minutes) * 60_000 + Number(seconds) * 1000 + Number(ms)
}

/** Returns the milliseconds from now of a time as in RFC 3339, or NaN. */
function parsedTime(text: string): number {
  return /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/.test(text) ? Date.parse(text) - NOW : NaN
}

describe.each(styles)('the style %s', (style) => {
  const nameOf = NAMES[style]
  /** Returns the headers of a limit. The reset is the first in `openai`, and the second in `anthropic`. */
  const headers = (name: string, limit: string, remaining: string, resets?: readonly [string, string]) => ({
    [nameOf('limit', name)]: limit,
    [nameOf('remaining', name)]: remaining,
    ...(resets && { [nameOf('reset', name)]: resets[styles.indexOf(style)]! }),
  })

  test('writes three headers for each limit, by its name', () => {
    const decided = decide([
      status(linear('requests', 60, 60_000), { remaining: 59, resetAfter: 1200 }),
      status(linear('tokens', 150_000, 360_000), { remaining: 149_984.9, resetAfter: 360_000, cost: 16 }),
      status(linear('Output tokens', 8000, 60_000), { remaining: 8000 }),
    ])
    expect(written(style, decided)).toEqual({
      ...headers('requests', '60', '59', ['1.2s', '2026-01-01T00:00:02Z']),
      ...headers('tokens', '150000', '149984', ['6m0s', '2026-01-01T00:06:00Z']),
      ...headers('output-tokens', '8000', '8000', ['0s', '2026-01-01T00:00:00Z']),
    })
  })

  test('writes when the whole quota is available, which is never before the request would be admitted', () => {
    const written3 = (said: object) => written(style, decide([status(windowed('n', 5, 60_000), said)]))
    const minute = ['1m0s', '2026-01-01T00:01:00Z'] as const
    expect(written3({ retryAfter: 600, resetAfter: 60_000 })).toEqual(headers('n', '5', '0', minute))
    expect(written3({ retryAfter: Infinity, resetAfter: 60_000 })).toEqual(headers('n', '5', '0', minute))
    expect(written3({ retryAfter: 90_000, resetAfter: 60_000 })).toEqual(
      headers('n', '5', '0', ['1m30s', '2026-01-01T00:01:30Z']),
    )
  })

  test('writes the window of a limit that admits nothing', () => {
    const closed = decide([status(windowed('closed', 0, 90_000), { retryAfter: Infinity })])
    expect(written(style, closed)).toEqual(headers('closed', '0', '0', ['1m30s', '2026-01-01T00:01:30Z']))
  })

  test('writes the capacity, if it is larger than the quota', () => {
    const bucket = linear('tokens', 10, 1000, { algorithm: 'tokenBucket', capacity: 50 })
    expect(written(style, decide([status(bucket, { remaining: 49 })]))).toMatchObject(headers('tokens', '50', '49'))
  })

  test('writes no reset for requests that run at the same time, since nobody knows when one ends', async () => {
    const limiter = createLimiter({ keyer: everyone, limits: concurrent({ quota: 3, name: 'running' }) })
    const decided = await limiter.consume({})
    expect(written(style, decided)).toEqual(headers('running', '3', '2'))
    const names = [nameOf('limit', 'running'), nameOf('remaining', 'running')]
    expect(writtenHeaders(headerConfig({ headers: style }), decided.limits)).toEqual(names)
  })

  test.each([
    ['Tokens', 'tokens'],
    ['tokens per day', 'tokens-per-day'],
    ['api:burst', 'api-burst'],
    ['a"b\\c', 'a-b-c'],
    ['100-per-1m', '100-per-1m'],
    ["!#$%&'*+.^_`|~", "!#$%&'*+.^_`|~"],
    [' ', '-'],
  ])('writes the name %o as %s', (name, token) => {
    expect(limitHeaderOf(windowed(name, 5, 1000))).toBe(nameOf('limit', token))
  })

  function limitHeaderOf(limit: Limit): string {
    return Object.keys(written(style, decide([status(limit)])))[0]!
  }

  describe('shows one of several limits with the same name, in any order:', () => {
    const few = windowed('tokens', 10, 1000)
    const many = windowed('Tokens', 20, 60_000)
    type Status = ReturnType<typeof status>
    const expectShown = (quota: string, one: Status, other: Status): void => {
      for (const order of [
        [one, other],
        [other, one],
      ]) {
        const shown = written(style, decide(order))
        expect(Object.keys(shown)).toHaveLength(3)
        expect(shown[nameOf('limit', 'tokens')]).toBe(quota)
      }
    }

    test('the one that denies', () => {
      const denied = status(many, { remaining: 8, retryAfter: 10 })
      for (const remaining of [1, 9]) expectShown('20', denied, status(few, { remaining }))
    })

    test('of two that deny the one with the longer wait', () => {
      expectShown('20', status(few, { retryAfter: 10 }), status(many, { remaining: 8, retryAfter: 20 }))
    })

    test('else the one with fewer units left', () => {
      expectShown('20', status(many, { remaining: 3 }), status(few, { remaining: 4 }))
    })

    test('never a shadow limit', () => {
      const shadow = windowed('tokens', 1, 1000, { shadow: true })
      expectShown('10', status(few, { remaining: 4 }), status(shadow, { retryAfter: 10 }))
    })

    test('also of two request limiters', () => {
      const merged = mergeDecisions(decide([status(few, { remaining: 9 })]), decide([status(many, { remaining: 3 })]))
      expect(written(style, merged)[nameOf('remaining', 'tokens')]).toBe('3')
    })
  })

  test.each([
    ['legacy', NAMES[style]('limit', 'requests')],
    ['github', style === 'openai' ? 'X-RateLimit-Reset-Tokens' : 'Anthropic-RateLimit-Tokens-Reset'],
  ] as const)('cannot share a header with %s: %s', (named, name) => {
    const together = (other: (typeof styles)[number] | 'standard') => () =>
      headerConfig({ headers: [named, other], headerNames: { limit: name } })
    expect(together(style)).toThrow(`headers: "${style}" and "${named}" both write ${name}; choose one of them`)
    for (const other of [styles.find((each) => each !== style)!, 'standard'] as const)
      expect(together(other)).not.toThrow()
  })

  test('writes valid headers, and resets of at least the wait, for every limit', () => {
    const name = fc.string({
      unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)),
      minLength: 1,
      maxLength: 256,
    })
    const ms = fc.oneof(fc.double({ min: 0, max: 1e12, noNaN: true }), fc.integer({ min: 0, max: 1e12 }))
    const one = fc.record({ name, remaining: fc.nat(9), resetAfter: ms, retryAfter: fc.oneof(fc.constant(0), ms) })
    // Durations are in whole milliseconds, and times in whole seconds. The sum of two times is rounded to a part of a millisecond.
    const [parsed, most, early] = style === 'openai' ? [parsedDuration, 1, 1e-6] : [parsedTime, 1000, 1e-3]
    fc.assert(
      fc.property(fc.array(one, { maxLength: 5 }), (all) => {
        const decided = decide(all.map(({ name: its, ...said }) => status(windowed(its, 5, 1000), said)))
        const sent = written(style, decided)
        const names = writtenHeaders(headerConfig({ headers: style }), decided.limits)
        expect(new Set(Object.keys(sent))).toEqual(new Set(names))
        for (const [header, value] of Object.entries(sent)) {
          validateHeaderName(header)
          expect(header).toBe(header.toLowerCase())
          if (Number.isNaN(parsed(value))) expect(value).toMatch(/^\d+$/)
        }
        for (const each of decided.limits) {
          const [, , reset] = writtenHeaders(headerConfig({ headers: style }), [each])
          const told = parsed(sent[reset!]!)
          expect(told).toBeGreaterThanOrEqual(0)
          if (!each.allowed) expect(told).toBeGreaterThanOrEqual(each.retryAfter - early)
          const same = decided.limits.filter((other) => limitHeaderOf(other.limit) === limitHeaderOf(each.limit))
          if (same.length > 1) continue
          const wait = Math.max(each.retryAfter, each.resetAfter)
          expect(told).toBeGreaterThanOrEqual(wait - early)
          expect(told).toBeLessThanOrEqual(Math.max(wait, 1) + most)
        }
      }),
      { numRuns: 60 },
    )
  })
})

const resetOf = (style: (typeof styles)[number], ms: number, remaining = 1, now = NOW): string =>
  written(style, decide([status(windowed('n', 5, 60_000), { remaining, resetAfter: ms })]), {}, now)[
    NAMES[style]('reset', 'n')
  ]!

test.each([
  [0, '0s', '2026-01-01T00:00:00Z'],
  [-5, '0s', '2026-01-01T00:00:00Z'],
  [NaN, '0s', '2026-01-01T00:00:00Z'],
  [1e-7, '0s', '2026-01-01T00:00:00Z'],
  [0.2, '1ms', '2026-01-01T00:00:01Z'],
  [1, '1ms', '2026-01-01T00:00:01Z'],
  [12, '12ms', '2026-01-01T00:00:01Z'],
  [12.0000000004, '12ms', '2026-01-01T00:00:01Z'],
  [999.5, '1s', '2026-01-01T00:00:01Z'],
  [1000, '1s', '2026-01-01T00:00:01Z'],
  [1001, '1.001s', '2026-01-01T00:00:02Z'],
  [1500, '1.5s', '2026-01-01T00:00:02Z'],
  [8640, '8.64s', '2026-01-01T00:00:09Z'],
  [59_999.4, '1m0s', '2026-01-01T00:01:00Z'],
  [60_001, '1m0.001s', '2026-01-01T00:01:01Z'],
  [360_000, '6m0s', '2026-01-01T00:06:00Z'],
  [3_600_000, '1h0m0s', '2026-01-01T01:00:00Z'],
  [5_400_000, '1h30m0s', '2026-01-01T01:30:00Z'],
  [86_400_000 * 31, '744h0m0s', '2026-02-01T00:00:00Z'],
  [Infinity, '2562047h47m16s', '9999-12-31T23:59:59Z'],
])('writes %d ms as %s, or as %s', (ms, duration, time) => {
  expect([resetOf('openai', ms), resetOf('anthropic', ms)]).toEqual([duration, time])
})

test('never writes that a limit resets now while no unit is left', () => {
  expect([0, -5].map((ms) => resetOf('openai', ms, 0))).toEqual(['1ms', '1ms'])
  expect(resetOf('openai', 0, 5)).toBe('0s')
  expect(resetOf('anthropic', 0, 0)).toBe('2026-01-01T00:00:01Z')
})

test('anthropic writes a time for any clock', () => {
  const at = (ms: number, now: number): string => resetOf('anthropic', ms, 1, now)
  expect([at(0, 0), at(500, 0), at(0, -1e9), at(0, 1e300)]).toEqual([
    '1970-01-01T00:00:00Z',
    '1970-01-01T00:00:01Z',
    '1970-01-01T00:00:00Z',
    '9999-12-31T23:59:59Z',
  ])
})

test('can be used with others', () => {
  const several = ['standard', 'legacy', 'openai', 'anthropic'] as const
  const all = Object.assign({}, ...several.map((style) => written(style, A2))) as Record<string, string>
  expect(written(several, A2)).toEqual(all)
  expect(Object.keys(all)).toHaveLength(2 + 3 + 6 + 6)
})
