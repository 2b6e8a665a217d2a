import { type Context, Hono } from 'hono'
import { describe, expect, test } from 'vitest'
import { byIP, byRoute, ipKeyer, rateLimit, routeKeyer } from '../../../adapters/hono/index.ts'
import { afterTest } from '../../support/after-test.ts'
import { ask, warningsOf } from '../../support/http.ts'
import { serveFetch } from '../web-frameworks.ts'
import { left, times } from './app.ts'

test('bindings of another runtime with the names of Node ones are no request of Node', async () => {
  for (const env of [
    { incoming: { send: () => undefined } },
    { server: 'eu-1' },
    { server: { incoming: null } },
    { incoming: { socket: {} } },
  ]) {
    const app = new Hono()
    app.use(rateLimit(times(1, { keyer: byIP })))
    app.get('/', (context) => context.text('ok'))
    const statuses = [(await app.request('/', {}, env)).status, (await app.request('/', {}, env)).status]
    expect(statuses).toEqual([200, 429])
  }
})

test('byRoute returns the pattern of the route', async () => {
  const app = new Hono()
  const limit = rateLimit(times(9, { keyer: byRoute }))
  app.get('/users/:id', limit, (context) => context.text('ok'))
  app.all('/any/:id', limit, (context) => context.text('ok'))
  expect([await left(app, '/users/1'), await left(app, '/users/2')]).toEqual(['8', '7'])
  expect([await left(app, '/any/1'), await left(app, '/any/2', 'POST')]).toEqual(['8', '7'])
})

test('byRoute returns the route that follows, in the middleware of an app or a path', async () => {
  const app = new Hono()
  const keys: string[] = []
  app.use(rateLimit(times(99, { keyer: byRoute, onDecision: ({ limits }) => void keys.push(limits[0]!.key) })))
  app.use('/api/*', (_context, next) => next())
  app.get('/api/users/:id', (context) => context.text('ok'))
  app.all('/any/:id', (context) => context.text('ok'))
  app.get('/files/*', (context) => context.text('ok'))
  for (const path of ['/api/users/1', '/api/users/2', '/any/1', '/files/a/b', '/nowhere/1', '/nowhere/2'])
    await app.request(path)
  await app.request('/any/1', { method: 'POST' })
  expect(keys).toEqual([
    'GET /api/users/:id',
    'GET /api/users/:id',
    'ALL /any/:id',
    'GET /files/*',
    'ALL /*',
    'ALL /*',
    'ALL /any/:id',
  ])
})

test('byRoute returns the route of its own with a wildcard', async () => {
  const app = new Hono()
  const limit = rateLimit(times(9, { keyer: byRoute }))
  app.all('/files/*', limit, (context) => context.text('ok'))
  app.get('/files/*', (context) => context.text('ok'))
  expect([await left(app, '/files/1'), await left(app, '/files/2')]).toEqual(['8', '7'])
})

test('byRoute counts each method and each path of `app.on` separately', async () => {
  const app = new Hono()
  const limit = rateLimit(times(9, { keyer: byRoute }))
  app.on(['GET', 'POST'], ['/a', '/b'], limit, (context) => context.text('ok'))
  expect([await left(app, '/a'), await left(app, '/a', 'POST'), await left(app, '/b')]).toEqual(['8', '8', '8'])
  expect(await left(app, '/a')).toBe('7')
})

describe('routeKeyer', () => {
  const keysOf = async (
    app: Hono,
    requests: readonly (readonly [method: string, path: string])[],
  ): Promise<string[]> => {
    const keys: string[] = []
    for (const [method, path] of requests) keys.push(await (await app.request(path, { method })).text())
    return keys
  }
  const key = (context: Context): Response => context.text(context.get('rateLimit')!.binding!.key)

  test('counts all methods and paths of one `app.on` together, in a route and in a middleware', async () => {
    const own = new Hono()
    const limit = rateLimit(times(9, { keyer: routeKeyer(own) }))
    own.on(['GET', 'POST'], ['/a', '/b'], limit, (context) => key(context))
    own.get('/c', limit, (context) => key(context))
    const wide = new Hono()
    wide.use(rateLimit(times(9, { keyer: routeKeyer(wide) })))
    wide.on(['GET', 'POST'], ['/a', '/b'], (context) => key(context))
    wide.get('/c', (context) => key(context))
    const requests = [
      ['GET', '/a'],
      ['POST', '/a'],
      ['GET', '/b'],
      ['POST', '/b'],
      ['GET', '/c'],
    ] as const
    const together = 'GET,POST /a,/b'
    for (const app of [own, wide])
      expect(await keysOf(app, requests)).toEqual([together, together, together, together, 'GET /c'])
  })

  test('sees routes that are declared after the first request, and of mounted apps', async () => {
    const app = new Hono()
    app.use(rateLimit(times(9, { keyer: routeKeyer(app) })))
    app.get('/first', (context) => key(context))
    expect(await keysOf(app, [['GET', '/first']])).toEqual(['GET /first'])
    const late = new Hono()
    late.use(rateLimit(times(9, { keyer: routeKeyer(late) })))
    late.route(
      '/sub',
      new Hono().on(['GET', 'PUT'], '/x', (context) => key(context)),
    )
    expect(
      await keysOf(late, [
        ['GET', '/sub/x'],
        ['PUT', '/sub/x'],
      ]),
    ).toEqual(['GET,PUT /sub/x', 'GET,PUT /sub/x'])
  })

  test('refuses a value that is not an app', () => {
    expect(() => routeKeyer(byRoute as never)).toThrow('a Hono app')
  })
})

describe('ipKeyer', () => {
  const key = async (app: Hono, headers: Record<string, string> = {}): Promise<string> => {
    app.get('/', (context) => context.text(context.get('rateLimit')!.binding!.key))
    const server = await serveFetch(app.fetch as never)
    afterTest(() => server.close())
    return (await ask(server, '/', { headers })).body
  }

  test('uses the address of the socket on Node, also in another environment with a server', () => {
    const incoming = { socket: { remoteAddress: '203.0.113.9' } }
    for (const env of [{ incoming }, { server: { incoming } }, { incoming, server: 'eu-1' }]) {
      expect(byIP({ env, req: { header: () => undefined } } as unknown as Context)).toBe('203.0.113.9')
    }
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
