import { METHODS } from 'node:http'
import { describe, expect, it, test } from 'vitest'
import { headerKeyer, methodKey, routeKey } from '../../../src/http/keys/request-keyers.ts'

test('routeKey contains each method once, with HEAD as GET, and no path without a route', () => {
  expect(routeKey('POST', '/users/:id')).toBe('POST /users/:id')
  expect(routeKey(['HEAD', 'GET', 'PUT'], '/users/:id')).toBe('GET,PUT /users/:id')
  expect(routeKey('GET', /^\/users$/)).toBe('GET /^\\/users$/')
  expect(routeKey('GET', undefined)).toBe(routeKey('POST', undefined))
})

test('headerKeyer reads a header by its lower-case name, and refuses an invalid name', () => {
  const byHeader = (name: unknown): unknown => headerKeyer((request: string, name) => request + name, name as string)
  expect((byHeader('X-User') as (request: string) => string)('a ')).toBe('a x-user')
  for (const name of [undefined, '', 'X Y', 'x-user\r\n', { headers: {} }]) {
    expect(() => byHeader(name)).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }) as Error)
  }
})

describe('methodKey', () => {
  it('returns every method that Node accepts in HTTP/1', () => {
    for (const method of METHODS) expect(methodKey(method)).toBe(method)
    expect([methodKey(undefined), methodKey('')]).toEqual([undefined, ''])
  })

  it('returns one key for all spellings of a method, and one for all unknown ones', () => {
    expect(['get', 'gEt', 'GET'].map(methodKey)).toEqual(['GET', 'GET', 'GET'])
    expect(['A1', 'A2', 'constructor'].map(methodKey)).toEqual(['other', 'other', 'other'])
  })
})
