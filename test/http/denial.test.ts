import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { denial, type DeniedRequest, rawResponse } from '../../src/http/denial.ts'
import type { Decision } from '../../src/limiter/decision.ts'
import { everyone } from '../../src/limiter/keyers.ts'
import { createLimiter } from '../../src/limiter/limiter.ts'
import {
  concurrent,
  fixedWindow,
  gcra,
  perMinute,
  slidingWindowLog,
  spacing,
  tokenBucket,
} from '../../src/engine/factories.ts'
import type { Limit } from '../../src/engine/limit.ts'
import { memoryStore } from '../../src/stores/memory/index.ts'
import type { LimitStatus } from '../../src/stores/store.ts'
import { A2, D2, D4, decide, status, windowed } from './decisions.ts'

const TYPES = 'https://iana.org/assignments/http-problem-types'

describe('an exceeded quota', () => {
  test('returns 429 with problem details', () => {
    const { status: code, headers, body } = denial(D2)
    expect(code).toBe(429)
    expect(headers).toEqual([
      ['Retry-After', '1'],
      ['Cache-Control', 'no-store'],
      ['Vary', 'Accept'],
      ['Content-Type', 'application/problem+json'],
    ])
    expect(JSON.parse(body)).toEqual({
      type: `${TYPES}#quota-exceeded`,
      title: 'Quota Exceeded',
      status: 429,
      'violated-policies': ['burst'],
      detail: 'You can send 10 requests per second. Try again in 1 second.',
    })
  })

  test('names every violated policy as the headers do, and no shadow limit', () => {
    const decision = decide([
      status(windowed('s', 1, 1000, { shadow: true }), { retryAfter: 1 }),
      status(windowed('n', 1, 1000), { retryAfter: 1 }),
      status(windowed('n', 2, 1000), { retryAfter: 1 }),
    ])
    expect(JSON.parse(denial(decision).body)['violated-policies']).toEqual(['n', 'n:2'])
  })

  test('is JSON and ASCII with any names', () => {
    const name = fc.string({
      unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)),
      minLength: 1,
    })
    fc.assert(
      fc.property(name, fc.double({ min: 0.1, max: 1e12, noNaN: true }), (as, retry) => {
        const { body } = denial(decide([status(windowed(as, 1, 1000), { retryAfter: retry })]))
        expect(JSON.parse(body)['violated-policies']).toEqual([as])
        expect(body).toMatch(/^[\x20-\x7e]+$/)
        expect(JSON.parse(body).detail).toMatch(/^You can send one request per second\. Try again in [\d,]+ [a-z]+\.$/)
      }),
    )
  })
})

