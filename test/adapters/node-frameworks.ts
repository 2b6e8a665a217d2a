import type { IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { PassThrough } from 'node:stream'
import express5, { type ErrorRequestHandler, type Request, type RequestHandler, type Response } from 'express'
import express4 from 'express4'
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import Koa3, { type Context, type Middleware } from 'koa'
import Koa2 from 'koa2'
import * as forExpress from '../../adapters/express/index.ts'
import * as forFastify from '../../adapters/fastify/index.ts'
import * as forKoa from '../../adapters/koa/index.ts'
import { type Decision, everyone } from '../../src/index.ts'
import {
  type AdapterHarness,
  type Answer,
  type AnyOptions,
  type Exchange,
  type Handler,
  nodeSink,
  serveListener,
  type Sink,
} from '../../src/testing.ts'
import type { NamedHarness } from './framework.ts'

/** A request with the headers of Node. */
export const nodeRequest: Pick<AdapterHarness, 'header' | 'method'> = {
  header: (request: Pick<IncomingMessage, 'headers'>, name) => request.headers[name] as string | undefined,
  method: (request: Pick<IncomingMessage, 'method'>) => request.method!,
}

function expressOf(name: string, express: typeof express5): NamedHarness {
  const limit = (options: AnyOptions): RequestHandler => forExpress.rateLimit(options as never)
  const handle = (handler: Handler): RequestHandler =>
    function handled(request, response, next) {
      const exchange = {
        request,
        decision: request.rateLimit,
        set: (name: string, value: string) => void response.setHeader(name, value),
      }
      // Express 4 does not handle a rejected promise.
      void new Promise<Answer>((resolve) => resolve(handler(exchange))).then((answer) => send(response, answer), next)
    }
  function send(response: Response, { status = 200, text, stream }: Answer): void {
    response.status(status)
    if (stream) stream(nodeSink(response))
    else response.type('text/plain').send(text)
  }
  return {
    name,
    keyers: forExpress,
    ...nodeRequest,
    make: limit,
    onDenied: (answer) => async (_request: Request, response: Response, _next: unknown, decision: Decision) =>
      send(response, await answer(decision)),
    async serve({ before, limits, routes, handler }) {
      const errors: unknown[] = []
      const app = express()
      if (before) {
        app.use((_request, response, next) => {
          before({ set: (name, value) => void response.setHeader(name, value) })
          next()
        })
      }
      for (const options of limits) app.use(limit(options))
      for (const { path, limit: own, handler: routed } of routes) {
        app.all(path, ...(own ? [limit(own)] : []), handle(routed))
      }
      app.use(handle(handler))
      const onError: ErrorRequestHandler = (error, _request, response, _next) => {
        errors.push(error)
        send(response, { status: 500, text: 'fault' })
      }
      app.use(onError)
      return serveListener(app, errors)
    },
  }
}

function koaOf(name: string, Koa: typeof Koa3): NamedHarness {
  const limit = (options: AnyOptions): Middleware => forKoa.rateLimit(options as never)
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
      stream(nodeSink(context.res))
    }
  }
  const handle =
    (handler: Handler): Middleware =>
    async (context) =>
      send(context, await handler(exchangeOf(context)))
  return {
    name,
    keyers: forKoa,
    ...nodeRequest,
    make: limit,
    onDenied: (answer) => async (context: Context, _next: unknown, decision: Decision) =>
      send(context, await answer(decision)),
    async serve({ before, limits, routes, handler }) {
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
          before(exchangeOf(context))
          return next()
        })
      }
      for (const options of limits) app.use(limit(options))
      for (const route of routes) {
        const own: Middleware = route.limit ? limit(route.limit) : (_context, next) => next()
        const routed = handle(route.handler)
        app.use((context, next) => {
          return context.path === route.path ? own(context, () => routed(context, next) as Promise<void>) : next()
        })
      }
      app.use(handle(handler))
      return serveListener(app.callback() as never, errors)
    },
  }
}

const fastify: NamedHarness = {
  name: 'Fastify 5',
  keyers: forFastify,
  ...nodeRequest,
  async make(options) {
    await Fastify().register(forFastify.rateLimit, options as never)
  },
  onDenied: (answer) => async (_request: FastifyRequest, reply: FastifyReply, decision: Decision) =>
    sendFastify(reply, await answer(decision)),
  async serve({ before, limits, routes, handler }) {
    const errors: unknown[] = []
    const app = Fastify({ forceCloseConnections: true })
    app.setErrorHandler((error, _request, reply) => {
      errors.push(error)
      return reply.code(500).send('fault')
    })
    if (before) {
      app.addHook('onRequest', async (request, reply) => before(fastifyExchange(request, reply)))
    }
    await nested(app, limits, (scope) => {
      for (const { path, limit, handler: routed } of routes) {
        scope.all(path, { config: { ...(limit && { rateLimit: limit as never }) } }, fastifyHandler(routed))
      }
      scope.all('/*', fastifyHandler(handler))
    })
    await app.listen({ port: 0, host: '127.0.0.1' })
    const { port } = app.server.address() as AddressInfo
    return { url: `http://127.0.0.1:${port}`, errors, close: () => app.close() }
  },
}

/** A scope has one limit, so the second one is in a scope within the first. It would inherit the style of the headers. */
async function nested(
  scope: FastifyInstance,
  [first = NO_LIMIT, ...others]: readonly AnyOptions[],
  build: (scope: FastifyInstance) => void,
): Promise<void> {
  await scope.register(forFastify.rateLimit, first as never)
  if (others.length === 0) build(scope)
  else {
    const own = others.map((each) => ({ headers: 'standard' as const, ...each }))
    await scope.register(async (inner) => nested(inner, own, build))
  }
}

/** For apps where only routes have limits: in Fastify the plugin must be registered. */
const NO_LIMIT: AnyOptions = { keyer: everyone, limits: [] }

const fastifyHandler =
  (handler: Handler) =>
  async (request: FastifyRequest, reply: FastifyReply): Promise<unknown> =>
    sendFastify(reply, await handler(fastifyExchange(request, reply)))

function fastifyExchange(request: FastifyRequest, reply: FastifyReply): Exchange {
  return { request, decision: request.rateLimit, set: (name, value) => void reply.header(name, value) }
}

export function sendFastify(reply: FastifyReply, { status = 200, text, stream }: Answer): unknown {
  reply.code(status)
  if (!stream) return reply.type('text/plain').send(text)
  stream(fastifySink(reply))
  return reply
}

/** A stream that Fastify gets with its first chunk, since it sends the headers immediately. */
function fastifySink(reply: FastifyReply): Sink {
  const body = new PassThrough()
  const begin = (): unknown => reply.sent || reply.send(body)
  return {
    write: (text) => void (body.write(text), begin()),
    end: (text) => void (body.end(text), begin()),
    closed: (listener) => void reply.raw.on('close', listener),
  }
}

export const nodeFrameworks: readonly NamedHarness[] = [
  expressOf('Express 4', express4),
  expressOf('Express 5', express5),
  fastify,
  koaOf('Koa 2', Koa2),
  koaOf('Koa 3', Koa3),
]
