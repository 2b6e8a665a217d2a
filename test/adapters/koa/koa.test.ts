import { METHODS } from 'node:http'
import { Router, type RouterMiddleware } from '@koa/router'
import Koa3, { type Context, type Middleware } from 'koa'
import Koa2 from 'koa2'
import { afterEach, describe, expect, test } from 'vitest'
import { byIP, byRoute, ipKeyer, rateLimit, type RateLimitOptions } from '../../../adapters/koa/index.ts'
import { everyone } from '../../../src/limiter/keyers.ts'
import { fixedWindow } from '../../../src/limits/factories.ts'
import { ask, serve, type Served, warningsOf } from '../../support/http.ts'

let server: Served | undefined
afterEach(async () => {
  await server?.close()
  server = undefined
})

const times = (quota: number, options: Partial<RateLimitOptions> = {}): RateLimitOptions =>
  ({ keyer: everyone, limits: fixedWindow({ quota, window: '1h' }), ...options }) as RateLimitOptions

describe.each([
  ['Koa 2', Koa2],
  ['Koa 3', Koa3],
])('%s', (_version, Koa) => {
  test('a denial passes the middleware upstream, which sees its status and may add to it', async () => {
    const app = new Koa()
    app.use(async (context, next) => {
      await next()
      context.set('X-Seen', String(context.status))
    })
    app.use(rateLimit(times(1)))
    app.use((context) => void (context.body = 'ok'))
    server = await serve(app.callback() as never)
    expect((await ask(server)).headers['x-seen']).toBe('200')
    expect((await ask(server)).headers['x-seen']).toBe('429')
  })

  test('a fault without a handler of the application’s is Koa’s own 500', async () => {
    const app = new Koa()
    const errors: unknown[] = []
    app.on('error', (error) => errors.push(error))
    const broken = (): never => {
      throw new Error('broken')
    }
    app.use(rateLimit(times(1, { keyer: broken })))
    app.use((context) => void (context.body = 'ok'))
    server = await serve(app.callback() as never)
    expect(await ask(server)).toMatchObject({ status: 500, body: 'Internal Server Error' })
    expect(errors).toMatchObject([{ message: 'broken' }])
  })

  describe('an error of the handler that nobody catches', () => {
    const failing = (error: unknown, options?: Partial<RateLimitOptions>): Promise<Served> => {
      const app = new Koa()
      app.on('error', () => {})
      app.use(rateLimit(times(9, options)))
      app.use(() => {
        throw error
      })
      return serve(app.callback() as never)
    }

    test('tells where the client stands, although Koa empties the response', async () => {
      server = await failing(new Error('broken'))
      const { status, headers, body } = await ask(server)
      expect([status, body]).toEqual([500, 'Internal Server Error'])
      expect(headers).toMatchObject({ 'ratelimit-policy': '"9-per-1h";q=9;w=3600', ratelimit: '"9-per-1h";r=8;t=3600' })
    })

    test('of all limits that it has passed, under whatever names', async () => {
      const app = new Koa()
      app.on('error', () => {})
      app.use(rateLimit(times(9, { headers: 'legacy', headerNames: { limit: 'X-Quota' } })))
      app.use(rateLimit(times(5)))
      app.use((context) => context.throw(418, 'tea', { headers: { 'X-Own': 'stays', 'RateLimit-Policy': 'goes' } }))
      server = await serve(app.callback() as never)
      const { status, headers } = await ask(server)
      expect(status).toBe(418)
      expect(headers).toMatchObject({
        'x-own': 'stays',
        'x-quota': '9',
        'ratelimit-policy': '"9-per-1h";q=9;w=3600, "5-per-1h";q=5;w=3600',
        ratelimit: '"9-per-1h";r=8;t=3600, "5-per-1h";r=4;t=3600',
      })
    })

    test('may be one and the same for all requests, which learn nothing of one another', async () => {
      const headers = Object.freeze({ 'x-own': 'stays' })
      const error = Object.assign(new Error('broken'), { headers })
      server = await failing(error, { skip: ({ path }) => path === '/free' })
      const seen: unknown[] = []
      for (const path of ['/free', '/', '/free', '/']) seen.push((await ask(server, path)).headers['ratelimit'])
      expect(seen).toEqual([undefined, '"9-per-1h";r=8;t=3600', undefined, '"9-per-1h";r=7;t=3600'])
      expect(error.headers).toBe(headers)
    })

    test('may be none of Node’s, and is told all the same', async () => {
      for (const error of [Object.freeze({ frozen: true }), 'text', 5]) {
        const each = await failing(error)
        expect(await ask(each)).toMatchObject({ status: 500, headers: { ratelimit: '"9-per-1h";r=8;t=3600' } })
        await each.close()
      }
    })

    test('is exposed to scripts', async () => {
      const app = new Koa()
      app.on('error', () => {})
      app.use(async (context, next) => {
        context.set('Access-Control-Allow-Origin', '*')
        await next()
      })
      app.use(rateLimit(times(9)))
      app.use(() => {
        throw new Error('broken')
      })
      server = await serve(app.callback() as never)
      expect((await ask(server)).headers['access-control-expose-headers']).toBe(
        'Retry-After, RateLimit, RateLimit-Policy',
      )
    })

    test('exposes to scripts what it says itself as well', async () => {
      const app = new Koa()
      app.on('error', () => {})
      app.use(async (context, next) => {
        context.set('Access-Control-Allow-Origin', '*')
        await next()
      })
      app.use(rateLimit(times(9)))
      app.use((context) => context.throw(403, { headers: { 'Access-Control-Expose-Headers': 'X-Why', 'X-Why': 'so' } }))
      server = await serve(app.callback() as never)
      expect((await ask(server)).headers).toMatchObject({
        'access-control-expose-headers': 'X-Why, Retry-After, RateLimit, RateLimit-Policy',
        'x-why': 'so',
      })
    })

    test('may come from whoever is passed before the limit, too', async () => {
      const app = new Koa()
      app.on('error', () => {})
      app.use(async (context, next) => {
        await next()
        context.throw(503)
      })
      app.use(rateLimit(times(9)))
      app.use((context) => void (context.body = 'ok'))
      server = await serve(app.callback() as never)
      expect(await ask(server)).toMatchObject({ status: 503, headers: { ratelimit: '"9-per-1h";r=8;t=3600' } })
      for (let i = 0; i < 8; i++) await ask(server)
      expect(await ask(server)).toMatchObject({ status: 503, headers: { ratelimit: '"9-per-1h";r=0;t=3600' } })
    })

    test('may be told of while the handler runs', async () => {
      const app = new Koa()
      app.on('error', () => {})
      app.use(rateLimit(times(9)))
      app.use((context) => context.onerror(new Error('broken')))
      server = await serve(app.callback() as never)
      expect(await ask(server)).toMatchObject({ status: 500, headers: { ratelimit: '"9-per-1h";r=8;t=3600' } })
    })

    test('is a failure, which is given back', async () => {
      server = await failing(new Error('broken'), { refundWhen: 'failure' })
      for (let i = 0; i < 3; i++) expect((await ask(server)).headers['ratelimit']).toBe('"9-per-1h";r=8;t=3600')
    })

    test('is caught by a middleware upstream, with the fields where they were', async () => {
      const app = new Koa()
      app.use(async (context, next) => {
        try {
          await next()
        } catch (error) {
          context.status = 503
          context.body = (error as Error).message
        }
      })
      app.use(rateLimit(times(9)))
      app.use(() => {
        throw new Error('caught')
      })
      server = await serve(app.callback() as never)
      expect(await ask(server)).toMatchObject({
        status: 503,
        body: 'caught',
        headers: { ratelimit: '"9-per-1h";r=8;t=3600' },
      })
    })
  })

  test('onDenied may let the request go on', async () => {
    const app = new Koa()
    app.use(rateLimit(times(1, { onDenied: (_context, next) => next() })))
    app.use((context) => void (context.body = String(context.state.rateLimit?.allowed)))
    server = await serve(app.callback() as never)
    expect((await ask(server)).body).toBe('true')
    expect(await ask(server)).toMatchObject({ status: 200, body: 'false' })
  })

  test('and if that fails, the client is told what it has cost', async () => {
    const app = new Koa()
    app.on('error', () => {})
    app.use(rateLimit(times(1, { onDenied: (_context, next) => next() })))
    app.use(() => {
      throw new Error('broken')
    })
    server = await serve(app.callback() as never)
    await ask(server)
    expect(await ask(server)).toMatchObject({ status: 500, headers: { ratelimit: '"1-per-1h";r=0;t=3600' } })
  })

  test('a response that is sent already is left alone', async () => {
    const app = new Koa()
    app.use((context, next) => {
      context.respond = false
      context.res.writeHead(200).end('sent')
      return next()
    })
    app.use(rateLimit(times(1)))
    const errors: unknown[] = []
    app.on('error', (error) => errors.push(error))
    server = await serve(app.callback() as never)
    for (let i = 0; i < 3; i++) expect(await ask(server)).toMatchObject({ status: 200, body: 'sent' })
    expect(errors).toEqual([])
  })

  describe('byRoute', () => {
    /** What `byRoute` makes of a request, in the middleware that sees it. */
    async function keysOf(make: (limit: Middleware) => Middleware): Promise<(...asked: string[]) => Promise<string[]>> {
      let keys: string[] = []
      const onDecision: RateLimitOptions['onDecision'] = ({ limits }) => void keys.push(limits[0]!.key)
      const app = new Koa().use(make(rateLimit(times(999, { keyer: byRoute, onDecision })))) as Koa3
      server = await serve(app.callback() as never)
      return async (...asked) => {
        keys = []
        for (const each of asked) {
          const [method, path] = each.split(' ') as [string, string]
          await ask(server!, path, { method })
        }
        return keys
      }
    }

    test('takes the pattern and the method, HEAD with GET, never the path', async () => {
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

    test('takes all methods of a route together, for the client may choose any of them', async () => {
      const keys = await keysOf((limit) => {
        const router = new Router().all('/any/:id', limit)
        router.register('/some', ['GET', 'PUT'], limit as RouterMiddleware)
        return router.routes() as Middleware
      })
      const methods = METHODS.filter((method) => method !== 'CONNECT')
      expect(new Set(await keys(...methods.map((method) => `${method} /any/1`)))).toEqual(new Set(['ALL /any/:id']))
      expect(await keys('GET /some', 'HEAD /some', 'PUT /some')).toEqual(Array(3).fill('GET,PUT /some'))
    })

    test('takes the route about to answer in a middleware of its router, and of one that holds its router', async () => {
      const keys = await keysOf((limit) => {
        const orders = new Router({ prefix: '/orders' }).get('/:id', () => {})
        const shops = new Router().use(limit).get('/shops/:id', () => {})
        return shops.use('/shops', orders.routes()).routes() as Middleware
      })
      expect(await keys('GET /shops/1', 'GET /shops/orders/2')).toEqual(['GET /shops/:id', 'GET /shops/orders/:id'])
    })

    test('takes the route in a middleware of its router, whatever middlewares come after', async () => {
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

    test('takes the route of that router, not one of a router before it that has passed the request on', async () => {
      const keys = await keysOf((limit) => {
        const passing = new Router().get('/users/:any', (_context, next) => next())
        const answering = new Router().use(limit).get('/users/:id', () => {})
        return new Router().use(passing.routes(), answering.routes()).routes() as Middleware
      })
      expect(await keys('GET /users/1')).toEqual(['GET /users/:id'])
    })

    test('is one bucket for all without a route', async () => {
      const keys = await keysOf((limit) => limit)
      expect(await keys('GET /users/1', 'POST /users/2')).toEqual(['no route', 'no route'])
    })

    test('takes what another router tells in the same place', () => {
      const context = { method: 'HEAD', path: '/users/1', _matchedRoute: '/users/:id' } as unknown as Context
      expect(byRoute(context)).toBe('GET /users/:id')
    })
  })

  test('ipKeyer takes what the app’s proxy settings make of it, and warns when they trust everybody', async () => {
    const settings: [ConstructorParameters<typeof Koa3>[0], string, string[]][] = [
      [{ proxy: true }, '198.51.100.1', ['SLUICE_PROXY_TRUSTS_ALL']],
      [{ proxy: true, maxIpsCount: 1 }, '203.0.113.9', []],
      [{ proxy: true, proxyIpHeader: 'X-Real-IP' }, '192.0.2.7', []],
      [{}, '127.0.0.1', ['SLUICE_PROXY_UNTRUSTED']],
    ]
    for (const [options, address, codes] of settings) {
      let key: string | undefined
      const app = new Koa(options)
      app.use(rateLimit(times(9, { keyer: ipKeyer(), onDecision: ({ limits }) => void (key = limits[0]?.key) })))
      const each = await serve(app.callback() as never)
      const headers = { 'x-forwarded-for': '198.51.100.1, 203.0.113.9', 'x-real-ip': '192.0.2.7' }
      const askTwice = async (): Promise<void> => {
        await ask(each, '/', { headers })
        await ask(each, '/', { headers })
      }
      expect([options, await warningsOf(askTwice)]).toEqual([options, codes])
      expect(key).toBe(address)
      await each.close()
    }
  })

  test('byIP knows nobody behind a socket that is gone', () => {
    expect(byIP({ ip: '', req: { headers: {} }, app: new Koa() } as unknown as Context)).toBeUndefined()
  })
})
