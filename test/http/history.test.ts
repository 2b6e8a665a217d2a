import express, { type Request, type RequestHandler } from 'express'
import Koa, { type Middleware } from 'koa'
import { describe, expect, test } from 'vitest'
import { byHeader, rateLimit, type RateLimitOptions } from '../../adapters/express/index.ts'
import { rateLimit as koaRateLimit } from '../../adapters/koa/index.ts'
import { everyone } from '../../src/limiter/keyers.ts'
import { createLimiter, type Limiter, stack } from '../../src/limiter/limiter.ts'
import type { LimiterOptions } from '../../src/limiter/options.ts'
import { fixedWindow } from '../../src/engine/factories.ts'
import { memoryStore } from '../../src/stores/memory/index.ts'
import { redisStore } from '../../src/stores/redis/index.ts'
import type { AsyncStore, Store } from '../../src/stores/store.ts'
import { ask, type Served, serveForTest, statuses, warningsOf } from '../support/http.ts'
import { connect, server as redisServer } from '../support/redis-tests.ts'

const TWICE = 'SLUICE_MOUNTED_TWICE'

const times = (quota: number, options: Partial<RateLimitOptions> = {}): RateLimitOptions =>
  ({ keyer: everyone, limits: fixedWindow({ quota, window: '1h', name: 'all' }), ...options }) as RateLimitOptions
const limiterOf = (quota: number, options: Partial<LimiterOptions<Request>> = {}): Limiter<Request> =>
  createLimiter({ keyer: everyone, limits: fixedWindow({ quota, window: '1h', name: 'all' }), ...options })
const ok: RequestHandler = (_request, response) => void response.send('ok')

/** Serves an app with these middlewares, and a route with others. */
function serving(middlewares: readonly RequestHandler[], ...ofRoute: readonly RequestHandler[]): Promise<Served> {
  const app = express()
  app.use(...middlewares)
  app.get('/', ...ofRoute, ok)
  return serveForTest(app)
}

/** Returns the statuses of some requests, and the warnings. */
async function asked(server: Served, count: number, headers = {}): Promise<[number[], readonly string[]]> {
  let seen: number[] = []
  const codes = await warningsOf(async () => (seen = await statuses(server, count, { headers })))
  return [seen, codes]
}

/** Returns a middleware that sets a header of the request. */
const setting =
  (name: string, value: string): RequestHandler =>
  (request, _response, next) => {
    request.headers[name] = value
    next()
  }

describe('Express', () => {
  test('counts a request once for two middlewares of one limiter, also with another limiter between them', async () => {
    const limiter = limiterOf(2)
    const server = await serving([rateLimit({ limiter }), rateLimit(times(9))], rateLimit({ limiter }))
    expect(await asked(server, 4)).toEqual([[200, 200, 429, 429], [TWICE]])
  })

  test('counts a request once for a middleware that comes three times, also with an asynchronous keyer', async () => {
    const limit = rateLimit(times(2, { keyer: async () => 'key' }))
    expect(await asked(await serving([limit, limit, limit]), 3)).toEqual([[200, 200, 429], [TWICE]])
  })

  test('denies a request again that an earlier onDenied admitted', async () => {
    const limiter = limiterOf(1)
    const admitting = rateLimit({ limiter, onDenied: (_request, _response, next) => next() })
    expect(await asked(await serving([admitting], rateLimit({ limiter })), 2)).toEqual([[200, 429], [TWICE]])
  })

  test('counts a request that an earlier middleware of the limiter skipped', async () => {
    const limiter = limiterOf(1)
    const server = await serving([rateLimit({ limiter, skip: () => true })], rateLimit({ limiter }))
    expect(await asked(server, 2)).toEqual([[200, 429], []])
  })

  test('counts a request again under another key', async () => {
    const limiter = limiterOf(2, { keyer: byHeader('x-user') })
    const server = await serving([rateLimit({ limiter }), setting('x-user', 'known by now')], rateLimit({ limiter }))
    expect(await asked(server, 1, { 'x-user': 'a' })).toEqual([[200], []])
    expect(await asked(server, 2, { 'x-user': 'b' })).toEqual([[200, 429], []])
  })

  test('counts a request again under other limits of the limiter', async () => {
    const limit = (name: string, quota: number): ReturnType<typeof fixedWindow> =>
      fixedWindow({ name, quota, window: '1h' })
    const [wide, narrow] = [limit('wide', 9), limit('narrow', 1)]
    const limiter = limiterOf(9, { limits: ({ headers }) => (headers['x-late'] === undefined ? wide : narrow) })
    const server = await serving([rateLimit({ limiter }), setting('x-late', 'yes')], rateLimit({ limiter }))
    expect(await asked(server, 3)).toEqual([[200, 429, 429], []])
  })

  test('warns of a stack that shares a limiter with an earlier middleware', async () => {
    const store = memoryStore()
    const user = limiterOf(4, { name: 'user', store })
    const all = limiterOf(9, { name: 'all', store })
    const server = await serving([rateLimit({ limiter: user })], rateLimit({ limiter: stack(user, all) }))
    expect((await asked(server, 3))[1]).toEqual([TWICE])
  })

  test('counts a request for each of two limiters with equal options', async () => {
    const server = await serving([rateLimit(times(2)), rateLimit(times(2))])
    expect(await asked(server, 3)).toEqual([[200, 200, 429], []])
  })

  test('ignores a rateLimit property of another package', async () => {
    for (const foreign of [{ limit: 5, used: 1, remaining: 4 }, null, 'none', { limits: 3 }]) {
      const server = await serving([
        (request, _response, next) => {
          Object.assign(request, { rateLimit: foreign })
          next()
        },
        rateLimit(times(1)),
        (request, response) => void response.send(String(request.rateLimit?.remaining)),
      ])
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
    const [first, second] = [{ store: one }, { store: other, ...options }].map((own) =>
      rateLimit({ ...times(4), ...own } as RateLimitOptions),
    )
    return asked(await serving([first!], second!), 4)
  }

  async function twoConnections(): Promise<[AsyncStore, AsyncStore]> {
    const { port } = await redisServer()
    return [redisStore(connect(port)), redisStore(connect(port))]
  }

  test('over two connections to one Redis charge a request twice, with one warning', async () => {
    expect(await askedOn(...(await twoConnections()))).toEqual([[200, 200, 429, 429], [SAME_PLACE]])
  })

  test('cause no warning with `shared`', async () => {
    const [one, other] = await twoConnections()
    expect(await askedOn(one, other, { shared: true })).toEqual([[200, 200, 429, 429], []])
  })

  test.each<[string, Partial<RateLimitOptions>]>([
    ['with another name', { name: 'other' }],
    ['with another limit', times(4, { limits: fixedWindow({ quota: 4, window: '1h', name: 'route' }) })],
    ['with another key', { keyer: () => 'another' }],
  ])('cause no warning %s', async (_, options) => {
    const [one, other] = await twoConnections()
    expect(await askedOn(one, other, options)).toEqual([[200, 200, 200, 200], []])
  })

  test('cause no warning in two memory stores, which count apart', async () => {
    expect(await askedOn(memoryStore(), memoryStore())).toEqual([[200, 200, 200, 200], []])
  })
})
