// Apps with a limit of one request, and an `onDenied`.
import type { RequestListener } from 'node:http'
import { getRequestListener } from '@hono/node-server'
import type express5 from 'express'
import type { ErrorRequestHandler } from 'express'
import Fastify from 'fastify'
import { Hono } from 'hono'
import type Koa3 from 'koa'
import * as forExpress from '../../adapters/express/index.ts'
import * as forFastify from '../../adapters/fastify/index.ts'
import * as forFetch from '../../adapters/fetch/index.ts'
import * as forHono from '../../adapters/hono/index.ts'
import * as forKoa from '../../adapters/koa/index.ts'
import * as forNode from '../../adapters/node/index.ts'
import { everyone, fixedWindow } from '../../src/index.ts'

const one = { keyer: everyone, limits: fixedWindow({ quota: 1, window: '1h' }) }

/** What an application does before the limit, and how it answers errors: by default as the framework does. */
export interface Around {
  readonly status?: number
  readonly cacheControl?: string
  readonly onError?: 'redirect' | 'body' | 429
  /** For Koa: called after the limit and the handler, before the response is sent. */
  readonly after?: () => Promise<void>
}

export function expressApp(
  express: typeof express5,
  onDenied: forExpress.RateLimitOptions['onDenied'],
  { status, cacheControl, onError }: Around = {},
): RequestListener {
  const app = express()
  app.set('env', 'test')
  app.use((_request, response, next) => {
    if (status !== undefined) response.status(status)
    if (cacheControl !== undefined) response.set('Cache-Control', cacheControl)
    next()
  })
  app.use(forExpress.rateLimit({ ...one, onDenied: onDenied! }))
  app.use((_request, response) => void response.send('ok'))
  const answerErrors: ErrorRequestHandler = (_error, _request, response, _next) =>
    onError === 'redirect' ? response.redirect('/sorry') : response.send('sorry')
  if (onError !== undefined) app.use(answerErrors)
  return app as unknown as RequestListener
}

export function koaApp(
  Koa: typeof Koa3,
  onDenied: forKoa.RateLimitOptions['onDenied'],
  { status, onError, after }: Around = {},
): RequestListener {
  const app = new Koa()
  app.silent = true
  app.use(async (context, next) => {
    if (status !== undefined) context.status = status
    try {
      await next()
      await after?.()
    } catch (error) {
      if (onError === undefined) throw error
      if (onError === 'redirect') context.redirect('/sorry')
      else context.body = 'sorry'
    }
  })
  app.use(forKoa.rateLimit({ ...one, onDenied: onDenied! }))
  app.use((context) => void (context.body = 'ok'))
  return app.callback() as RequestListener
}

export async function fastifyApp(
  onDenied: forFastify.RateLimitOptions['onDenied'],
  { status, cacheControl, onError }: Around = {},
): Promise<RequestListener> {
  const app = Fastify()
  app.addHook('onRequest', async (_request, reply) => {
    if (status !== undefined) void reply.code(status)
    if (cacheControl !== undefined) void reply.header('Cache-Control', cacheControl)
  })
  if (onError !== undefined)
    app.setErrorHandler((_error, _request, reply) =>
      onError === 'redirect' ? reply.redirect('/sorry') : reply.send('sorry'),
    )
  await app.register(forFastify.rateLimit, { ...one, onDenied: onDenied! })
  app.get('/', () => 'ok')
  await app.ready()
  return (request, response) => app.routing(request, response)
}

export function honoApp(
  onDenied: forHono.RateLimitOptions['onDenied'],
  { status, cacheControl, onError }: Around = {},
): RequestListener {
  const app = new Hono()
  app.use(async (context, next) => {
    if (status !== undefined) context.status(status as 202)
    if (cacheControl !== undefined) context.header('Cache-Control', cacheControl)
    await next()
  })
  app.use(forHono.rateLimit({ ...one, onDenied: onDenied! }))
  app.get('/', (context) => context.text('ok'))
  if (onError !== undefined)
    app.onError((_error, context) =>
      onError === 'redirect' ? context.redirect('/sorry') : context.text('sorry', onError === 429 ? 429 : undefined),
    )
  return getRequestListener(app.fetch) as RequestListener
}

export const fetchApp = (onDenied: forFetch.RateLimitOptions['onDenied']): RequestListener =>
  getRequestListener(forFetch.rateLimit({ ...one, onDenied: onDenied! })(() => new Response('ok'))) as RequestListener

export function nodeApp(
  onDenied: forNode.RateLimitOptions['onDenied'],
  { status, cacheControl, onError }: Around = {},
): RequestListener {
  const answerErrors: forNode.RateLimitOptions['onError'] = (_error, _request, response) => {
    if (onError === 'redirect') response!.writeHead(302, { Location: '/sorry' })
    response!.end('sorry')
  }
  const limit = forNode.rateLimit({ ...one, onDenied: onDenied!, ...(onError && { onError: answerErrors }) })
  const limited = limit((_request, response) => void response.end('ok'))
  return (request, response) => {
    if (status !== undefined) response.statusCode = status
    if (cacheControl !== undefined) response.setHeader('Cache-Control', cacheControl)
    limited(request, response)
  }
}
