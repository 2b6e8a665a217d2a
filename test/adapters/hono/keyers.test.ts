import { type Context, Hono } from 'hono'
import { afterEach, describe, expect, test } from 'vitest'
import { byIP, byRoute, ipKeyer, rateLimit, type RateLimitOptions } from '../../../adapters/hono/index.ts'
import { everyone } from '../../../src/limiter/keyers.ts'
import { fixedWindow } from '../../../src/limits/factories.ts'
import type { Served } from '../../../src/testing.ts'
import { ask, warningsOf } from '../../support/http.ts'
import { serveFetch } from '../web-frameworks.ts'

let server: Served | undefined
afterEach(async () => {
  await server?.close()
  server = undefined
})

const times = (quota: number, options: Partial<RateLimitOptions> = {}): RateLimitOptions =>
  ({ keyer: everyone, limits: fixedWindow({ quota, window: '1h' }), ...options }) as RateLimitOptions

async function left(app: Hono, path = '/', method = 'GET'): Promise<string> {
  const { status, headers } = await app.request(path, { method })
  return status === 429 ? '!' : (/;r=(\d+)/.exec(headers.get('ratelimit') ?? '')?.[1] ?? '')
}

test('byRoute returns the pattern of the route', async () => {
  const app = new Hono()
  const limit = rateLimit(times(9, { keyer: byRoute }))
  app.get('/users/:id', limit, (context) => context.text('ok'))
  app.all('/any/:id', limit, (context) => context.text('ok'))
  expect([await left(app, '/users/1'), await left(app, '/users/2')]).toEqual(['8', '7'])
  expect([await left(app, '/any/1'), await left(app, '/any/2', 'POST')]).toEqual(['8', '7'])
})

describe('ipKeyer', () => {
  const key = async (app: Hono, headers: Record<string, string> = {}): Promise<string> => {
    app.get('/', (context) => context.text(context.get('rateLimit')!.binding!.key))
    server = await serveFetch(app.fetch as never)
    return (await ask(server, '/', { headers })).body
  }

  test('uses the address of the socket on Node, also in another environment with a server', () => {
    const incoming = { socket: { remoteAddress: '203.0.113.9' } }
    for (const env of [{ incoming }, { server: { incoming } }, { incoming, server: 'eu-1' }]) {
      expect(byIP({ env, req: { header: () => undefined } } as unknown as Context)).toBe('203.0.113.9')
    }
  })

  test('uses the address of the socket on Node', async () => {
    const app = new Hono().use(rateLimit(times(9, { keyer: byIP }))) as Hono
    expect(await key(app)).toBe('127.0.0.1')
  })

  test('uses the address option, without a warning', async () => {
    const keyer = ipKeyer({ address: (context) => context.req.header('x-real-ip'), ipv6Subnet: 64 })
    const app = new Hono().use(rateLimit(times(9, { keyer }))) as Hono
    const headers = { 'x-real-ip': '2001:db8:1:2::3', 'x-forwarded-for': '203.0.113.9' }
    const codes = await warningsOf(async () => expect(await key(app, headers)).toBe('2001:db8:1:2::/64'))
    expect(codes).toEqual([])
  })

  test('returns undefined without a socket', () => {
    expect(byIP({ env: undefined, req: { header: () => undefined } } as unknown as Context)).toBeUndefined()
    expect(() => ipKeyer({ address: 'x-real-ip' as never })).toThrow(/address/)
  })
})
