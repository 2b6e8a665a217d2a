import express, { type Request, type RequestHandler } from 'express'
import Koa, { type Middleware } from 'koa'
import { describe, expect, test } from 'vitest'
import { byHeader, rateLimit, type RateLimitOptions } from '../../adapters/express/index.ts'
import { rateLimit as koaRateLimit } from '../../adapters/koa/index.ts'
import { everyone } from '../../src/limiter/keyers.ts'
import { createLimiter, type Limiter, stack } from '../../src/limiter/limiter.ts'
import type { LimiterOptions } from '../../src/limiter/options.ts'
import { fixedWindow } from '../../src/engine/factories.ts'
import { denyCache } from '../../src/stores/deny-cache/index.ts'
import { guard } from '../../src/stores/guard/index.ts'
import { memoryStore } from '../../src/stores/memory/index.ts'
import { redisStore } from '../../src/stores/redis/index.ts'
import type { Store } from '../../src/stores/store.ts'
import { ask, type Served, serveForTest, warningsOf } from '../support/http.ts'
import { connect, server as redisServer } from '../support/redis-tests.ts'

const TWICE = 'SLUICE_MOUNTED_TWICE'

const times = (quota: number, options: Partial<RateLimitOptions> = {}): RateLimitOptions =>
  ({ keyer: everyone, limits: fixedWindow({ quota, window: '1h', name: 'all' }), ...options }) as RateLimitOptions
const limiterOf = (quota: number, options: Partial<LimiterOptions<Request>> = {}): Limiter<Request> =>
  createLimiter({ keyer: everyone, limits: fixedWindow({ quota, window: '1h', name: 'all' }), ...options })
const ok: RequestHandler = (_request, response) => void response.send('ok')

/** Returns the statuses of some requests, and the warnings. */
async function asked(server: Served, count: number, headers = {}): Promise<[number[], readonly string[]]> {
  const statuses: number[] = []
  const codes = await warningsOf(async () => {
    for (let i = 0; i < count; i++) statuses.push((await ask(server, '/', { headers })).status)
  })
  return [statuses, codes]
}

describe('Express', () => {
  test('counts a request once for one middleware on the app and on a route, with one warning', async () => {
    const app = express()
    const limit = rateLimit(times(2))
    app.use(limit)
    app.get('/', limit, ok)
    const server = await serveForTest(app)
    expect(await asked(server, 4)).toEqual([[200, 200, 429, 429], [TWICE]])
  })

  test('counts a request once for two middlewares of one limiter, also with another limiter between them', async () => {
    const app = express()
    const limiter = limiterOf(2)
    app.use(rateLimit({ limiter }))
    app.use(rateLimit(times(9)))
    app.get('/', rateLimit({ limiter }), ok)
    const server = await serveForTest(app)
    expect(await asked(server, 4)).toEqual([[200, 200, 429, 429], [TWICE]])
  })

  test('counts a request once for a middleware that comes three times, also with an asynchronous keyer', async () => {
    const app = express()
    const limit = rateLimit(times(2, { keyer: async () => 'key' }))
    app.use(limit, limit, limit, ok)
    const server = await serveForTest(app)
    expect(await asked(server, 3)).toEqual([[200, 200, 429], [TWICE]])
  })

  test('denies a request again that an earlier onDenied admitted', async () => {
    const app = express()
    const limiter = limiterOf(1)
    app.use(rateLimit({ limiter, onDenied: (_request, _response, next) => next() }))
    app.get('/', rateLimit({ limiter }), ok)
    const server = await serveForTest(app)
    expect(await asked(server, 2)).toEqual([[200, 429], [TWICE]])
  })

  test('counts a request that an earlier middleware of the limiter skipped', async () => {
    const app = express()
    const limiter = limiterOf(1)
    app.use(rateLimit({ limiter, skip: () => true }))
    app.get('/', rateLimit({ limiter }), ok)
    const server = await serveForTest(app)
    expect(await asked(server, 2)).toEqual([[200, 429], []])
  })

  test('counts a request again under another key', async () => {
    const app = express()
    const limiter = limiterOf(2, { keyer: byHeader('x-user') })
    app.use(rateLimit({ limiter }))
    app.use((request, _response, next) => {
      request.headers['x-user'] = 'known by now'
      next()
    })
    app.get('/', rateLimit({ limiter }), ok)
    const server = await serveForTest(app)
    expect(await asked(server, 1, { 'x-user': 'a' })).toEqual([[200], []])
    expect(await asked(server, 2, { 'x-user': 'b' })).toEqual([[200, 429], []])
  })

  test('counts a request again under other limits of the limiter', async () => {
    const app = express()
    const limit = (name: string, quota: number): ReturnType<typeof fixedWindow> =>
      fixedWindow({ name, quota, window: '1h' })
    const [wide, narrow] = [limit('wide', 9), limit('narrow', 1)]
    const limiter = limiterOf(9, { limits: ({ headers }) => (headers['x-late'] === undefined ? wide : narrow) })
    app.use(rateLimit({ limiter }))
    app.use((request, _response, next) => {
      request.headers['x-late'] = 'yes'
      next()
    })
    app.get('/', rateLimit({ limiter }), ok)
    const server = await serveForTest(app)
    expect(await asked(server, 3)).toEqual([[200, 429, 429], []])
  })

  test('warns of a stack that shares a limiter with an earlier middleware', async () => {
    const store = memoryStore()
    const user = limiterOf(4, { name: 'user', store })
    const all = limiterOf(9, { name: 'all', store })
    const app = express()
    app.use(rateLimit({ limiter: user }))
    app.get('/', rateLimit({ limiter: stack(user, all) }), ok)
    const server = await serveForTest(app)
    expect((await asked(server, 3))[1]).toEqual([TWICE])
  })

  test('counts a request for each of two limiters with equal options', async () => {
    const app = express()
    app.use(rateLimit(times(2)), rateLimit(times(2)), ok)
    const server = await serveForTest(app)
    expect(await asked(server, 3)).toEqual([[200, 200, 429], []])
  })

  test('ignores a rateLimit property of another package', async () => {
    for (const foreign of [{ limit: 5, used: 1, remaining: 4 }, null, 'none', { limits: 3 }]) {
      const app = express()
      app.use((request, _response, next) => {
        Object.assign(request, { rateLimit: foreign })
        next()
      })
      app.use(rateLimit(times(1)), (request, response) => void response.send(String(request.rateLimit?.remaining)))
      const server = await serveForTest(app)
      expect(await ask(server)).toMatchObject({ status: 200, body: '0' })
      expect(await ask(server)).toMatchObject({ status: 429 })
    }
  })
})

