import type { IncomingHttpHeaders, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import express5, { type ErrorRequestHandler, type Request, type RequestHandler, type Response } from 'express'
import express4 from 'express4'
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import Koa3, { type Context, type Middleware } from 'koa'
import Koa2 from 'koa2'
import * as forExpress from '../../adapters/express.ts'
import * as forFastify from '../../adapters/fastify.ts'
import * as forKoa from '../../adapters/koa.ts'
import type { Decision } from '../../src/decision.ts'
import { everyone } from '../../src/keyers.ts'
import { serve, type Served } from '../support/http.ts'

/** What the requests of all frameworks have in common. */
export interface AnyRequest {
  readonly method: string
  readonly headers: IncomingHttpHeaders
}

/** Options of any `rateLimit`. */
export type Options = Readonly<Record<string, unknown>>

/** A handler's side of an exchange, whatever the framework. */
export interface Exchange {
  readonly request: AnyRequest
  readonly decision: Decision | undefined
  /** Sets a field of the response. */
  set(name: string, value: string): void
}

/** What a handler answers: a text, or what it writes to Node's response by itself. */
export interface Answer {
  readonly status?: number
  readonly text?: string
  readonly stream?: (response: ServerResponse) => void
}

export type Handler = (exchange: Exchange) => Answer | Promise<Answer>

export interface Route {
  readonly path: string
  readonly limit?: Options
  readonly handler?: Handler
}

/** An app: what happens first, limits one after another, routes with limits of their own, and what answers all else. */
export interface Setup {
  readonly before?: Handler | undefined
  readonly limits?: readonly Options[]
  readonly routes?: readonly Route[]
  readonly handler?: Handler
}

interface Adapter {
  readonly byIP: unknown
  readonly byMethod: unknown
  readonly byRoute: unknown
  byHeader(name: string): unknown
  ipKeyer(options?: { readonly ipv6Subnet?: number }): unknown
}

/** A framework and our adapter for it. */
export interface Framework {
  readonly name: string
  readonly adapter: Adapter
  /** Makes a limit without an app. */
  make(options: Options): Promise<void>
  /** An `onDenied` in the framework's own arguments. */
  onDenied(answer: (decision: Decision) => Answer | Promise<Answer>): unknown
  serve(setup: Setup): Promise<Served>
}

const ok: Handler = () => ({ text: 'ok' })

function expressOf(name: string, express: typeof express5): Framework {
  const limit = (options: Options): RequestHandler => forExpress.rateLimit(options as never)
  const handle = (handler: Handler): RequestHandler =>
    function handled(request, response, next) {
      const exchange = {
        request,
        decision: request.rateLimit,
        set: (name: string, value: string) => void response.setHeader(name, value),
      }
      // In a promise, for Express 4 does not hear of one that is rejected.
      void new Promise<Answer>((resolve) => resolve(handler(exchange))).then((answer) => send(response, answer), next)
    }
  function send(response: Response, { status = 200, text, stream }: Answer): void {
    response.status(status)
    if (stream) stream(response)
    else response.type('text/plain').send(text)
  }
  return {
    name,
    adapter: forExpress,
    make: async (options) => void limit(options),
    onDenied: (answer) => async (_request: Request, response: Response, _next: unknown, decision: Decision) =>
      send(response, await answer(decision)),
    async serve({ before, limits = [], routes = [], handler = ok }) {
      const errors: unknown[] = []
      const app = express()
      if (before) {
        app.use((request, response, next) => {
          void before({ request, decision: undefined, set: (name, value) => void response.setHeader(name, value) })
          next()
        })
      }
      for (const options of limits) app.use(limit(options))
      for (const { path, limit: own, handler: routed = ok } of routes) {
        app.all(path, ...(own ? [limit(own)] : []), handle(routed))
      }
      app.use(handle(handler))
      const onError: ErrorRequestHandler = (error, _request, response, _next) => {
        errors.push(error)
        send(response, { status: 500, text: 'fault' })
      }
      app.use(onError)
      return serve(app, errors)
    },
  }
}

function koaOf(name: string, Koa: typeof Koa3): Framework {
  const limit = (options: Options): Middleware => forKoa.rateLimit(options as never)
  const exchangeOf = (context: Context): Exchange => ({
    request: context,
    decision: context.state.rateLimit,
    set: (name, value) => context.set(name, value),
  })
  function send(context: Context, { status = 200, text, stream }: Answer): void {
    context.status = status
    if (!stream) context.body = text
    else {
      context.respond = false
      stream(context.res)
    }
  }
  const handle =
    (handler: Handler): Middleware =>
    async (context) =>
      send(context, await handler(exchangeOf(context)))
  return {
    name,
    adapter: forKoa,
    make: async (options) => void limit(options),
    onDenied: (answer) => async (context: Context, _next: unknown, decision: Decision) =>
      send(context, await answer(decision)),
    async serve({ before, limits = [], routes = [], handler = ok }) {
      const errors: unknown[] = []
      const app = new Koa()
      app.use(async (context, next) => {
        try {
          await next()
        } catch (error) {
          errors.push(error)
          send(context, { status: 500, text: 'fault' })
        }
      })
      if (before) {
        app.use((context, next) => {
          void before(exchangeOf(context))
          return next()
        })
      }
      for (const options of limits) app.use(limit(options))
      for (const route of routes) {
        const own: Middleware = route.limit ? limit(route.limit) : (_context, next) => next()
        const routed = handle(route.handler ?? ok)
        app.use((context, next) => {
          return context.path === route.path ? own(context, () => routed(context, next) as Promise<void>) : next()
        })
      }
      app.use(handle(handler))
      return serve(app.callback() as never, errors)
    },
  }
}

const fastify: Framework = {
  name: 'Fastify 5',
  adapter: forFastify,
  async make(options) {
    await Fastify().register(forFastify.rateLimit, options as never)
  },
  onDenied: (answer) => async (_request: FastifyRequest, reply: FastifyReply, decision: Decision) =>
    sendFastify(reply, await answer(decision)),
  async serve({ before, limits = [], routes = [], handler = ok }) {
    const errors: unknown[] = []
    const app = Fastify({ forceCloseConnections: true })
    app.setErrorHandler((error, _request, reply) => {
      errors.push(error)
      return reply.code(500).send('fault')
    })
    if (before) {
      app.addHook('onRequest', async (request, reply) => void (await before(fastifyExchange(request, reply))))
    }
    await nested(app, limits, (scope) => {
      for (const { path, limit, handler: routed = ok } of routes) {
        scope.all(path, { config: { ...(limit && { rateLimit: limit as never }) } }, fastifyHandler(routed))
      }
      scope.all('/*', fastifyHandler(handler))
    })
    await app.listen({ port: 0, host: '127.0.0.1' })
    const { port } = app.server.address() as AddressInfo
    return { url: `http://127.0.0.1:${port}`, errors, close: () => app.close() }
  },
}

/** A scope has one limit, so that the second is in a scope within the first. */
async function nested(
  scope: FastifyInstance,
  [first = NO_LIMIT, ...others]: readonly Options[],
  build: (scope: FastifyInstance) => void,
): Promise<void> {
  await scope.register(forFastify.rateLimit, first as never)
  if (others.length === 0) build(scope)
  else await scope.register(async (inner) => nested(inner, others, build))
}

/** For routes that alone have limits: Fastify's are limited where the plugin is. */
const NO_LIMIT: Options = { keyer: everyone, limits: [] }

const fastifyHandler =
  (handler: Handler) =>
  async (request: FastifyRequest, reply: FastifyReply): Promise<unknown> =>
    sendFastify(reply, await handler(fastifyExchange(request, reply)))

function fastifyExchange(request: FastifyRequest, reply: FastifyReply): Exchange {
  return { request, decision: request.rateLimit, set: (name, value) => void reply.header(name, value) }
}

function sendFastify(reply: FastifyReply, { status = 200, text, stream }: Answer): unknown {
  reply.code(status)
  if (!stream) return reply.type('text/plain').send(text)
  reply.hijack()
  stream(reply.raw)
  return undefined
}

export const frameworks: readonly Framework[] = [
  expressOf('Express 4', express4),
  expressOf('Express 5', express5),
  fastify,
  koaOf('Koa 2', Koa2),
  koaOf('Koa 3', Koa3),
]
