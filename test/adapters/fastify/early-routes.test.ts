import Fastify, { type FastifyInstance } from 'fastify'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { everyone, fixedWindow } from '../../../src/index.ts'
import { warningsOf } from '../../support/http.ts'

// As with `const app = require('fastify')()` before `require('sluice/fastify')`: the package is loaded after the app is created.
const app = Fastify()
const nested = Fastify()
const late = Fastify()
const handler = async (): Promise<string> => 'ok'
const times = (quota: number): { keyer: typeof everyone; limits: ReturnType<typeof fixedWindow> } => ({
  keyer: everyone,
  limits: fixedWindow({ quota, window: '1h' }),
})

const once = times(1)
const version = (version: string): { constraints: { version: string } } => ({ constraints: { version } })

beforeAll(async () => {
  const { rateLimit } = await import('../../../adapters/fastify/index.ts')
  app.get('/before', { config: { rateLimit: once } }, handler)
  app.get('/both', { ...version('1.0.0'), config: { rateLimit: times(2) } }, handler)
  app.register(async (scope) => void scope.get('/', { config: { rateLimit: times(4) } }, handler), { prefix: '/users' })
  app.get('/body', { config: { rateLimit: { ...times(1), hook: 'preHandler' } } }, handler)
  app.get('/wrong', { config: { rateLimit: { ...once, max: 3 } as never } }, handler)
  app.get('/free', { config: { rateLimit: false } }, handler)
  await app.register(rateLimit, times(2))
  app.get('/after', { config: { rateLimit: once } }, handler)
  app.post('/before', { config: { rateLimit: once } }, handler)
  app.get('/both', { ...version('2.0.0'), config: { rateLimit: once } }, handler)
  app.get('/', handler)
  nested.register(async (scope) => {
    await scope.register(rateLimit, times(9))
    scope.get('/', { config: { rateLimit: times(2) } }, handler)
  })
  nested.register(rateLimit, times(9))
  late.get('/', handler)
  late.register(rateLimit, { ...times(2), hook: 'preHandler' })
})
afterAll(async () => {
  await app.close()
  await nested.close()
  await late.close()
})

async function statuses(url: string, count: number, headers = {}, of: FastifyInstance = app): Promise<number[]> {
  const seen: number[] = []
  for (let i = 0; i < count; i++) seen.push((await of.inject({ url, headers })).statusCode)
  return seen
}

test('limits a route by its own limit that was declared before the package was loaded', async () => {
  expect(await statuses('/before', 3)).toEqual([200, 429, 429])
})

test('counts such a route, its HEAD route and its path with a slash together', async () => {
  for (const url of ['/users', '/users/']) {
    for (const method of ['GET', 'HEAD'] as const) expect((await app.inject({ url, method })).statusCode).toBe(200)
  }
  expect(await statuses('/users', 1)).toEqual([429])
})

test('limits later routes by their own limit, also at the same path', async () => {
  expect(await statuses('/after', 3)).toEqual([200, 429, 429])
  expect(await statuses('/both', 3, { 'accept-version': '1.0.0' })).toEqual([200, 200, 429])
  expect(await statuses('/both', 3, { 'accept-version': '2.0.0' })).toEqual([200, 429, 429])
})

test('counts a route once that only the inner one of two scopes has seen', async () => {
  expect(await statuses('/', 3, {}, nested)).toEqual([200, 200, 429])
})

test('limits all other routes by the limit of the scope', async () => {
  expect(await statuses('/', 3)).toEqual([200, 200, 429])
  expect(await statuses('/free', 3)).toEqual([200, 200, 200])
})

test('limits routes before their own hooks with hook: preHandler, and warns once', async () => {
  const codes = await warningsOf(async () => expect(await statuses('/', 3, {}, late)).toEqual([200, 200, 429]))
  expect(codes).toEqual(['SLUICE_EARLY_ROUTE'])
})

test('admits no request when a limit can no longer be applied', async () => {
  const { statusCode, body } = await app.inject('/body')
  expect(statusCode).toBe(500)
  expect(body).toContain('NOT_APPLICABLE')
  expect((await app.inject('/wrong')).json()).toMatchObject({
    code: 'UNKNOWN_OPTION',
    message: expect.stringContaining('GET "/wrong"') as string,
  })
})
