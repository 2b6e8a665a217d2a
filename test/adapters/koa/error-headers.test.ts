import type { Middleware } from 'koa'
import { describe, expect, test } from 'vitest'
import { rateLimit, type RateLimitOptions } from '../../../adapters/koa/index.ts'
import { ask } from '../../support/http.ts'
import { answer, fail, serveApp, times, versions } from './app.ts'

describe.each(versions)('%s', (_version, Koa) => {
  describe('an onDenied that throws', () => {
    test.each([
      ['the denial', 429, {}, '3600'],
      ['the denial later, with a header', 503, { 'Retry-After': '9999' }, '9999'],
      ['another error', 500, {}, '3600'],
    ])('keeps all headers: %s', async (_, status, headers, retryAfter) => {
      const onDenied: RateLimitOptions['onDenied'] = (context) => {
        if (status === 503) return Promise.resolve().then(() => context.throw(status, 'slow down', { headers }))
        return context.throw(status, 'slow down', { headers })
      }
      const server = await serveApp(new Koa(), rateLimit(times(1, { onDenied })), answer)
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

    test('keeps retry-after-ms and the headers of each limit', async () => {
      const onDenied: RateLimitOptions['onDenied'] = (context) => context.throw(429, 'slow down')
      const server = await serveApp(new Koa(), rateLimit(times(1, { onDenied, headers: 'openai' })), answer)
      await ask(server)
      expect((await ask(server)).headers).toMatchObject({
        'retry-after': '3600',
        'retry-after-ms': expect.stringMatching(/^3[56]\d{5}$/) as string,
        'x-ratelimit-limit-1-per-1h': '1',
        'x-ratelimit-remaining-1-per-1h': '0',
      })
    })

    test('keeps the headers of a request that it admits and whose handler fails, without Retry-After', async () => {
      const server = await serveApp(new Koa(), rateLimit(times(1, { onDenied: (_context, next) => next() })), fail)
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
    const left = async (server: Parameters<typeof ask>[0], path = '/'): Promise<unknown> =>
      (await ask(server, path)).headers['ratelimit']

    test('keeps the headers, although Koa removes all headers', async () => {
      const server = await serveApp(new Koa(), rateLimit(times(9)), fail)
      const { status, headers, body } = await ask(server)
      expect([status, body]).toEqual([500, 'Internal Server Error'])
      expect(headers).toMatchObject({ 'ratelimit-policy': '"9-per-1h";q=9;w=3600', ratelimit: '"9-per-1h";r=8;t=3600' })
    })

    test('keeps the headers of all limits, under any name', async () => {
      const server = await serveApp(
        new Koa(),
        rateLimit(times(9, { headers: 'legacy', headerNames: { limit: 'X-Quota' } })),
        rateLimit(times(5)),
        (context) => context.throw(418, 'tea', { headers: { 'X-Own': 'stays', RateLimit: 'of the error' } }),
      )
      const { status, headers } = await ask(server)
      expect(status).toBe(418)
      expect(headers).toMatchObject({
        'x-own': 'stays',
        'x-quota': '9',
        'ratelimit-policy': '"9-per-1h";q=9;w=3600, "5-per-1h";q=5;w=3600',
        ratelimit: 'of the error',
      })
    })

    test('can be the same object for all requests, which keep their own headers', async () => {
      const headers = Object.freeze({ 'x-own': 'stays' })
      const error = Object.assign(new Error('broken'), { headers })
      const server = await serveApp(new Koa(), rateLimit(times(9, { skip: ({ path }) => path === '/free' })), () => {
        throw error
      })
      const seen: unknown[] = []
      for (const path of ['/free', '/', '/free', '/']) seen.push(await left(server, path))
      expect(seen).toEqual([undefined, '"9-per-1h";r=8;t=3600', undefined, '"9-per-1h";r=7;t=3600'])
      expect(error.headers).toBe(headers)
    })

    test('exposes the headers to scripts, and the names that the error sets', async () => {
      const allow: Middleware = async (context, next) => {
        context.set('Access-Control-Allow-Origin', '*')
        await next()
      }
      const server = await serveApp(new Koa(), allow, rateLimit(times(9)), (context) =>
        context.throw(403, { headers: { 'Access-Control-Expose-Headers': 'X-Why', 'X-Why': 'so' } }),
      )
      expect((await ask(server)).headers).toMatchObject({
        'access-control-expose-headers': 'X-Why, Retry-After, RateLimit, RateLimit-Policy',
        'x-why': 'so',
      })
    })

    test('can be a value that is not an Error', async () => {
      for (const error of [Object.freeze({ frozen: true }), 'text', 5]) {
        const server = await serveApp(new Koa(), rateLimit(times(9)), () => {
          // oxlint-disable-next-line typescript/only-throw-error -- that is the point
          throw error
        })
        expect(await ask(server)).toMatchObject({ status: 500, headers: { ratelimit: '"9-per-1h";r=8;t=3600' } })
      }
    })
  })
})
