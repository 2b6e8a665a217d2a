import { expect, test } from 'vitest'
import { headerKeyer, routeKey } from '../../../src/http/keys/request-keyers.ts'

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