describe('the detail of a denial', () => {
  const detailOf = (decision: Decision, unit?: DeniedRequest['unit']): string =>
    (JSON.parse(denial(decision, { unit }).body) as { detail: string }).detail
  const denied = (limit: Limit, said: Partial<LimitStatus> = {}): LimitStatus =>
    status(limit, { retryAfter: 20_000, ...said })
  const about = (limit: Limit, said?: Partial<LimitStatus>): string => detailOf(decide([denied(limit, said)]))
  const DAY = 86_400_000

  test.each([
    [3, 60_000, '3 requests per minute'],
    [1, 60_000, 'one request per minute'],
    [1, 2000, 'one request every 2 seconds'],
    [5, 900_000, '5 requests every 15 minutes'],
    [1000, 12 * 3_600_000, '1,000 requests every 12 hours'],
    [1_234_567, DAY, '1,234,567 requests per day'],
    [2, 30 * DAY, '2 requests every 30 days'],
    [3, 1500, '3 requests every 1.5 seconds'],
    [3, 250, '3 requests every 250 milliseconds'],
    [3, 1, '3 requests per millisecond'],
  ])('says what is allowed: %d per %d ms', (quota, window, allowed) => {
    expect(about(windowed('name', quota, window))).toBe(`You can send ${allowed}. Try again in 20 seconds.`)
  })

  test.each([
    ['1d', 'day'],
    ['1w', 'week'],
    ['1mo', 'month'],
    ['1y', 'year'],
  ] as const)('names a window of the calendar: %s', (window, word) => {
    expect(about(fixedWindow({ quota: 4, window, anchor: 'calendar' }))).toMatch(
      new RegExp(`^You can send 4 requests per ${word}\\. `),
    )
  })

  test('says how often the requests of a spacing may come', () => {
    expect(about(spacing('2s'), { retryAfter: 1500 })).toBe(
      'You can send one request every 2 seconds. Try again in 2 seconds.',
    )
    expect(about(spacing('1s'), { retryAfter: 500 })).toBe(
      'You can send one request per second. Try again in 1 second.',
    )
  })

  test.each([
    [1, '1 second'],
    [59_001, '1 minute'],
    [61_000, '61 seconds'],
    [119_000, '119 seconds'],
    [119_001, '2 minutes'],
    [120_001, '3 minutes'],
    [3_541_000, '1 hour'],
    [3_601_000, '61 minutes'],
    [7_200_000, '2 hours'],
    [7_200_001, '3 hours'],
    [DAY - 1000, '1 day'],
    [DAY + 1, '25 hours'],
    [2 * DAY + 1, '3 days'],
    [3650 * DAY, '3,650 days'],
  ])('says when to try again, and never too early: in %d ms', (retryAfter, text) => {
    expect(about(windowed('n', 3, 60_000), { retryAfter })).toBe(
      `You can send 3 requests per minute. Try again in ${text}.`,
    )
  })

  /** Checks what a denial says before the time to wait. */
  const expectAllowed = (allowed: string, denials: LimitStatus | LimitStatus[], unit?: DeniedRequest['unit']): void =>
    expect(detailOf(decide([denials].flat()), unit)).toBe(`You can ${allowed}. Try again in 20 seconds.`)

  test('says how many requests may come at once where it is another number', () => {
    const bucket = tokenBucket({ quota: 10, window: '1s', capacity: 50 })
    expectAllowed(
      'send 100 requests per minute (at most 20 at once)',
      denied(gcra({ quota: 100, window: '1m', burst: 20 })),
    )
    expectAllowed('send 10 requests per second (at most 50 at once)', denied(bucket))
    expectAllowed('send 100 requests per minute', denied(gcra({ quota: 100, window: '1m' })))
  })

  test('says everything that is exceeded, each once, and how long the longest wait is', () => {
    expect(detailOf(D4)).toBe(
      'You can send 10 requests per second and 1,000 requests per hour. Try again in 30 minutes.',
    )
    const same = ['ip', 'account'].map((name) => denied(windowed(name, 5, 900_000)))
    expectAllowed('send 5 requests every 15 minutes', same)
    const three = [1, 2, 3].map((quota) => denied(windowed(`n${quota}`, quota, 60_000)))
    expectAllowed('send one request per minute, 2 requests per minute and 3 requests per minute', three)
  })

  test('says what a request costs, in units if it has no other name', () => {
    const dear = denied(windowed('n', 100, 60_000), { cost: 30 })
    expectAllowed('use 100 units per minute, and this request needs 30', dear)
    expectAllowed('send one request per minute', denied(windowed('n', 1, 60_000), { cost: 0 }))
  })

  test('names the unit of the headers', () => {
    const tokens = windowed('tokens', 100_000, 60_000)
    const dear = denied(tokens, { cost: 2000 })
    const allowed = 'use 100,000 tokens per minute, and this request needs 2,000'
    expectAllowed(allowed, dear, 'tokens')
    expectAllowed(allowed, dear, { tokens: 'tokens' })
    const bytes = denied(windowed('n', 5000, 1000), { cost: 40 })
    expectAllowed('use 5,000 bytes per second, and this request needs 40', bytes, 'content-bytes')
    const both = [denied(windowed('n', 3, 1000)), dear]
    expectAllowed(`send 3 requests per second and ${allowed}`, both, { tokens: 'tokens' })
    const three = [...both, denied(windowed('bytes', 9, 1000), { cost: 20 })]
    const units = { tokens: 'tokens', bytes: 'content-bytes' }
    expectAllowed('send 3 requests per second, use 100,000 tokens per minute and 9 bytes per second', three, units)
    expectAllowed('send 100,000 requests per minute', denied(tokens), 'requests')
  })

  test('asks for a smaller request when this one is never admitted', () => {
    const large = { cost: 5000, retryAfter: Infinity }
    const decision = decide([denied(windowed('n', 3, 1000), large), denied(windowed('other', 1, 1000))])
    expect(denial(decision).headers.map(([name]) => name)).toEqual(['Cache-Control', 'Vary', 'Content-Type'])
    for (const [unit, units] of [
      [undefined, 'units'],
      ['content-bytes', 'bytes'],
    ])
      expect(detailOf(decision, unit)).toBe(
        `This request needs 5,000 ${units}, but at most 3 can be used at once. Send a smaller request.`,
      )
  })

  test.each([windowed('n', 0, 1000), gcra({ quota: 5, window: '1s', burst: 0 })])(
    'says that a request is not allowed where none ever is',
    (limit) => {
      expect(about(limit, { retryAfter: Infinity })).toBe('This request is not allowed.')
    },
  )

  test('says so, too, for a limiter that says no more', () => {
    const nothing = { ...decide([]), allowed: false }
    expect(detailOf({ ...nothing, retryAfter: 4000 })).toBe('You have sent too many requests. Try again in 4 seconds.')
    expect(detailOf({ ...nothing, retryAfter: Infinity })).toBe('This request is not allowed.')
  })

  test('says that there were too many attempts while a key is locked out', () => {
    const clock = { now: () => 0 }
    const options = { keyer: everyone, store: memoryStore({ clock }) }
    const limits = slidingWindowLog({ quota: 5, window: '10m', block: { after: 2, for: '15m' } })
    const limiter = createLimiter({ ...options, limits, name: 'login' })
    for (let i = 0; i < 5; i++) limiter.consume(undefined)
    expect(detailOf(limiter.consume(undefined))).toBe(
      'You can send 5 requests every 10 minutes. Try again in 10 minutes.',
    )
    expect(detailOf(limiter.consume(undefined))).toBe('Too many attempts. Try again in 15 minutes.')
    expect(detailOf(limiter.consume(undefined))).toBe('Too many attempts. Try again in 15 minutes.')

    const blocked = createLimiter({ ...options, limits: perMinute(5), name: 'blocked' })
    blocked.block(undefined, '1h')
    expect(detailOf(blocked.consume(undefined))).toBe('Too many attempts. Try again in 1 hour.')
  })
})

