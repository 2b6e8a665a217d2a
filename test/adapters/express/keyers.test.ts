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
import { ask, serveForTest, warningsOf } from '../../support/http.ts'
import { lefts, ok, times, versions } from './app.ts'

/** Options that note the key of each request. */
const noting = (keys: (string | undefined)[]): Pick<RateLimitOptions, 'onDecision'> => ({
  onDecision: ({ limits }) => void keys.push(limits[0]?.key),
})

/** Returns the warnings of requests with these headers. */
async function codesOf(app: Express, sent: readonly object[], path = '/'): Promise<readonly string[]> {
  const server = await serveForTest(app)
  return warningsOf(async () => {
    for (const headers of sent) await ask(server, path, { headers: headers as Record<string, string> })
  })
}

const forwarded = { 'x-forwarded-for': '203.0.113.9' }

describe.each(versions)('%s', (_version, express) => {
  test('byRoute returns the pattern of the route, and never the path', async () => {
    const app = express()
    const limit = rateLimit(times(9, { keyer: byRoute }))
    app.get('/users/:id', limit, ok)
    app.all('/any/:id', limit, ok)
    app.use(limit, ok)
    const server = await serveForTest(app)
    expect(
      await lefts(server, '/users/1', '/users/2', 'HEAD /users/3', '/any/1', 'POST /any/2', '/no/1', 'POST /no/2'),
    ).toBe('8 7 6 8 7 8 7')
  })

  test('byRoute returns one key before routing, with one warning for each app', async () => {
    const keys: string[] = []
    for (let count = 0; count < 2; count++) {
      const app = express().use(rateLimit(times(9, { keyer: byRoute, ...noting(keys) })))
      const each = await serveForTest(app.get('/users/:id', ok))
      const codes = await warningsOf(async () => {
        for (const path of ['/users/1', '/nowhere']) await ask(each, path)
      })
      expect([keys.splice(0), codes]).toEqual([['no route', 'no route'], ['SLUICE_NO_ROUTE']])
    }
  })

  test('byRoute warns in a limit that is mounted with use, also after a route that has called next', async () => {
    const codesAt = (app: Express): Promise<readonly string[]> => codesOf(app, [{}], '/users/1')
    const next: RequestHandler = (_request, _response, goOn) => goOn()
    const limit = (): RateLimit => rateLimit(times(9, { keyer: keyers(byIP, byRoute) }))
    const inRouter = express.Router().use(limit()).get('/users/:id', ok)
    expect(await codesAt(express().all(/.*/, next).use(limit()).get('/users/:id', ok))).toEqual(['SLUICE_NO_ROUTE'])
    expect(await codesAt(express().get(/.*/, next).use(inRouter))).toEqual(['SLUICE_NO_ROUTE'])
    expect(await codesAt(express().all(/.*/, next).get('/users/:id', limit(), ok))).toEqual([])
    const other = rateLimit(times(9, { keyer: byIP }))
    expect(await codesAt(express().all(/.*/, next).use(other).get('/users/:id', ok))).toEqual([])
  })

  test('byRoute distinguishes the routes of different routers and apps, wherever they are mounted', async () => {
    const keys: string[] = []
    const limit = rateLimit(times(99, { keyer: byRoute, ...noting(keys) }))
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
      const keys: string[] = []
      const app = express().set('trust proxy', trust)
      app.use(rateLimit(times(9, { keyer: ipKeyer(), ...noting(keys) })), ok)
      expect([String(trust), await codesOf(app, [forwarded, forwarded])]).toEqual([String(trust), codes])
      expect(keys).toEqual([address, address])
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
      const app = express().set('trust proxy', trust)
      prepare(app)
      app.use(rateLimit(times(9, { keyer: ipKeyer() })), ok)
      const headers = { ...forwarded, 'cf-connecting-ip': '198.51.100.7' }
      expect([trust, await codesOf(app, [headers, headers, { forwarded: 'for=203.0.113.9' }])]).toEqual([trust, []])
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
    expect(await codesOf(app, [forwarded])).toEqual(['SLUICE_PROXY_UNTRUSTED'])
  })

  test('ipKeyer does not warn of trust where the app sets the address of its first request', async () => {
    const app = express().set('trust proxy', true)
    app.use((request, _, next) => {
      const value = request.get('cf-connecting-ip')
      if (value !== undefined) Object.defineProperty(request, 'ip', { value })
      next()
    })
    app.use(rateLimit(times(9, { keyer: ipKeyer() })), ok)
    expect(await codesOf(app, [{ 'cf-connecting-ip': '198.51.100.7' }, {}])).toEqual([])
  })

  test('ipKeyer warns once for each app', async () => {
    const keyer = ipKeyer()
    const apps = [express(), express()]
    for (const app of apps) app.use(rateLimit(times(9, { keyer })), ok)
    const servers = [await serveForTest(apps[0]!), await serveForTest(apps[1]!)]
    const codes = await warningsOf(async () => {
      for (const each of [...servers, ...servers, ...servers]) await ask(each, '/', { headers: forwarded })
    })
    expect(codes).toEqual(['SLUICE_PROXY_UNTRUSTED', 'SLUICE_PROXY_UNTRUSTED'])
  })

  test('byIP returns undefined for a closed socket, and outside of an app', () => {
    const gone = { ip: undefined, headers: {}, app: express() } as unknown as Request
    expect(byIP(gone)).toBeUndefined()
    expect(byIP({ headers: forwarded } as unknown as Request)).toBeUndefined()
  })
})
