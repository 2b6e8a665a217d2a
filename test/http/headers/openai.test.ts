import * as fc from 'fast-check'
import { validateHeaderName } from 'node:http'
import { describe, expect, test } from 'vitest'
import { limit, type Limit } from '../../../src/engine/limit.ts'
import { concurrent } from '../../../src/engine/factories.ts'
import { headerConfig, writtenHeaders } from '../../../src/http/headers/styles.ts'
import { mergeDecisions } from '../../../src/http/headers/stacked.ts'
import { createLimiter } from '../../../src/limiter/limiter.ts'
import { everyone } from '../../../src/limiter/keyers.ts'
import { A2, D2, D3, decide, linear, status, windowed, written } from '../decisions.ts'

/** Returns the milliseconds of a duration of Go, or NaN. */
function parsed(text: string): number {
  const match = /^(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d{1,3})?)s)?$|^(\d+)ms$/.exec(text)
  if (match === null || text === '') return NaN
  const [, hours = 0, minutes = 0, seconds = 0, ms = 0] = match
  return Number(hours) * 3_600_000 + Number(minutes) * 60_000 + Number(seconds) * 1000 + Number(ms)
}

const resetOf = (ms: number, remaining = 1): string =>
  written('openai', decide([status(windowed('n', 5, 60_000), { remaining, resetAfter: ms })]))['x-ratelimit-reset-n']!