describe('a limit of slots', () => {
  const detailOf = (body: string): string => (JSON.parse(body) as { detail: string }).detail
  /** Returns the first decision that denies. */
  const deniedBy = (limits: Limit | Limit[], cost = 1, unit?: DeniedRequest['unit'], repeats = 20): string => {
    const limiter = createLimiter({ keyer: everyone, limits, store: memoryStore() })
    for (let i = 0; i < repeats; i++) {
      const decision = limiter.consume(undefined, { cost })
      if (!decision.allowed) return detailOf(denial(decision, { unit }).body)
    }
    return 'admitted'
  }

  test('says how many requests can run, and promises no time', () => {
    expect(deniedBy(concurrent(10))).toBe('You can run 10 requests at the same time. Try again later.')
    expect(deniedBy(concurrent(1))).toBe('You can run one request at a time. Try again later.')
    expect(deniedBy([perMinute(100), concurrent(10)])).toBe(
      'You can run 10 requests at the same time. Try again later.',
    )
    expect(deniedBy(concurrent(10), 4)).toBe(
      'You can use 10 slots at the same time, and this request needs 4. Try again later.',
    )
    expect(deniedBy(concurrent(10), 11)).toBe(
      'This request needs 11 slots, but at most 10 can be used at once. Send a smaller request.',
    )
    expect(deniedBy(concurrent(0))).toBe('This request is not allowed.')
    expect(deniedBy(concurrent(10), 1, 'tokens')).toBe('You can run 10 requests at the same time. Try again later.')
  })

  test('names the time of another limit that denies, or of a lock-out', () => {
    expect(deniedBy([fixedWindow({ quota: 2, window: '1m' }), concurrent(2)])).toBe(
      'You can send 2 requests per minute and run 2 requests at the same time. Try again in 1 minute.',
    )
    expect(deniedBy(concurrent({ quota: 1, block: '15m' }))).toBe('Too many attempts. Try again in 15 minutes.')
  })
})

