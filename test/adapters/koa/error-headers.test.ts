import Koa3 from 'koa'
import Koa2 from 'koa2'
import { afterEach, describe, expect, test } from 'vitest'
import { rateLimit, type RateLimitOptions } from '../../../adapters/koa/index.ts'
import { everyone } from '../../../src/limiter/keyers.ts'
import { fixedWindow } from '../../../src/engine/factories.ts'
import { ask, serve, type Served } from '../../support/http.ts'

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
  describe('an onDenied that throws', () => {
    test.each([
      ['the denial', 429, {}, '3600'],
      ['the denial later, with headers', 503, { 'Retry-After': '9999', RateLimit: 'goes' }, '9999'],
      ['another error', 500, { 'retry-after': '5' }, '3600'],
    ])('keeps all headers: %s', async (_, status, headers, retryAfter) => {
      const app = new Koa()
      app.on('error', () => {})
      const onDenied: RateLimitOptions['onDenied'] = (context) => {
        if (status === 503) return Promise.resolve().then(() => context.throw(status, 'slow down', { headers }))
        return context.throw(status, 'slow down', { headers })
      }
      app.use(rateLimit(times(1, { onDenied })))
      app.use((context) => void (context.body = 'ok'))
      server = await serve(app.callback() as never)
      await ask(server)
      const reply = await ask(server)
      expect(reply.status).toBe(status)
      expect(reply.headers).toMatchObject({
        'retry-after': retryAfter,
        'cache-control': 'no-store',
        'ratelimit-policy': '"1-per-1h";q=1;w=3600',
        ratelimit: '"1-per-1h";r=0;t=3600',
      })
    })

    test.each([
      [{}, '3600', /^3[56]\d{5}$/],
      [{ 'Retry-After': '9999' }, '9999', /^9999000$/],
    ])('keeps retry-after-ms and the headers of each limit: %j', async (headers, seconds, ms) => {
      const app = new Koa()
      app.on('error', () => {})
      const onDenied: RateLimitOptions['onDenied'] = (context) => context.throw(429, 'slow down', { headers })
      app.use(rateLimit(times(1, { onDenied, headers: 'openai' })))
      app.use((context) => void (context.body = 'ok'))
      server = await serve(app.callback() as never)
      await ask(server)
      expect((await ask(server)).headers).toMatchObject({
        'retry-after': seconds,
        'retry-after-ms': expect.stringMatching(ms) as string,
        'x-ratelimit-limit-1-per-1h': '1',
        'x-ratelimit-remaining-1-per-1h': '0',
      })
    })

    test('keeps the headers of a request that it admits and whose handler fails, without Retry-After', async () => {
      const app = new Koa()
      app.on('error', () => {})
      app.use(rateLimit(times(1, { onDenied: (_context, next) => next() })))
      app.use((context) => context.throw(500, 'broken'))
      server = await serve(app.callback() as never)
      await ask(server)
      const { status, headers } = await ask(server)
      expect([status, headers['ratelimit'], headers['cache-control'], headers['retry-after']]).toEqual([
        500,
        '"1-per-1h";r=0;t=3600',
        undefined,
        undefined,
      ])
    })
  })

  describe('an uncaught error of the handler', () => {
    const failing = (error: unknown, options?: Partial<RateLimitOptions>): Promise<Served> => {
      const app = new Koa()
      app.on('error', () => {})
      app.use(rateLimit(times(9, options)))
      app.use(() => {
        throw error
      })
      return serve(app.callback() as never)
    }

    test('keeps the headers, although Koa removes all headers', async () => {
      server = await failing(new Error('broken'))
      const { status, headers, body } = await ask(server)
      expect([status, body]).toEqual([500, 'Internal Server Error'])
      expect(headers).toMatchObject({ 'ratelimit-policy': '"9-per-1h";q=9;w=3600', ratelimit: '"9-per-1h";r=8;t=3600' })
    })

    test('keeps the headers of all limits, under any name', async () => {
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

    test('keeps the headers in each of two apps with one rate limit', async () => {
      const limit = rateLimit(times(9))
      for (const left of [8, 7]) {
        const app = new Koa()
        app.on('error', () => {})
        app.use(limit).use(() => {
          throw new Error('broken')
        })
        const each = await serve(app.callback() as never)
        expect((await ask(each)).headers['ratelimit']).toBe(`"9-per-1h";r=${left};t=3600`)
        await each.close()
      }
    })

    test('can be the same object for all requests, which keep their own headers', async () => {
      const headers = Object.freeze({ 'x-own': 'stays' })
      const error = Object.assign(new Error('broken'), { headers })
      server = await failing(error, { skip: ({ path }) => path === '/free' })
      const seen: unknown[] = []
      for (const path of ['/free', '/', '/free', '/']) seen.push((await ask(server, path)).headers['ratelimit'])
      expect(seen).toEqual([undefined, '"9-per-1h";r=8;t=3600', undefined, '"9-per-1h";r=7;t=3600'])
      expect(error.headers).toBe(headers)
    })

    test('can be a value that is not an Error', async () => {
      for (const error of [Object.freeze({ frozen: true }), 'text', 5]) {
        const each = await failing(error)
        expect(await ask(each)).toMatchObject({ status: 500, headers: { ratelimit: '"9-per-1h";r=8;t=3600' } })
        await each.close()
      }
    })

    test('exposes the headers to scripts', async () => {
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

    test('also exposes the names that the error sets', async () => {
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

    test('can come from an earlier middleware', async () => {
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

    test('can be reported while the handler runs', async () => {
      const app = new Koa()
      app.on('error', () => {})
      app.use(rateLimit(times(9)))
      app.use((context) => context.onerror(new Error('broken')))
      server = await serve(app.callback() as never)
      expect(await ask(server)).toMatchObject({ status: 500, headers: { ratelimit: '"9-per-1h";r=8;t=3600' } })
    })

    test('is refunded as a failure', async () => {
      server = await failing(new Error('broken'), { refundWhen: 'failure' })
      for (let i = 0; i < 3; i++) expect((await ask(server)).headers['ratelimit']).toBe('"9-per-1h";r=8;t=3600')
    })

    test('has the headers when an earlier middleware catches it', async () => {
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
})
