import express5, { type ErrorRequestHandler, type Request, type RequestHandler, type Router } from 'express'
import express4 from 'express4'
import { afterEach, describe, expect, test } from 'vitest'
import { byIP, byRoute, ipKeyer, rateLimit, type RateLimitOptions } from '../../../adapters/express/index.ts'
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
const ok: RequestHandler = (_request, response) => void response.send('ok')

async function left(path: string, method = 'GET', headers = {}): Promise<string> {
  const reply = await ask(server!, path, { method, headers })
  return reply.status === 429 ? '!' : (/;r=(\d+)/.exec(String(reply.headers['ratelimit']))?.[1] ?? '')
}

describe.each([
  ['Express 4', express4],
  ['Express 5', express5],
])('%s', (_version, express) => {
  test('a limit stands before an app, a router, or a route', async () => {
    const app = express()
    const router = express.Router()
    router.use(rateLimit(times(5)))
    router.get('/', ok)
    app.use('/router', router)
    app.get('/route', rateLimit(times(3)), ok)
    app.get('/free', ok)
    app.use(rateLimit(times(1)))
    app.get('/', ok)
    server = await serve(app)
    expect([await left('/router'), await left('/route'), await left('/free'), await left('/')]).toEqual([
      '4',
      '2',
      '',
      '0',
    ])
  })

  test('a limit of a router holds for the routers within, beside those of their own', async () => {
    const [outer, inner, beside] = [express.Router(), express.Router(), express.Router()]
    inner.get('/', rateLimit(times(3, { limits: fixedWindow({ quota: 3, window: '1m' }) } as never)), ok)
    outer.use(rateLimit(times(5)))
    outer.use('/inner', inner)
    beside.get('/', ok)
    const app = express()
    app.use('/outer', outer)
    app.use('/beside', beside)
    server = await serve(app)
    const told = async (path: string): Promise<unknown> => (await ask(server!, path)).headers['ratelimit']
    expect(await told('/outer/inner')).toBe('"5-per-1h";r=4;t=3600, "3-per-1m";r=2;t=60')
    expect(await told('/beside')).toBeUndefined()
    expect([await left('/outer/nowhere'), await left('/nowhere')]).toEqual(['3', ''])
  })

  test('paths that no route has are limited like any other', async () => {
    const app = express()
    app.use(rateLimit(times(2)))
    server = await serve(app)
    const seen = [await ask(server, '/a'), await ask(server, '/b'), await ask(server, '/c')]
    expect(seen.map(({ status }) => status)).toEqual([404, 404, 429])
    expect(seen[0]!.headers['ratelimit']).toBe('"2-per-1h";r=1;t=3600')
  })

  describe('error middleware', () => {
    const broken = (): never => {
      throw new Error('broken')
    }
    const answerErrors: ErrorRequestHandler = (error: Error, _request, response, _next) =>
      void response.status(503).send(error.message)

    test('answers a fault of the limit, at once or later, and nobody is admitted', async () => {
      for (const keyer of [broken, async () => broken()]) {
        const app = express()
        app.use(rateLimit(times(1, { keyer })), () => expect.unreachable())
        app.use(answerErrors)
        const each = await serve(app)
        expect(await ask(each)).toMatchObject({ status: 503, body: 'broken' })
        await each.close()
      }
    })

    test('answers a handler that fails, and the fields stay; without one they do as well', async () => {
      for (const [answer, status] of [
        [answerErrors, 503],
        [undefined, 500],
      ] as const) {
        const app = express()
        app.set('env', 'test')
        app.use(rateLimit(times(9)), broken)
        if (answer !== undefined) app.use(answer)
        const each = await serve(app)
        const reply = await ask(each)
        expect([reply.status, reply.headers['ratelimit']]).toEqual([status, '"9-per-1h";r=8;t=3600'])
        await each.close()
      }
    })

    test('is told by onDenied, which hands its error on', async () => {
      const app = express()
      const onDenied: RateLimitOptions['onDenied'] = (_request, _response, next, { retryAfter }) =>
        next(new Error(`in ${retryAfter} ms`))
      app.use(rateLimit(times(1, { onDenied })), ok)
      app.use(answerErrors)
      server = await serve(app)
      await ask(server)
      const { status, body, headers } = await ask(server)
      expect(status).toBe(503)
      expect(body).toMatch(/^in 3\d{6}/)
      expect(headers['retry-after']).toBe('3600')
    })
  })

  test('one middleware in two places is one limit', async () => {
    const app = express()
    const limit = rateLimit(times(9))
    app.get('/a', limit, ok)
    app.get('/b', limit, ok)
    server = await serve(app)
    expect([await left('/a'), await left('/b')]).toEqual(['8', '7'])
  })

  test('a response that is sent already is left alone, and nothing comes after it', async () => {
    const app = express()
    let ran = 0
    app.use((_request, response, next) => {
      response.send('sent')
      next()
    })
    app.use(rateLimit(times(1)))
    app.use(() => void ran++)
    const errors: unknown[] = []
    app.use(((error, _request, _response, _next) => void errors.push(error)) satisfies ErrorRequestHandler)
    server = await serve(app)
    for (let i = 0; i < 3; i++) expect(await ask(server)).toMatchObject({ status: 200, body: 'sent' })
    expect([ran, errors]).toEqual([1, []])
  })

  test('onDenied may let the request go on', async () => {
    const app = express()
    app.use(rateLimit(times(1, { onDenied: (_request, _response, next) => next() })))
    app.get('/', (request, response) => void response.send(String(request.rateLimit?.allowed)))
    server = await serve(app)
    expect((await ask(server)).body).toBe('true')
    expect(await ask(server)).toMatchObject({ status: 200, body: 'false' })
  })

  test('a refusal tells how long it is, to HEAD as to GET', async () => {
    const app = express()
    app.use(rateLimit(times(1)), ok)
    server = await serve(app)
    await ask(server)
    const [got, head] = [await ask(server), await ask(server, '/', { method: 'HEAD' })]
    expect([head.status, head.body, head.headers['content-length']]).toEqual([429, '', String(got.body.length)])
  })

  test('byRoute takes the pattern of the route, and elsewhere never the path', async () => {
    const app = express()
    const limit = rateLimit(times(9, { keyer: byRoute }))
    app.get('/users/:id', limit, ok)
    app.all('/any/:id', limit, ok)
    app.use(limit, ok)
    server = await serve(app)
    expect([await left('/users/1'), await left('/users/2'), await left('/users/3', 'HEAD')]).toEqual(['8', '7', '6'])
    expect([await left('/any/1'), await left('/any/2', 'POST')]).toEqual(['8', '7'])
    expect([await left('/no/1'), await left('/no/2', 'POST')]).toEqual(['8', '7'])
  })

  test('byRoute tells routes of different routers and apps apart, wherever those are mounted', async () => {
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
    server = await serve(app)
    const keyAt = async (path: string): Promise<string | undefined> => {
      expect((await ask(server!, path)).status).toBe(200)
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

  test('ipKeyer takes what `trust proxy` makes of it, and warns when that trusts everybody', async () => {
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
      const each = await serve(app)
      const headers = { 'x-forwarded-for': '203.0.113.9' }
      const askTwice = async (): Promise<void> => {
        await ask(each, '/', { headers })
        await ask(each, '/', { headers })
      }
      expect([String(trust), await warningsOf(askTwice)]).toEqual([String(trust), codes])
      expect(key).toBe(address)
      await each.close()
    }
  })

  test('one keyer before two apps warns for each of them', async () => {
    const keyer = ipKeyer()
    const apps = [express(), express()]
    for (const app of apps) app.use(rateLimit(times(9, { keyer })), ok)
    const servers = [await serve(apps[0]!), await serve(apps[1]!)]
    const headers = { 'x-forwarded-for': '203.0.113.9' }
    const codes = await warningsOf(async () => {
      for (const each of [...servers, ...servers, ...servers]) await ask(each, '/', { headers })
    })
    expect(codes).toEqual(['SLUICE_PROXY_UNTRUSTED', 'SLUICE_PROXY_UNTRUSTED'])
    for (const each of servers) await each.close()
  })

  test('byIP knows nobody behind a socket that is gone, nor outside of an app', () => {
    const gone = { ip: undefined, headers: {}, app: express() } as unknown as Request
    expect(byIP(gone)).toBeUndefined()
    expect(byIP({ headers: { 'x-forwarded-for': '203.0.113.9' } } as unknown as Request)).toBeUndefined()
  })
})
