import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { denial, rawResponse } from '../../src/http/denial.ts'
import { A2, D1, D2, D3, D4, decide, status, windowed } from './decisions.ts'

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
  ])('is described in words: %#', (decision, violated, detail) => {
    expect(JSON.parse(denial(decision).body)).toMatchObject({ 'violated-policies': violated, detail })
  })

  test('has no Retry-After when the request is never admitted', () => {
    const never = decide([status(windowed('n', 3, 1000), { cost: 5, retryAfter: Infinity })])
    const { headers, body } = denial(never)
    expect(headers.map(([name]) => name)).toEqual(['Cache-Control', 'Vary', 'Content-Type'])
    expect(JSON.parse(body).detail).toBe(
      'Too many requests: "n" allows 3 per 1s. It asks for more than is ever allowed at once.',
    )
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
        expect(JSON.parse(body).detail).toMatch(/Try again in \d+ \w+\.$/)
      }),
    )
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
      detail: 'Requests cannot be counted at the moment, so none are admitted. Try again in 3 seconds.',
    })
  })

  test.each([0, Infinity])('returns 503 with Retry-After when the wait is %d', (retryAfter) => {
    expect(denial({ ...D1, degraded: 'closed', retryAfter })).toMatchObject({
      status: 503,
      headers: [['Retry-After', '1'], {}, {}, {}],
    })
  })
})

describe('the body', () => {
  test('is empty for HEAD, with the same headers', () => {
    expect(denial(D2, { method: 'HEAD' })).toEqual({ ...denial(D2), body: '' })
  })

  test('is plain text for a client that accepts no JSON', () => {
    const { headers, body } = denial(D2, { accept: 'text/plain' })
    expect(headers).toContainEqual(['Content-Type', 'text/plain; charset=utf-8'])
    expect(body).toBe('Too many requests: "burst" allows 10 per 1s. Try again in 1 second.\n')
  })

  test('is a page for a browser, with every name escaped and nothing that a Content-Security-Policy forbids', () => {
    const decision = decide([status(windowed(`<img src=x onerror='a'>"&`, 1, 1000), { retryAfter: 1 })])
    const { headers, body } = denial(decision, { accept: 'text/html,*/*;q=0.8' })
    expect(headers).toContainEqual(['Content-Type', 'text/html; charset=utf-8'])
    expect(body).toMatch(/^<!doctype html><html lang="en">.*<title>429 Quota Exceeded<\/title>.*<\/html>\n$/)
    expect(body).toContain('&#60;img src=x onerror=&#39;a&#39;&#62;&#34;&#38;')
    expect(body).toContain('Try again in 1 second.')
    expect(body.match(/<\w+/g)).toEqual([
      '<html',
      '<head',
      '<meta',
      '<meta',
      '<meta',
      '<title',
      '<body',
      '<main',
      '<h1',
      '<p',
    ])
    expect(body.length).toBeLessThan(600)
  })

  test('has the given status, but not in an outage', () => {
    expect(denial(D2, { statusCode: 403 })).toMatchObject({ status: 403 })
    expect(JSON.parse(denial(D2, { statusCode: 403 }).body)).toMatchObject({ status: 403 })
    expect(denial({ ...D2, degraded: 'closed' }, { statusCode: 403 })).toMatchObject({ status: 503 })
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
