import { getRequestListener } from '@hono/node-server'
import { type Context, Hono } from 'hono'
import { cors } from 'hono/cors'
import { HTTPException } from 'hono/http-exception'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { rateLimit, type RateLimitOptions } from '../../../adapters/hono/index.ts'
import { concurrent, everyone } from '../../../src/index.ts'
import { broken } from '../../support/unhandled.ts'
import { left, times } from './app.ts'

const { Request: OwnRequest, Response: OwnResponse } = globalThis

/** `@hono/node-server` replaces these classes. Its responses share their headers with the context. */
const CLASSES: Readonly<Record<string, () => void>> = {
  'with the classes of the runtime': () => undefined,
  'with those of @hono/node-server': () => void getRequestListener(() => new Response()),
}

describe.each(Object.keys(CLASSES))('%s', (name) => {
  beforeAll(() => CLASSES[name]!())
  afterAll(() => Object.assign(globalThis, { Request: OwnRequest, Response: OwnResponse }))

  test('removes the reset of an earlier limit', async () => {
    const app = new Hono()
    app.use(rateLimit(times(9, { headers: 'legacy' })))
    app.use(rateLimit({ keyer: everyone, limits: concurrent(5), headers: 'legacy' }))
    app.get('/', (context) => context.text('ok'))
    const { headers } = await app.request('/')
    expect([headers.get('x-ratelimit-limit'), headers.get('x-ratelimit-reset')]).toEqual(['5', null])
  })

  test('an onDenied that calls next leaves no header of an earlier middleware on a response of the handler', async () => {
    const app = new Hono()
    app.use(async (context, next) => {
      context.header('Cache-Control', 'public')
      await next()
    })
    app.use(rateLimit(times(0, { onDenied: (_context, next) => next() })))
    app.get('/', () => new Response('ok'))
    expect((await app.request('/')).headers.get('cache-control')).toBe(null)
  })

  test.each<[string, NonNullable<RateLimitOptions['onDenied']>, (string | number | null)[]]>([
    ['calls next', (_context, next) => next(), [200, 'early', null]],
    ['throws', () => broken(), [200, 'sorry', 'no-store']],
  ])('an onDenied after a middleware with a response leaves no status: %s', async (_how, onDenied, expected) => {
    const app = new Hono()
    app.use(async (context, next) => {
      context.res = new Response('early')
      await next()
    })
    app.use(rateLimit(times(0, { onDenied })))
    app.onError((_error, context) => context.text('sorry'))
    const response = await app.request('/')
    expect([response.status, await response.text(), response.headers.get('cache-control')]).toEqual(expected)
  })

  test('keeps the response of a handler that sets another value as `rateLimit`', async () => {
    const app = new Hono<{ Variables: { rateLimit: unknown } }>()
    app.use(cors(), rateLimit(times(9)))
    app.get('/', (context) => {
      context.set('rateLimit', { limit: 9, used: 1 })
      return context.text('ok')
    })
    expect(await (await app.request('/')).text()).toBe('ok')
  })

  test('adds headers to a text, a response of the handler, an immutable response and a 404', async () => {
    const app = new Hono()
    app.use(rateLimit(times(9)))
    app.get('/text', (context) => context.text('ok'))
    app.get('/own', () => new Response('ok', { headers: { 'x-own': 'yes' } }))
    app.get('/immutable', () => Response.redirect('http://localhost/', 302))
    expect([await left(app, '/text'), await left(app, '/own'), await left(app, '/immutable')]).toEqual(['8', '7', '6'])
    expect(await left(app, '/missing')).toBe('5')
  })

  test('keeps the headers when a handler fails, with and without an onError', async () => {
    for (const onError of [undefined, (error: Error) => new Response(error.message, { status: 500 })]) {
      const app = new Hono()
      if (onError !== undefined) app.onError(onError)
      app.use(rateLimit(times(9)))
      app.get('/', () => {
        throw new Error('broken')
      })
      vi.spyOn(console, 'error').mockImplementation(() => {})
      const { status, headers } = await app.request('/')
      expect([status, headers.get('ratelimit')]).toEqual([500, '"9-per-1h";r=8;t=3600'])
    }
  })

  test('keeps the status of an HTTPException, and counts it as a failure', async () => {
    const app = new Hono()
    app.use(rateLimit(times(1, { refundWhen: 'failure' })))
    app.get('/', () => {
      throw new HTTPException(403, { message: 'no' })
    })
    for (let i = 0; i < 3; i++) {
      const response = await app.request('/')
      expect([response.status, await response.text()]).toEqual([403, 'no'])
      await new Promise((resolve) => setImmediate(resolve))
    }
  })

  test('keeps the headers of an earlier middleware on a denial', async () => {
    const app = new Hono()
    app.use(cors())
    app.use(async (context, next) => {
      await next()
      context.header('x-seen', String(context.res.status))
    })
    app.use(rateLimit(times(1)))
    app.get('/', (context) => context.text('ok'))
    await app.request('/')
    const { status, headers } = await app.request('/')
    expect([status, headers.get('x-seen'), headers.get('content-type')]).toEqual([
      429,
      '429',
      'application/problem+json',
    ])
    expect(headers.get('access-control-expose-headers')).toBe('Retry-After, RateLimit, RateLimit-Policy')
  })

  test.each([[[]], [[cors()]]])(
    'onDenied may ask for a longer wait, and for no shorter one, after %o',
    async (before) => {
      const asked = async (
        value: string,
        denied: (context: Context, value: string) => Response,
      ): Promise<string | null> => {
        const app = new Hono()
        app.use(...before, rateLimit(times(1, { onDenied: (context) => denied(context, value) })))
        app.get('/', (context) => context.text('ok'))
        await app.request('/')
        return (await app.request('/')).headers.get('retry-after')
      }
      const ways = [
        (_context: Context, value: string) => new Response(null, { headers: { 'Retry-After': value } }),
        (context: Context, value: string) => context.text('no', 429, { 'Retry-After': value }),
        (context: Context, value: string) => {
          context.header('Retry-After', value)
          return context.text('no', 429)
        },
      ]
      for (const way of ways)
        expect([await asked('0', way), await asked('60', way), await asked('7200', way)]).toEqual([
          '3600',
          '3600',
          '7200',
        ])
    },
  )

  test('keeps the headers and cookies of a response of the handler', async () => {
    for (const refundWhen of [undefined, 'failure'] as const) {
      const app = new Hono()
      app.use(async (context, next) => {
        context.header('Set-Cookie', 'visitor=1')
        context.header('Cache-Control', 'no-store')
        await next()
      })
      app.use(rateLimit(times(9, refundWhen && { refundWhen })))
      const headers = { 'Set-Cookie': 'session=2', 'Cache-Control': 'max-age=60', RateLimit: '"own";r=1' }
      app.get('/', () => new Response('ok', { headers }))
      const { headers: sent } = await app.request('/')
      expect(sent.getSetCookie()).toEqual(['session=2'])
      expect([sent.get('cache-control'), sent.get('ratelimit')]).toEqual(['max-age=60', '"own";r=1'])
      expect(sent.get('ratelimit-policy')).toBe('"9-per-1h";q=9;w=3600')
    }
  })

  test('exposes the headers when CORS headers are added after the limit', async () => {
    const app = new Hono()
    app.use(rateLimit(times(9)), cors({ origin: 'http://a', exposeHeaders: ['X-A'] }))
    app.get('/', (context) => context.text('ok'))
    const { headers } = await app.request('/', { headers: { origin: 'http://a' } })
    expect(headers.get('access-control-expose-headers')).toBe('X-A, Retry-After, RateLimit, RateLimit-Policy')
  })

  test('leaves no header of a denial on a response that replaces it', async () => {
    const app = new Hono()
    app.use(rateLimit(times(9)))
    app.use(async (context, next) => {
      await next()
      context.res = undefined
      context.res = new Response(null, { status: 204 })
    })
    app.get('/', rateLimit(times(1)), (context) => context.text('ok'))
    await app.request('/')
    const { status, headers } = await app.request('/')
    expect([status, headers.get('content-type'), headers.get('cache-control')]).toEqual([204, null, null])
  })

  test('does not change a protocol switch', async () => {
    const app = new Hono()
    const switched = Object.defineProperty(new Response(null), 'status', { value: 101 })
    app.use(rateLimit(times(9, { refundWhen: 'failure' })))
    app.get('/', () => switched)
    expect(await app.request('/')).toBe(switched)
  })

  test('keeps cookies separate when it watches the body', async () => {
    const app = new Hono()
    app.use(rateLimit(times(1, { refundWhen: 'success' })))
    app.get('/', (context) => {
      context.header('set-cookie', 'a=1', { append: true })
      context.header('set-cookie', 'b=2', { append: true })
      return context.text('ok')
    })
    const response = await app.request('/')
    expect([await response.text(), response.headers.getSetCookie()]).toEqual(['ok', ['a=1', 'b=2']])
  })
})
