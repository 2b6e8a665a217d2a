import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { prefersText } from '../../src/http/headers/accept.ts'
import { exposeHeaders, isPreflight } from '../../src/http/headers/cors.ts'
import { denial, rawResponse } from '../../src/http/denial.ts'
import { A2, D1, D2, D3, D4, decide, status, windowed } from './decisions.ts'

const TYPES = 'https://iana.org/assignments/http-problem-types'

describe('a quota exceeded', () => {
  test('is a 429 with problem details', () => {
    const { status: code, headers, body } = denial(D2)
    expect(code).toBe(429)
    expect(headers).toEqual([
      ['Retry-After', '1'],
      ['Cache-Control', 'no-store'],
      ['Content-Type', 'application/problem+json'],
    ])
    expect(JSON.parse(body)).toEqual({
      type: `${TYPES}#quota-exceeded`,
      title: 'Quota Exceeded',
      status: 429,
      'violated-policies': ['burst'],
      detail: 'Too many requests: "burst" allows 10 per 1s. Try again in 1 second.',
    })
  })

  test.each([
    [D1, ['default'], 'Too many requests: "default" allows 100 per 1m. Try again in 13 seconds.'],
    [D3, ['hourly'], 'Too many requests: "hourly" allows 1000 per 1h. Try again in 30 minutes.'],
    [
      D4,
      ['burst', 'hourly'],
      'Too many requests: "burst" allows 10 per 1s, "hourly" allows 1000 per 1h. Try again in 30 minutes.',
    ],
    [
      decide([status(windowed('odd', 3, 1500), { retryAfter: 86_400_000 })]),
      ['odd'],
      'Too many requests: "odd" allows 3 per 1500ms. Try again in 1 day.',
    ],
  ])('%# in words', (decision, violated, detail) => {
    expect(JSON.parse(denial(decision).body)).toMatchObject({ 'violated-policies': violated, detail })
  })

  test('that no wait will mend has no Retry-After', () => {
    const never = decide([status(windowed('n', 3, 1000), { cost: 5, retryAfter: Infinity })])
    const { headers, body } = denial(never)
    expect(headers.map(([name]) => name)).toEqual(['Cache-Control', 'Content-Type'])
    expect(JSON.parse(body).detail).toBe(
      'Too many requests: "n" allows 3 per 1s. It asks for more than is ever allowed at once.',
    )
  })

  test('names every violated policy once, and no shadow limit', () => {
    const decision = decide([
      status(windowed('s', 1, 1000, { shadow: true }), { retryAfter: 1 }),
      status(windowed('n', 1, 1000), { retryAfter: 1 }),
      status(windowed('n', 2, 1000), { retryAfter: 1 }),
    ])
    expect(JSON.parse(denial(decision).body)['violated-policies']).toEqual(['n'])
  })

  test('is JSON and ASCII whatever the names', () => {
    const name = fc.string({
      unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)),
      minLength: 1,
    })
    fc.assert(
      fc.property(name, fc.double({ min: 0.1, max: 1e12, noNaN: true }), (as, retry) => {
        const { body } = denial(decide([status(windowed(as, 1, 1000), { retryAfter: retry })]))
        expect(JSON.parse(body)['violated-policies']).toEqual([as])
        expect(body).toMatch(/^[\x20-\x7e]+$/)
        expect(JSON.parse(body).detail).toMatch(/Try again in \d+ \w+\.$/)
      }),
    )
  })
})

describe('a closed outage', () => {
  test('is a 503 that asks to come back', () => {
    const { status: code, headers, body } = denial({ ...decide([], 'closed'), allowed: false, retryAfter: 2100 })
    expect(code).toBe(503)
    expect(headers[0]).toEqual(['Retry-After', '3'])
    expect(JSON.parse(body)).toEqual({
      type: `${TYPES}#temporary-reduced-capacity`,
      title: 'Temporary Reduced Capacity',
      status: 503,
      detail: 'Requests cannot be counted at the moment, so none are admitted. Try again in 3 seconds.',
    })
  })

  test.each([0, Infinity])('also when the wait is %d', (retryAfter) => {
    expect(denial({ ...D1, degraded: 'closed', retryAfter })).toMatchObject({
      status: 503,
      headers: [['Retry-After', '1'], {}, {}],
    })
  })
})