describe('the style openai', () => {
  test('writes three headers for each limit, by its name', () => {
    const requests = linear('requests', 60, 60_000)
    const tokens = linear('tokens', 150_000, 360_000)
    const decided = decide([
      status(requests, { remaining: 59, resetAfter: 1000 }),
      status(tokens, { remaining: 149_984.9, resetAfter: 360_000, cost: 16 }),
    ])
    expect(written('openai', decided)).toEqual({
      'x-ratelimit-limit-requests': '60',
      'x-ratelimit-remaining-requests': '59',
      'x-ratelimit-reset-requests': '1s',
      'x-ratelimit-limit-tokens': '150000',
      'x-ratelimit-remaining-tokens': '149984',
      'x-ratelimit-reset-tokens': '6m0s',
    })
  })

  test('has the worked values', () => {
    const hourly = (remaining: string, reset = '30m0s') => ({
      'x-ratelimit-limit-hourly': '1000',
      'x-ratelimit-remaining-hourly': remaining,
      'x-ratelimit-reset-hourly': reset,
    })
    const burst = (remaining: string, reset: string) => ({
      'x-ratelimit-limit-burst': '10',
      'x-ratelimit-remaining-burst': remaining,
      'x-ratelimit-reset-burst': reset,
    })
    expect(written('openai', A2)).toEqual({ ...burst('9', '1s'), ...hourly('650') })
    expect(written('openai', D2)).toEqual({ ...burst('0', '200ms'), ...hourly('650') })
    expect(written('openai', D3)).toEqual({ ...burst('7', '700ms'), ...hourly('0') })
  })

  test.each([
    [0, '0s'],
    [-5, '0s'],
    [NaN, '0s'],
    [1e-7, '0s'],
    [0.2, '1ms'],
    [12, '12ms'],
    [12.0000000004, '12ms'],
    [999.5, '1s'],
    [1000, '1s'],
    [1500, '1.5s'],
    [8640, '8.64s'],
    [59_999.4, '1m0s'],
    [60_001, '1m0.001s'],
    [360_000, '6m0s'],
    [3_600_000, '1h0m0s'],
    [5_400_000, '1h30m0s'],
    [86_400_000 * 31, '744h0m0s'],
    [Infinity, '2562047h47m16s'],
  ])('writes %d ms as %s', (ms, text) => expect(resetOf(ms)).toBe(text))

  test('never writes 0s while no unit is left', () => {
    expect([resetOf(0, 0), resetOf(-5, 0), resetOf(0, 5)]).toEqual(['1ms', '1ms', '0s'])
  })

  test('writes when the whole quota is available, which is never before the request would be admitted', () => {
    const reset = (said: object) =>
      written('openai', decide([status(windowed('n', 5, 60_000), said)]))['x-ratelimit-reset-n']
    expect(reset({ retryAfter: 600, resetAfter: 60_000 })).toBe('1m0s')
    expect(reset({ retryAfter: 90_000, resetAfter: 60_000 })).toBe('1m30s')
    expect(reset({ retryAfter: Infinity, resetAfter: 60_000 })).toBe('1m0s')
  })

  test('writes the window of a limit that admits nothing', () => {
    const closed = windowed('closed', 0, 90_000)
    expect(written('openai', decide([status(closed, { retryAfter: Infinity })]))).toEqual({
      'x-ratelimit-limit-closed': '0',
      'x-ratelimit-remaining-closed': '0',
      'x-ratelimit-reset-closed': '1m30s',
    })
  })

  test('writes the capacity, if it is larger than the quota', () => {
    const bucket = linear('tokens', 10, 1000, { algorithm: 'tokenBucket', capacity: 50 })
    expect(written('openai', decide([status(bucket, { remaining: 49 })]))['x-ratelimit-limit-tokens']).toBe('50')
  })

  test('writes no reset for requests that run at the same time, since nobody knows when one ends', async () => {
    const limiter = createLimiter({ keyer: everyone, limits: concurrent({ quota: 3, name: 'running' }) })
    const decided = await limiter.consume({})
    const headers = { 'x-ratelimit-limit-running': '3', 'x-ratelimit-remaining-running': '2' }
    expect(written('openai', decided)).toEqual(headers)
    expect(writtenHeaders(headerConfig({ headers: 'openai' }), decided.limits)).toEqual(Object.keys(headers))
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
    expect(Object.keys(written('openai', decide([status(windowed(name, 5, 1000))])))[0]).toBe(
      `x-ratelimit-limit-${token}`,
    )
  })

  describe('shows one of several limits with the same name:', () => {
    const few = windowed('tokens', 10, 1000)
    const many = windowed('Tokens', 20, 60_000)
    const shownOf = (...statuses: readonly ReturnType<typeof status>[]) => {
      const headers = written('openai', decide(statuses))
      expect(Object.keys(headers)).toHaveLength(3)
      return headers['x-ratelimit-limit-tokens']
    }

    test('the one that denies', () => {
      const denied = status(many, { remaining: 8, retryAfter: 10 })
      for (const other of [status(few, { remaining: 1 }), status(few, { remaining: 9 })]) {
        expect(shownOf(denied, other)).toBe('20')
        expect(shownOf(other, denied)).toBe('20')
      }
    })

    test('of two that deny the one with the longer wait', () => {
      const [short, long] = [status(few, { retryAfter: 10 }), status(many, { remaining: 8, retryAfter: 20 })]
      expect([shownOf(short, long), shownOf(long, short)]).toEqual(['20', '20'])
    })

    test('else the one with fewer units left', () => {
      const [less, more] = [status(many, { remaining: 3 }), status(few, { remaining: 4 })]
      expect([shownOf(less, more), shownOf(more, less)]).toEqual(['20', '20'])
    })

    test('never a shadow limit', () => {
      const shadow = windowed('tokens', 1, 1000, { shadow: true })
      expect(shownOf(status(few, { remaining: 4 }), status(shadow, { retryAfter: 10 }))).toBe('10')
    })

    test('also of two request limiters', () => {
      const merged = mergeDecisions(decide([status(few, { remaining: 9 })]), decide([status(many, { remaining: 3 })]))
      expect(written('openai', merged)['x-ratelimit-remaining-tokens']).toBe('3')
    })
  })

  test('can be used with others', () => {
    const styles = ['standard', 'legacy', 'openai', 'anthropic'] as const
    const all = Object.assign({}, ...styles.map((style) => written(style, A2))) as Record<string, string>
    expect(written(styles, A2)).toEqual(all)
    expect(Object.keys(all)).toHaveLength(2 + 3 + 6 + 6)
  })

  test.each(['x-ratelimit-limit-requests', 'X-RateLimit-Reset-Tokens'])('cannot share the header %s', (name) => {
    const together = (other: 'openai' | 'standard') => () =>
      headerConfig({ headers: ['legacy', other], headerNames: { limit: name } })
    expect(together('openai')).toThrow(`headers: "openai" and "legacy" both write ${name}; choose one of them`)
    expect(together('standard')).not.toThrow()
  })

  test('writes valid headers, and durations of at least the wait, for every limit', () => {
    const name = fc.string({
      unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)),
      minLength: 1,
      maxLength: 256,
    })
    const ms = fc.oneof(fc.double({ min: 0, max: 1e12, noNaN: true }), fc.integer({ min: 0, max: 1e12 }))
    const one = fc.record({ name, remaining: fc.nat(9), resetAfter: ms, retryAfter: fc.oneof(fc.constant(0), ms) })
    const make = ({
      name: its,
      ...said
    }: {
      name: string
      remaining: number
      resetAfter: number
      retryAfter: number
    }) => status(limit({ algorithm: 'fixedWindow', name: its, quota: 5, window: 1000 }), said)
    fc.assert(
      fc.property(fc.array(one, { maxLength: 5 }), (all) => {
        const decided = decide(all.map(make))
        const headers = written('openai', decided)
        expect(new Set(Object.keys(headers))).toEqual(
          new Set(writtenHeaders(headerConfig({ headers: 'openai' }), decided.limits)),
        )
        for (const [header, value] of Object.entries(headers)) {
          validateHeaderName(header)
          expect(header).toBe(header.toLowerCase())
          if (!header.startsWith('x-ratelimit-reset-')) expect(value).toMatch(/^\d+$/)
        }
        for (const each of decided.limits) {
          const [, , reset] = writtenHeaders(headerConfig({ headers: 'openai' }), [each])
          const told = parsed(headers[reset!]!)
          expect(told).toBeGreaterThanOrEqual(0)
          if (!each.allowed) expect(told).toBeGreaterThanOrEqual(each.retryAfter - 1e-6)
          const same = decided.limits.filter((other) => token(other.limit) === token(each.limit))
          if (same.length > 1) continue
          const wait = Math.max(each.retryAfter, each.resetAfter)
          expect(told).toBeGreaterThanOrEqual(wait - 1e-6)
          expect(told).toBeLessThanOrEqual(Math.max(wait, 1) + 1)
        }
      }),
    )
  })
})

function token({ name }: Limit): string {
  return Object.keys(written('openai', decide([status(windowed(name, 1, 1000))])))[0]!
}
