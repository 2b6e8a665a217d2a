import { describe, expect, test } from 'vitest'
import { headersFor, problemFor } from '../../src/http/index.ts'
import { createLimiter, everyone, memoryStore, perMinute } from '../../src/index.ts'
import { denial } from '../../src/http/denial.ts'
import { A2, D1, D2, decide, NOW, status, windowed, written } from './decisions.ts'
import { codeOf } from '../support/code-of.ts'

const once = windowed('once', 1, 60_000)

function decisions(limits = once): ReturnType<ReturnType<typeof createLimiter>['consume']>[] {
  const limiter = createLimiter({ keyer: everyone, limits, store: memoryStore({ clock: { now: () => NOW } }) })
  return [limiter.consume({}), limiter.consume({})]
}

describe('headersFor', () => {
  test('returns the headers that an adapter writes, in the default style', () => {
    for (const decision of [A2, D1, D2]) expect(headersFor(decision)).toEqual(written('standard', decision))
  })

  test.each(['draft-7', 'draft-6', 'legacy'] as const)('returns them in another style: %s', (style) => {
    expect(headersFor(D1, { headers: style })).toEqual(written(style, D1))
  })

  test('reads the clock of the store for a reset in epoch seconds', async () => {
    const [admitted] = decisions()
    expect(headersFor(await admitted!, { headers: 'github' })).toMatchObject({
      'x-ratelimit-reset': String(NOW / 1000 + 60),
    })
  })

  test('returns none when headers are off, and when the store did not answer', () => {
    expect(headersFor(D1, { headers: false })).toEqual({})
    expect(headersFor(decide([], 'open'))).toEqual({})
  })

  test('refuses unknown and wrong options', () => {
    expect(codeOf(() => headersFor(D1, { header: 'legacy' } as never))).toBe('UNKNOWN_OPTION')
    expect(codeOf(() => headersFor(D1, { headers: 'draft-5' as never }))).toBe('INVALID_OPTION')
  })
})

describe('problemFor', () => {
  test('returns the whole response of an adapter', async () => {
    const [, denied] = decisions()
    const { status: code, headers, body } = problemFor(await denied!)
    expect([code, body]).toEqual([429, denial(await denied!).body])
    expect(headers).toEqual({
      RateLimit: '"once";r=0;t=60',
      'RateLimit-Policy': '"once";q=1;w=60',
      'Retry-After': '60',
      'Cache-Control': 'no-store',
      Vary: 'Accept',
      'Content-Type': 'application/problem+json',
    })
  })

  test('has retry-after-ms in the styles of language models, as headersFor has', () => {
    for (const headers of ['openai', 'anthropic', ['standard', 'openai']] as const) {
      expect(problemFor(D1, { headers }).headers).toEqual({
        ...written(headers, D1, {}, Date.now()),
        ...headersFor(D1, { headers }),
        'retry-after-ms': '12200',
        'Retry-After': '13',
        'Cache-Control': 'no-store',
        Vary: 'Accept',
        'Content-Type': 'application/problem+json',
      })
      expect(headersFor(D1, { headers })['retry-after-ms']).toBe('12200')
      expect(headersFor(A2, { headers })['retry-after-ms']).toBeUndefined()
    }
    expect(headersFor(D1)['retry-after-ms'] ?? problemFor(D1).headers['retry-after-ms']).toBeUndefined()
    const outage = decide([], 'closed')
    const closed = { ...outage, allowed: false, retryAfter: Infinity }
    expect(headersFor(closed, { headers: 'openai' })).toEqual({})
    expect(problemFor(closed, { headers: 'openai' }).headers).toMatchObject({
      'Retry-After': '1',
      'retry-after-ms': '1000',
    })
  })

  test('has the given status', () => {
    const { status: code, body } = problemFor(D1, { statusCode: 403 })
    expect([code, JSON.parse(body)]).toEqual([403, expect.objectContaining({ status: 403 })])
    expect(() => problemFor(D1, { statusCode: 200 })).toThrow(/^statusCode: expected a whole number from 400 to 599/)
  })

  test('respects the request and the style of the headers', () => {
    const { headers, body } = problemFor(D2, { accept: 'text/plain', headers: 'legacy' })
    expect(headers).toMatchObject({ ...written('legacy', D2), 'Content-Type': 'text/plain; charset=utf-8' })
    expect(body).toBe('You can send 10 requests per second. Try again in 1 second.\n')
    expect(problemFor(D2, { method: 'HEAD' }).body).toBe('')
  })

  test('returns 503 when the store did not answer and the limiter is closed', () => {
    const closed = decide([status(perMinute(1), { allowed: false, retryAfter: Infinity })], 'closed')
    expect(problemFor(closed)).toMatchObject({ status: 503, headers: { 'Retry-After': '1' } })
  })

  test('refuses the decision of an admitted request, and unknown options', () => {
    expect(() => problemFor(A2)).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
    expect(codeOf(() => problemFor(D1, { headres: false } as never))).toBe('UNKNOWN_OPTION')
  })
})