describe('a closed outage', () => {
  test('returns 503 with Retry-After', () => {
    const { status: code, headers, body } = denial({ ...decide([], 'closed'), allowed: false, retryAfter: 2100 })
    expect(code).toBe(503)
    expect(headers[0]).toEqual(['Retry-After', '3'])
    expect(JSON.parse(body)).toEqual({
      type: `${TYPES}#temporary-reduced-capacity`,
      title: 'Temporary Reduced Capacity',
      status: 503,
      detail: 'The service is temporarily unavailable. Try again in 3 seconds.',
    })
  })
})

describe('the body', () => {
  test('is a page for a browser, with units escaped and nothing that a Content-Security-Policy forbids', () => {
    const decision = decide([status(windowed('n', 3, 1000), { cost: 2, retryAfter: 1 })])
    const { headers, body } = denial(decision, { accept: 'text/html,*/*;q=0.8', unit: `<img src=x onerror='a'>"&` })
    expect(headers).toContainEqual(['Content-Type', 'text/html; charset=utf-8'])
    expect(body).toMatch(/^<!doctype html><html lang="en">.*<title>429 Too many requests<\/title>.*<\/html>\n$/)
    expect(body).toContain('<h1>Too many requests</h1>')
    expect(body).toContain('&#60;img src=x onerror=&#39;a&#39;&#62;&#34;&#38;')
    expect(body).toContain('Try again in 1 second.')
    const elements = Array.from(body.matchAll(/<(\w+)/g), ([, name]) => name)
    expect(elements.join(' ')).toBe('html head meta meta meta title body main h1 p')
    expect(body.length).toBeLessThan(600)
  })

  test('is the detail for a client that accepts text only', () => {
    const { headers, body } = denial(D2, { accept: 'text/plain' })
    expect(headers).toContainEqual(['Content-Type', 'text/plain; charset=utf-8'])
    expect(body).toBe('You can send 10 requests per second. Try again in 1 second.\n')
  })
})

test('rawResponse writes a whole response for a bare socket', () => {
  const raw = rawResponse(denial(D2))
  const [head, body] = raw.split('\r\n\r\n') as [string, string]
  expect(head.split('\r\n')).toEqual([
    'HTTP/1.1 429 Too Many Requests',
    'Connection: close',
    'Retry-After: 1',
    'Cache-Control: no-store',
    'Vary: Accept',
    'Content-Type: application/problem+json',
    `Content-Length: ${Buffer.byteLength(body)}`,
  ])
  expect(JSON.parse(body).status).toBe(429)
  const named = { status: 451, headers: [], body: 'é' }
  expect(rawResponse(named)).toBe('HTTP/1.1 451 \r\nConnection: close\r\nContent-Length: 2\r\n\r\né')
  expect(rawResponse(denial({ ...A2, degraded: 'closed' }))).toMatch(/^HTTP\/1\.1 503 Service Unavailable\r\n/)
})