describe('Koa', () => {
  const answer: Middleware = (context) => void (context.body = 'ok')

  test('ignores a rateLimit property of another package', async () => {
    const app = new Koa()
    app.use((context, next) => {
      Object.assign(context.state, { rateLimit: { limit: 5 } })
      return next()
    })
    app.use(koaRateLimit(times(1) as never)).use(answer)
    const server = await serveForTest(app.callback() as never)
    expect((await asked(server, 2))[0]).toEqual([200, 429])
  })
})

describe('two limiters of one name, limit and key', () => {
  const SAME_PLACE = 'SLUICE_SAME_PLACE'

  /** Sends requests through two middlewares with the same name, each on its own store. */
  async function askedOn(one: Store, other: Store, options: Partial<RateLimitOptions> = {}): ReturnType<typeof asked> {
    const app = express()
    app.use(rateLimit({ ...times(4), store: one } as RateLimitOptions))
    app.get('/', rateLimit({ ...times(4), store: other, ...options } as RateLimitOptions), ok)
    const server = await serveForTest(app)
    return asked(server, 4)
  }

  test('over two connections to one Redis charge a request twice, with one warning', async () => {
    const { port } = await redisServer()
    const [one, other] = [redisStore(connect(port)), redisStore(connect(port))]
    expect(await askedOn(one, other)).toEqual([[200, 200, 429, 429], [SAME_PLACE]])
  })

  test('are also found behind guards and caches', async () => {
    const { port } = await redisServer()
    const [one, other] = [guard(redisStore(connect(port))), denyCache(redisStore(connect(port)))]
    expect((await askedOn(one, other))[1]).toEqual([SAME_PLACE])
  })

  test('cause no warning with `shared`', async () => {
    const { port } = await redisServer()
    const [one, other] = [redisStore(connect(port)), redisStore(connect(port))]
    expect(await askedOn(one, other, { shared: true })).toEqual([[200, 200, 429, 429], []])
  })

  test.each<[string, Partial<RateLimitOptions>]>([
    ['with another name', { name: 'other' }],
    ['with another limit', times(4, { limits: fixedWindow({ quota: 4, window: '1h', name: 'route' }) })],
    ['with another key', { keyer: () => 'another' }],
  ])('cause no warning %s', async (_, options) => {
    const { port } = await redisServer()
    const [one, other] = [redisStore(connect(port)), redisStore(connect(port))]
    expect(await askedOn(one, other, options)).toEqual([[200, 200, 200, 200], []])
  })

  test('cause no warning in two memory stores, which count apart', async () => {
    expect(await askedOn(memoryStore(), memoryStore())).toEqual([[200, 200, 200, 200], []])
  })
})