describe('the body', () => {
  test('is left out for HEAD, the fields are not', () => {
    expect(denial(D2, { method: 'HEAD' })).toEqual({ ...denial(D2), body: '' })
  })

  test('is plain text for who takes no JSON', () => {
    const { headers, body } = denial(D2, { accept: 'text/plain' })
    expect(headers).toContainEqual(['Content-Type', 'text/plain; charset=utf-8'])
    expect(body).toBe('Too many requests: "burst" allows 10 per 1s. Try again in 1 second.\n')
  })

  test.each<[string | undefined, boolean]>([
    [undefined, false],
    ['', false],
    ['*/*', false],
    ['text/plain', true],
    ['TEXT/Plain;charset=utf-8', true],
    ['text/*', true],
    ['text/html', false],
    ['text/html, text/plain;q=0.5', true],
    ['text/plain;q=0', false],
    ['text/plain; q=0.000, text/*', false],
    ['text/plain, */*;q=0.1', false],
    ['text/plain, */*;q=0', true],
    ['text/plain, application/json', false],
    ['text/plain, application/*', false],
    ['text/plain, application/problem+json;q=0.1', false],
    ['text/plain, application/json;q=0', true],
    ['application/json;q=0, */*, text/plain', false],
    ['text/plain;a="x,application/json;"', true],
    ['text/plain;a="\\",*/*"', true],
    ['text/plain;q=banana', false],
    ['text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8', false],
    [',,;;,text/plain,', true],
    [`text/plain,${'"'.repeat(100_000)}`, false],
  ])('Accept: %s takes text alone: %s', (accept, text) => expect(prefersText(accept)).toBe(text))
})

test('over a bare socket', () => {
  const raw = rawResponse(denial(D2))
  const [head, body] = raw.split('\r\n\r\n') as [string, string]
  expect(head.split('\r\n')).toEqual([
    'HTTP/1.1 429 Too Many Requests',
    'Connection: close',
    'Retry-After: 1',
    'Cache-Control: no-store',
    'Content-Type: application/problem+json',
    `Content-Length: ${Buffer.byteLength(body)}`,
  ])
  expect(JSON.parse(body).status).toBe(429)
  expect(rawResponse(denial({ ...A2, degraded: 'closed' }))).toMatch(/^HTTP\/1\.1 503 Service Unavailable\r\n/)
})

describe('CORS', () => {
  const names = ['Retry-After', 'RateLimit', 'RateLimit-Policy']

  test.each([
    ['X-Foo', 'X-Foo, Retry-After, RateLimit, RateLimit-Policy'],
    ['', 'Retry-After, RateLimit, RateLimit-Policy'],
    ['x-foo,ratelimit , RETRY-AFTER', 'x-foo, ratelimit, RETRY-AFTER, RateLimit-Policy'],
    ['*', '*'],
    [' * ', ' * '],
    [', ,X-Foo,', 'X-Foo, Retry-After, RateLimit, RateLimit-Policy'],
  ])('%o exposes %o', (existing, merged) => {
    expect(exposeHeaders(existing, names)).toBe(merged)
    expect(exposeHeaders(merged, names)).toBe(merged)
  })

  test('a preflight is an OPTIONS with both headers', () => {
    const both: Record<string, string> = { origin: 'https://a.example', 'access-control-request-method': 'PUT' }
    const having = (headers: Record<string, string>) => (name: string) => headers[name]
    expect(isPreflight('OPTIONS', having(both))).toBe(true)
    expect(isPreflight('GET', having(both))).toBe(false)
    expect(isPreflight(undefined, having(both))).toBe(false)
    expect(isPreflight('OPTIONS', having({ origin: 'x' }))).toBe(false)
    expect(isPreflight('OPTIONS', having({ 'access-control-request-method': 'PUT' }))).toBe(false)
  })
})
