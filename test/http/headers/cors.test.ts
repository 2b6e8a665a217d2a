import { describe, expect, test } from 'vitest'
import { isPreflight, withNames } from '../../../src/http/headers/cors.ts'

describe('CORS', () => {
  const names = ['Retry-After', 'RateLimit', 'RateLimit-Policy']

  test.each([
    ['X-Foo', 'X-Foo, Retry-After, RateLimit, RateLimit-Policy'],
    ['', 'Retry-After, RateLimit, RateLimit-Policy'],
    ['x-foo,ratelimit , RETRY-AFTER', 'x-foo, ratelimit, RETRY-AFTER, RateLimit-Policy'],
    ['*', '*'],
    [' * ', ' * '],
    [', ,X-Foo,', 'X-Foo, Retry-After, RateLimit, RateLimit-Policy'],
  ])('turns %o into %o', (existing, merged) => {
    expect(withNames(existing, names)).toBe(merged)
    expect(withNames(merged, names)).toBe(merged)
  })

  test('recognizes a preflight by OPTIONS and two headers', () => {
    const both: Record<string, string> = { origin: 'https://a.example', 'access-control-request-method': 'PUT' }
    const having = (headers: Record<string, string>) => (name: string) => headers[name]
    expect(isPreflight('OPTIONS', having(both))).toBe(true)
    expect(isPreflight('GET', having(both))).toBe(false)
    expect(isPreflight('OPTIONS', having({ ...both, upgrade: 'websocket' }))).toBe(false)
    expect(isPreflight(undefined, having(both))).toBe(false)
    expect(isPreflight('OPTIONS', having({ origin: 'x' }))).toBe(false)
    expect(isPreflight('OPTIONS', having({ 'access-control-request-method': 'PUT' }))).toBe(false)
  })
})
