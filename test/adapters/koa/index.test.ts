import { Router } from '@koa/router'
import Koa3, { type Middleware } from 'koa'
import Koa2 from 'koa2'
import { afterEach, describe, expect, test } from 'vitest'
import { rateLimit, type RateLimitOptions } from '../../../adapters/koa/index.ts'
import { everyone } from '../../../src/limiter/keyers.ts'
import { fixedWindow } from '../../../src/engine/factories.ts'
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
  test('passes a denial to earlier middlewares, which can read and extend it', async () => {
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

  test('leaves an error without a handler to Koa, which sends a 500', async () => {
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

  test('lets onDenied admit the request', async () => {
    const app = new Koa()
    app.use(rateLimit(times(1, { onDenied: (_context, next) => next() })))
    app.use((context) => void (context.body = String(context.state.rateLimit?.allowed)))
    server = await serve(app.callback() as never)
    expect((await ask(server)).body).toBe('true')
    expect(await ask(server)).toMatchObject({ status: 200, body: 'false' })
  })

  test('keeps the headers when a request fails that onDenied admitted', async () => {
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

  test.each<[string, readonly string[], (router: Middleware, limit: Middleware) => Middleware[]]>([
    ['as the last one after a router', ['SLUICE_MOUNTED_LATE'], (router, limit) => [router, limit]],
    ['before a router', [], (router, limit) => [limit, router]],
    ['between a router and another middleware', [], (router, limit) => [router, limit, (_context, next) => next()]],
    ['without a router', [], (_router, limit) => [limit]],
  ])('warns once when it is used after all routes: %s', async (_where, expected, middlewaresOf) => {
    const app = new Koa()
    const router = new Router().get('/', () => {}).routes() as Middleware
    for (const each of middlewaresOf(router, rateLimit(times(9)))) app.use(each as never)
    server = await serve(app.callback() as never)
    const codes = await warningsOf(async () => {
      for (let i = 0; i < 2; i++) await ask(server!, '/nowhere')
    })
    expect(codes).toEqual(expected)
  })

  test('does not change a response that was sent', async () => {
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
})
