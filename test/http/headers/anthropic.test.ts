import * as fc from 'fast-check'
import { validateHeaderName } from 'node:http'
import { describe, expect, test } from 'vitest'
import { headerConfig } from '../../../src/http/headers/styles.ts'
import { headersFor } from '../../../src/http/index.ts'
import { createLimiter, everyone, memoryStore } from '../../../src/index.ts'
import { concurrent, fixedWindow } from '../../../src/engine/factories.ts'
import { A2, D2, D3, decide, linear, NOW, status, windowed, written } from '../decisions.ts'

const resetOf = (ms: number, now = NOW, remaining = 1): string =>
  written('anthropic', decide([status(windowed('n', 5, 60_000), { remaining, resetAfter: ms })]), {}, now)[
    'anthropic-ratelimit-n-reset'
  ]!

describe('the style anthropic', () => {
  test('writes three headers for each limit, by its name', () => {
    const decided = decide([
      status(linear('requests', 50, 60_000), { remaining: 49, resetAfter: 1200 }),
      status(linear('input-tokens', 20_000, 60_000), { remaining: 12_000.7, resetAfter: 24_000 }),
      status(linear('Output tokens', 8000, 60_000), { remaining: 8000 }),
    ])
    expect(written('anthropic', decided)).toEqual({
      'anthropic-ratelimit-requests-limit': '50',
      'anthropic-ratelimit-requests-remaining': '49',
      'anthropic-ratelimit-requests-reset': '2026-01-01T00:00:02Z',
      'anthropic-ratelimit-input-tokens-limit': '20000',
      'anthropic-ratelimit-input-tokens-remaining': '12000',
      'anthropic-ratelimit-input-tokens-reset': '2026-01-01T00:00:24Z',
      'anthropic-ratelimit-output-tokens-limit': '8000',
      'anthropic-ratelimit-output-tokens-remaining': '8000',
      'anthropic-ratelimit-output-tokens-reset': '2026-01-01T00:00:00Z',
    })
  })

  test('has the worked values', () => {
    const hourly = (remaining: string) => ({
      'anthropic-ratelimit-hourly-limit': '1000',
      'anthropic-ratelimit-hourly-remaining': remaining,
      'anthropic-ratelimit-hourly-reset': '2026-01-01T00:30:00Z',
    })
    const burst = (remaining: string) => ({
      'anthropic-ratelimit-burst-limit': '10',
      'anthropic-ratelimit-burst-remaining': remaining,
      'anthropic-ratelimit-burst-reset': '2026-01-01T00:00:01Z',
    })
    expect(written('anthropic', A2)).toEqual({ ...burst('9'), ...hourly('650') })
    expect(written('anthropic', D2)).toEqual({ ...burst('0'), ...hourly('650') })
    expect(written('anthropic', D3)).toEqual({ ...burst('7'), ...hourly('0') })
  })

  test.each([
    [0, '2026-01-01T00:00:00Z'],
    [NaN, '2026-01-01T00:00:00Z'],
    [1, '2026-01-01T00:00:01Z'],
    [1000, '2026-01-01T00:00:01Z'],
    [1001, '2026-01-01T00:00:02Z'],
    [59_999.4, '2026-01-01T00:01:00Z'],
    [86_400_000 * 31, '2026-02-01T00:00:00Z'],
    [Infinity, '9999-12-31T23:59:59Z'],
  ])('writes %d ms from now as %s', (ms, text) => expect(resetOf(ms)).toBe(text))

  test('writes a time in the future while no unit is left', () => {
    expect(resetOf(0, NOW, 0)).toBe('2026-01-01T00:00:01Z')
  })

  test('writes a time for any clock', () => {
    expect([resetOf(0, 0), resetOf(500, 0), resetOf(0, -1e9), resetOf(0, 1e300)]).toEqual([
      '1970-01-01T00:00:00Z',
      '1970-01-01T00:00:01Z',
      '1970-01-01T00:00:00Z',
      '9999-12-31T23:59:59Z',
    ])
  })

  test('reads the clock of the store', async () => {
    const limiter = createLimiter({
      keyer: everyone,
      limits: fixedWindow({ name: 'requests', quota: 1, window: '1m' }),
      store: memoryStore({ clock: { now: () => NOW } }),
    })
    expect(headersFor(await limiter.consume({}), { headers: 'anthropic' })).toEqual({
      'anthropic-ratelimit-requests-limit': '1',
      'anthropic-ratelimit-requests-remaining': '0',
      'anthropic-ratelimit-requests-reset': '2026-01-01T00:01:00Z',
    })
  })

  test('writes no reset for requests that run at the same time', async () => {
    const limiter = createLimiter({ keyer: everyone, limits: concurrent({ quota: 3, name: 'running' }) })
    expect(written('anthropic', await limiter.consume({}))).toEqual({
      'anthropic-ratelimit-running-limit': '3',
      'anthropic-ratelimit-running-remaining': '2',
    })
  })

  test('shows the most restrictive of several limits with the same name', () => {
    const [one, other] = [windowed('tokens', 10, 1000), windowed('TOKENS', 20, 1000)]
    for (const order of [
      [status(one, { remaining: 4 }), status(other, { remaining: 3 })],
      [status(other, { remaining: 3 }), status(one, { remaining: 4 })],
    ])
      expect(written('anthropic', decide(order))).toMatchObject({ 'anthropic-ratelimit-tokens-limit': '20' })
  })

  test.each(['anthropic-ratelimit-requests-limit', 'Anthropic-RateLimit-Tokens-Reset'])(
    'cannot share the header %s',
    (name) => {
      const together = (other: 'anthropic' | 'openai') => () =>
        headerConfig({ headers: ['github', other], headerNames: { limit: name } })
      expect(together('anthropic')).toThrow(`headers: "anthropic" and "github" both write ${name}; choose one of them`)
      expect(together('openai')).not.toThrow()
    },
  )

  test('writes valid headers, and times that are not before the wait is over', () => {
    const name = fc.string({
      unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)),
      minLength: 1,
      maxLength: 256,
    })
    const ms = fc.double({ min: 0, max: 1e12, noNaN: true })
    fc.assert(
      fc.property(name, ms, fc.oneof(fc.constant(0), ms), (its, resetAfter, retryAfter) => {
        const decided = decide([status(windowed(its, 5, 1000), { remaining: 2, resetAfter, retryAfter })])
        const headers = written('anthropic', decided)
        for (const header of Object.keys(headers)) validateHeaderName(header)
        const [limit, remaining, reset] = Object.values(headers)
        expect([limit, remaining]).toEqual(['5', '2'])
        expect(reset).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
        const told = Date.parse(reset!) - NOW
        const wait = Math.max(resetAfter, retryAfter)
        // The sum of two times is rounded to a part of a millisecond.
        expect(told).toBeGreaterThanOrEqual(wait - 0.001)
        expect(told).toBeLessThan(wait + 1000)
      }),
    )
  })
})
