import type { Express, Request, RequestHandler, Router } from 'express'
import { describe, expect, test } from 'vitest'
import {
  byIP,
  byRoute,
  ipKeyer,
  type RateLimit,
  rateLimit,
  type RateLimitOptions,
} from '../../../adapters/express/index.ts'
import { keyers } from '../../../src/limiter/keyers.ts'
import { ask, serve, warningsOf, serveForTest } from '../../support/http.ts'
import { left, ok, times, versions } from './app.ts'

describe.each(versions)('%s', (_version, express) => {
  test('byRoute returns the pattern of the route, and never the path', async () => {
    const app = express()
    const limit = rateLimit(times(9, { keyer: byRoute }))
    app.get('/users/:id', limit, ok)
    app.all('/any/:id', limit, ok)
    app.use(limit, ok)
    const server = await serveForTest(app)
    expect([
      await left(server, '/users/1'),
      await left(server, '/users/2'),
      await left(server, '/users/3', 'HEAD'),
    ]).toEqual(['8', '7', '6'])
    expect([await left(server, '/any/1'), await left(server, '/any/2', 'POST')]).toEqual(['8', '7'])
    expect([await left(server, '/no/1'), await left(server, '/no/2', 'POST')]).toEqual(['8', '7'])
  })

  test('byRoute returns one key before routing, with one warning for each app', async () => {
    const keys: string[] = []
    const onDecision: RateLimitOptions['onDecision'] = ({ limits }) => void keys.push(limits[0]!.key)
    for (let count = 0; count < 2; count++) {
      const app = express().use(rateLimit(times(9, { keyer: byRoute, onDecision })))
      const each = await serveForTest(app.get('/users/:id', ok))
      const codes = await warningsOf(async () => {
        for (const path of ['/users/1', '/nowhere']) await ask(each, path)
      })
      expect([keys.splice(0), codes]).toEqual([['no route', 'no route'], ['SLUICE_NO_ROUTE']])
    }
  })

  test('byRoute warns in a limit that is mounted with use, also after a route that has called next', async () => {
    const codesOf = async (app: Express): Promise<readonly string[]> => {
      const each = await serveForTest(app)
      const codes = await warningsOf(() => ask(each, '/users/1'))
      return codes
    }
    const next: RequestHandler = (_request, _response, goOn) => goOn()
    const limit = (): RateLimit => rateLimit(times(9, { keyer: keyers(byIP, byRoute) }))
    const inRouter = express.Router().use(limit()).get('/users/:id', ok)
    expect(await codesOf(express().all(/.*/, next).use(limit()).get('/users/:id', ok))).toEqual(['SLUICE_NO_ROUTE'])
    expect(await codesOf(express().get(/.*/, next).use(inRouter))).toEqual(['SLUICE_NO_ROUTE'])
    expect(await codesOf(express().all(/.*/, next).get('/users/:id', limit(), ok))).toEqual([])
    const other = rateLimit(times(9, { keyer: byIP }))
    expect(await codesOf(express().all(/.*/, next).use(other).get('/users/:id', ok))).toEqual([])
  })

  test('byRoute distinguishes the routes of different routers and apps, wherever they are mounted', async () => {
    const keys: string[] = []
    const onDecision: RateLimitOptions['onDecision'] = ({ limits }) => void keys.push(limits[0]!.key)
    const limit = rateLimit(times(99, { keyer: byRoute, onDecision }))
    const routerOf = (...inner: [string, Router][]): Router => {
      const router = express.Router({ mergeParams: true }) as Router
      for (const each of inner) router.use(...each)
      return router.get('/:id', limit, ok)
    }
    const recursive = routerOf()
    recursive.use('/again', recursive)
    const admin = express()
    admin.get('/:id', limit, ok).use('/logs', routerOf())
    const users = routerOf()
    const app = express()
    app.use((_request, _response, next) => next())
    app.use('/users', users).use('/people', users)
    app.use('/shops/:shop', routerOf(['/orders', recursive], ['/carts', routerOf()])).use('/admin', admin)
    app.get('/:id', limit, ok)
    const hidden = routerOf()
    app.use('/hidden', (request, response, next) => hidden(request, response, next))
    const server = await serveForTest(app)
    const keyAt = async (path: string): Promise<string | undefined> => {
      expect((await ask(server, path)).status).toBe(200)
      return keys.pop()
    }
    const table = {
      '/1': 'GET /:id',
      '/users/1': 'GET /:id of router 1',
      '/people/1': 'GET /:id of router 1',
      '/shops/1/2': 'GET /:id of router 3',
      '/shops/3/orders/1': 'GET /:id of router 3.1',
      '/shops/3/orders/again/2': 'GET /:id of router 3.1',
      '/shops/4/carts/1': 'GET /:id of router 3.2',
      '/admin/1': 'GET /:id of /admin',
      '/admin/logs/1': 'GET /:id of /admin, router 1',
      '/hidden/1': 'GET /:id of router out of sight',
    }
    for (const [path, key] of Object.entries(table)) expect([path, await keyAt(path)]).toEqual([path, key])
    for (const [path, key] of Object.entries(table)) expect([path, await keyAt(path)]).toEqual([path, key])
  })

  test('ipKeyer depends on `trust proxy`, and warns when it trusts every proxy', async () => {
    const settings: [unknown, string, string[]][] = [
      [true, '203.0.113.9', ['SLUICE_PROXY_TRUSTS_ALL']],
      [1, '203.0.113.9', []],
      ['loopback', '203.0.113.9', []],
      [() => true, '203.0.113.9', ['SLUICE_PROXY_TRUSTS_ALL']],
      ['10.0.0.0/8', '127.0.0.1', []],
      [false, '127.0.0.1', ['SLUICE_PROXY_UNTRUSTED']],
    ]
    for (const [trust, address, codes] of settings) {
      let key: string | undefined
      const app = express()
      app.set('trust proxy', trust)
      const onDecision: RateLimitOptions['onDecision'] = (decision) => void (key = decision.limits[0]?.key)
      app.use(rateLimit(times(9, { keyer: ipKeyer(), onDecision })), ok)
      const each = await serveForTest(app)
      const headers = { 'x-forwarded-for': '203.0.113.9' }
      const askTwice = async (): Promise<void> => {
        await ask(each, '/', { headers })
        await ask(each, '/', { headers })
      }
      expect([String(trust), await warningsOf(askTwice)]).toEqual([String(trust), codes])
      expect(key).toBe(address)
    }
  })

  test.each([
    [
      'on each request',
      [false, true, 1],
      (app: Express) =>
        void app.use((request, _, next) => {
          const value = request.get('cf-connecting-ip') ?? request.socket.remoteAddress
          Object.defineProperty(request, 'ip', { value })
          next()
        }),
    ],
    [
      'on the prototype',
      [false, true, 1],
      (app: Express) => void Object.defineProperty(app.request, 'ip', { get: () => '198.51.100.7' }),
    ],
    [
      'by the socket, as for the PROXY protocol',
      [false],
      (app: Express) =>
        void app.use(({ socket }, _, next) => {
          Object.defineProperty(socket, 'remoteAddress', { value: '198.51.100.7', configurable: true })
          next()
        }),
    ],
  ])('ipKeyer does not warn where the app sets the address itself, %s', async (_, trusts, prepare) => {
    for (const trust of trusts) {
      const app = express()
      app.set('trust proxy', trust)
      prepare(app)
      app.use(rateLimit(times(9, { keyer: ipKeyer() })), ok)
      const each = await serveForTest(app)
      const headers = { 'x-forwarded-for': '203.0.113.9', 'cf-connecting-ip': '198.51.100.7' }
      const codes = await warningsOf(async () => {
        for (const sent of [headers, headers, { forwarded: 'for=203.0.113.9' }]) await ask(each, '/', { headers: sent })
      })
      expect([trust, codes]).toEqual([trust, []])
    }
  })

  test('ipKeyer still warns where the app reads `request.ip`, or tries to set it without effect', async () => {
    const app = express()
    app.use((request, _, next) => {
      // There is only a getter.
      Reflect.set(request, 'ip', request.ip)
      next()
    })
    app.use(rateLimit(times(9, { keyer: ipKeyer() })), ok)
    const each = await serveForTest(app)
    const headers = { 'x-forwarded-for': '203.0.113.9' }
    expect(await warningsOf(() => ask(each, '/', { headers }))).toEqual(['SLUICE_PROXY_UNTRUSTED'])
  })

  test('ipKeyer does not warn of trust where the app sets the address of its first request', async () => {
    const app = express().set('trust proxy', true)
    app.use((request, _, next) => {
      const value = request.get('cf-connecting-ip')
      if (value !== undefined) Object.defineProperty(request, 'ip', { value })
      next()
    })
    app.use(rateLimit(times(9, { keyer: ipKeyer() })), ok)
    const each = await serveForTest(app)
    const codes = await warningsOf(async () => {
      for (const headers of [{ 'cf-connecting-ip': '198.51.100.7' }, {}]) await ask(each, '/', { headers })
    })
    expect(codes).toEqual([])
  })

  test('ipKeyer warns once for each app', async () => {
    const keyer = ipKeyer()
    const apps = [express(), express()]
    for (const app of apps) app.use(rateLimit(times(9, { keyer })), ok)
    const servers = [await serve(apps[0]!), await serve(apps[1]!)]
    const headers = { 'x-forwarded-for': '203.0.113.9' }
    const codes = await warningsOf(async () => {
      for (const each of [...servers, ...servers, ...servers]) await ask(each, '/', { headers })
    })
    expect(codes).toEqual(['SLUICE_PROXY_UNTRUSTED', 'SLUICE_PROXY_UNTRUSTED'])
  })

  test('byIP returns undefined for a closed socket, and outside of an app', () => {
    const gone = { ip: undefined, headers: {}, app: express() } as unknown as Request
    expect(byIP(gone)).toBeUndefined()
    expect(byIP({ headers: { 'x-forwarded-for': '203.0.113.9' } } as unknown as Request)).toBeUndefined()
  })
})
