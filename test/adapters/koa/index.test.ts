import { Router } from '@koa/router'
import type { Middleware } from 'koa'
import { describe, expect, test } from 'vitest'
import { rateLimit } from '../../../adapters/koa/index.ts'
import { ask, warningsOf } from '../../support/http.ts'
import { answer, serveApp, times, versions } from './app.ts'

describe.each(versions)('%s', (_version, Koa) => {
  test('passes a denial to earlier middlewares, which can read and extend it', async () => {
    const note: Middleware = async (context, next) => {
      await next()
      context.set('X-Seen', String(context.status))
    }
    const server = await serveApp(new Koa(), note, rateLimit(times(1)), answer)
    expect((await ask(server)).headers['x-seen']).toBe('200')
    expect((await ask(server)).headers['x-seen']).toBe('429')
  })

  test.each([false, true])(
    'passes the result of later middlewares to earlier ones, decision takes time: %s',
    async (isLate) => {
      const send: Middleware = async (context, next) => void (context.body = (await next()) as string)
      const skip = (): false | Promise<false> => (isLate ? Promise.resolve(false as const) : false)
      const server = await serveApp(new Koa(), send, rateLimit(times(1, { skip })), () => 'the result')
      expect((await ask(server)).body).toBe('the result')
    },
  )

  test.each<[string, readonly string[], (router: Middleware, limit: Middleware) => Middleware[]]>([
    ['as the last one after a router', ['SLUICE_MOUNTED_LATE'], (router, limit) => [router, limit]],
    ['before a router', [], (router, limit) => [limit, router]],
    ['between a router and another middleware', [], (router, limit) => [router, limit, (_context, next) => next()]],
    ['without a router', [], (_router, limit) => [limit]],
  ])('warns once when it is used after all routes: %s', async (_where, expected, middlewaresOf) => {
    const router = new Router().get('/', () => {}).routes() as Middleware
    const server = await serveApp(new Koa(), ...middlewaresOf(router, rateLimit(times(9))))
    const codes = await warningsOf(async () => {
      for (let i = 0; i < 2; i++) await ask(server, '/nowhere')
    })
    expect(codes).toEqual(expected)
  })

  test('does not change a response that was sent', async () => {
    const send: Middleware = (context, next) => {
      context.respond = false
      context.res.writeHead(200).end('sent')
      return next()
    }
    const server = await serveApp(new Koa(), send, rateLimit(times(1)))
    for (let i = 0; i < 3; i++) expect(await ask(server)).toMatchObject({ status: 200, body: 'sent' })
    expect(server.errors).toEqual([])
  })
})
