import { METHODS } from 'node:http'
import { Router, type RouterMiddleware } from '@koa/router'
import type Koa3 from 'koa'
import type { Context, Middleware } from 'koa'
import { describe, expect, test } from 'vitest'
import { byIP, byRoute, ipKeyer, rateLimit, type RateLimitOptions } from '../../../adapters/koa/index.ts'
import { keyers } from '../../../src/limiter/keyers.ts'
import { ask, type Served, warningsOf } from '../../support/http.ts'
import { answer, serveApp, times, versions } from './app.ts'

/** Returns the warnings of requests with these headers. */
const codesOf = (server: Served, ...sent: readonly Record<string, string>[]): Promise<readonly string[]> =>
  warningsOf(async () => {
    for (const headers of sent) await ask(server, '/', { headers })
  })

describe.each(versions)('%s', (_version, Koa) => {
  describe('byRoute', () => {
    /** Returns the keys of requests with `byRoute`. */
    async function keysOf(make: (limit: Middleware) => Middleware): Promise<(...asked: string[]) => Promise<string[]>> {
      let keys: string[] = []
      const onDecision: RateLimitOptions['onDecision'] = ({ limits }) => void keys.push(limits[0]!.key)
      const server = await serveApp(new Koa(), make(rateLimit(times(999, { keyer: byRoute, onDecision }))))
      return async (...asked) => {
        keys = []
        for (const each of asked) {
          const [method, path] = each.split(' ') as [string, string]
          await ask(server, path, { method })
        }
        return keys
      }
    }

    test('returns the method and the pattern, with HEAD as GET, and never the path', async () => {
      const keys = await keysOf((limit) => {
        const router = new Router().get('/users/us', (_context, next) => next())
        router.get('/users/me', limit, () => {}).get('/users/:id', limit, () => {})
        return router.post('/users/:id', limit, () => {}).routes() as Middleware
      })
      expect(await keys('GET /users/us', 'HEAD /users/2', 'GET /users/me', 'POST /users/me')).toEqual([
        'GET /users/:id',
        'GET /users/:id',
        'GET /users/me',
        'POST /users/:id',
      ])
    })

    test('counts all methods of a route together, since the client can choose any of them', async () => {
      const keys = await keysOf((limit) => {
        const router = new Router().all('/any/:id', limit)
        router.register('/some', ['GET', 'PUT'], limit as RouterMiddleware)
        return router.routes() as Middleware
      })
      const methods = METHODS.filter((method) => method !== 'CONNECT')
      expect(new Set(await keys(...methods.map((method) => `${method} /any/1`)))).toEqual(new Set(['ALL /any/:id']))
      expect(await keys('GET /some', 'HEAD /some', 'PUT /some')).toEqual(Array(3).fill('GET,PUT /some'))
    })

    test('returns the route that will answer in the middleware of its router, and of a router around it', async () => {
      const keys = await keysOf((limit) => {
        const orders = new Router({ prefix: '/orders' }).get('/:id', () => {})
        const shops = new Router().use(limit).get('/shops/:id', () => {})
        return shops.use('/shops', orders.routes()).routes() as Middleware
      })
      expect(await keys('GET /shops/1', 'GET /shops/orders/2')).toEqual(['GET /shops/:id', 'GET /shops/orders/:id'])
    })

    test('returns the route in the middleware of its router, also with later middlewares', async () => {
      const keys = await keysOf((limit) => {
        const router = new Router()
          .use(limit)
          .all('/login', () => {})
          .get('/public/:id', () => {})
        return router
          .use((_context, next) => next())
          .get('/private', () => {})
          .routes() as Middleware
      })
      expect(await keys('POST /login', 'PUT /login', 'GET /public/1', 'GET /private')).toEqual([
        'ALL /login',
        'ALL /login',
        'GET /public/:id',
        'GET /private',
      ])
    })

    test('returns the route of that router, and not one of an earlier router that called next', async () => {
      const keys = await keysOf((limit) => {
        const passing = new Router().get('/users/:any', (_context, next) => next())
        const answering = new Router().use(limit).get('/users/:id', () => {})
        return new Router().use(passing.routes(), answering.routes()).routes() as Middleware
      })
      expect(await keys('GET /users/1')).toEqual(['GET /users/:id'])
    })

    test('distinguishes the apps that koa-mount mounts at several paths', async () => {
      /** Does what `koa-mount` does. */
      const mounted =
        (mountPath: string, inner: Middleware): Middleware =>
        (context, next) => {
          const { path } = context
          if (!path.startsWith(mountPath)) return next()
          Object.assign(context, { mountPath, path: path.slice(mountPath.length) || '/' })
          return inner(context, () => {
            context.path = path
            return next()
          })
        }
      const keys = await keysOf((limit) => {
        const inner = new Router().get('/', limit, () => {}).get('/:id', limit, () => {})
        const after = new Router().get('/v1/:some/:more', limit, () => {}).routes() as Middleware
        const [one, two] = ['/v1', '/v2'].map((path) => mounted(path, inner.routes() as Middleware))
        return (context, next) => one!(context, () => two!(context, () => after(context, next)))
      })
      expect(await keys('GET /v1?x', 'GET /v1/', 'GET /v1/1?x', 'GET /v2/1', 'GET /v1/1/1')).toEqual([
        'GET / of /v1',
        'GET / of /v1',
        'GET /:id of /v1',
        'GET /:id of /v2',
        'GET /v1/:some/:more',
      ])
    })

    test('warns outside of a router, also after a router that has called next', async () => {
      const passing = new Router().all(/.*/, (_context, next) => next())
      const limit = rateLimit(times(9, { keyer: keyers(byIP, byRoute) }))
      const server = await serveApp(new Koa(), passing.routes() as Middleware, limit, answer)
      expect(await warningsOf(() => ask(server, '/users/1'))).toEqual(['SLUICE_NO_ROUTE'])
    })

    test('returns one key for all requests outside of a router, with one warning for each app', async () => {
      for (let app = 0; app < 2; app++) {
        const keys = await keysOf((limit) => limit)
        const codes = await warningsOf(async () =>
          expect(await keys('GET /users/1', 'POST /users/2')).toEqual(['no route', 'no route']),
        )
        expect(codes).toEqual(['SLUICE_NO_ROUTE'])
      }
    })

    test('causes no warning in a router, also for a method that no route has', async () => {
      const keys = await keysOf(
        (limit) =>
          new Router()
            .use(limit)
            .get('/', () => {})
            .routes() as Middleware,
      )
      expect(await warningsOf(() => keys('GET /', 'PUT /', 'GET /nowhere'))).toEqual([])
    })

    test('reads the route of another router in the same property', () => {
      const context = { method: 'HEAD', path: '/users/1', _matchedRoute: '/users/:id' } as unknown as Context
      expect(byRoute(context)).toBe('GET /users/:id')
    })
  })

  test('ipKeyer depends on the proxy settings of the app, and warns when they trust every proxy', async () => {
    const settings: [ConstructorParameters<typeof Koa3>[0], string, string[]][] = [
      [{ proxy: true }, '198.51.100.1', ['SLUICE_PROXY_TRUSTS_ALL']],
      [{ proxy: true, maxIpsCount: 1 }, '203.0.113.9', []],
      [{ proxy: true, proxyIpHeader: 'X-Real-IP' }, '192.0.2.7', []],
      [{}, '127.0.0.1', ['SLUICE_PROXY_UNTRUSTED']],
    ]
    for (const [options, address, codes] of settings) {
      let key: string | undefined
      const onDecision: RateLimitOptions['onDecision'] = ({ limits }) => void (key = limits[0]?.key)
      const each = await serveApp(new Koa(options) as Koa3, rateLimit(times(9, { keyer: ipKeyer(), onDecision })))
      const headers = { 'x-forwarded-for': '198.51.100.1, 203.0.113.9', 'x-real-ip': '192.0.2.7' }
      expect([options, await codesOf(each, headers, headers)]).toEqual([options, codes])
      expect(key).toBe(address)
    }
  })

  test.each([{}, { proxy: true }, { proxy: true, maxIpsCount: 1 }])(
    'ipKeyer does not warn where the app sets `context.ip` itself: %j',
    async (options) => {
      const setAddress: Middleware = (context, next) => {
        context.request.ip = '192.0.2.1'
        return next()
      }
      const each = await serveApp(new Koa(options), setAddress, rateLimit(times(9, { keyer: ipKeyer() })))
      const sent = ['x-forwarded-for', 'x-real-ip', 'x-forwarded-for'].map((name) => ({ [name]: '203.0.113.9' }))
      expect(await codesOf(each, ...sent)).toEqual([])
      expect((await ask(each)).status).toBe(404)
    },
  )

  test('ipKeyer does not warn of Forwarded when the request has the header that the app reads', async () => {
    const each = await serveApp(
      new Koa({ proxy: true, proxyIpHeader: 'X-Real-IP' }),
      rateLimit(times(9, { keyer: ipKeyer() })),
    )
    const sent = { forwarded: 'for=192.0.2.7', 'x-real-ip': '192.0.2.7' }
    expect(await codesOf(each, sent)).toEqual([])
    expect(await codesOf(each, { forwarded: 'for=192.0.2.7' })).toEqual(['SLUICE_PROXY_UNTRUSTED'])
  })
})
