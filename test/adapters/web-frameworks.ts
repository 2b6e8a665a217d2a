import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { getRequestListener, type HttpBindings } from '@hono/node-server'
import { type Context, Hono, type Next } from 'hono'
import * as forFetch from '../../adapters/fetch/index.ts'
import * as forHono from '../../adapters/hono/index.ts'
import * as forNode from '../../adapters/node/index.ts'
import type { Decision } from '../../src/limiter/decision.ts'
import {
  type Answer,
  type AnyOptions,
  type Handler,
  nodeSink,
  serveListener,
  type Served,
  type Sink,
} from '../../src/testing.ts'
import type { NamedHarness } from './framework.ts'
import { nodeRequest } from './node-frameworks.ts'

type FetchHandler = (request: Request, bindings: HttpBindings) => Response | Promise<Response>

/** Serves a web-standard handler with `@hono/node-server`. */
export const serveFetch = (handler: FetchHandler, errors: unknown[] = []): Promise<Served> =>
  serveListener(getRequestListener(handler as never) as RequestListener, errors)

/** Returns an answer as a response. A streamed one is returned with its first chunk. */
function responseOf({ status = 200, text = '', stream }: Answer, request: Request): Response | Promise<Response> {
  const headers = { 'content-type': 'text/plain' }
  if (!stream) return new Response(status === 204 ? null : text, { status, headers })
  return new Promise((resolve) => {
    const closed: (() => void)[] = []
    const end = (): void => {
      for (const each of closed) each()
    }
    const encoder = new TextEncoder()
    let controller!: ReadableStreamDefaultController<Uint8Array>
    const body = new ReadableStream<Uint8Array>({ start: (given) => void (controller = given), cancel: end })
    request.signal.addEventListener('abort', end)
    const write = (text: string): void => {
      controller.enqueue(encoder.encode(text))
      resolve(new Response(body, { status, headers }))
    }
    const sink: Sink = {
      write,
      end(text) {
        write(text)
        controller.close()
      },
      closed: (listener) => void closed.push(listener),
    }
    stream(sink)
  })
}

const fetchAddress = (_request: Request, { incoming }: HttpBindings): string | undefined =>
  incoming.socket.remoteAddress
const ipKeyer = (options: object = {}): unknown => forFetch.ipKeyer({ address: fetchAddress, ...options })

const fetchFramework: NamedHarness = {
  name: 'fetch',
  lacks: ['early-headers', 'proxy-trust'],
  keyers: { ...forFetch, ipKeyer, byIP: ipKeyer() },
  address: fetchAddress,
  header: (request: Request, name) => request.headers.get(name) ?? undefined,
  method: (request: Request) => request.method,
  make: (options) => forFetch.rateLimit(options as never),
  onDenied: (answer) => async (request: Request, decision: Decision) => responseOf(await answer(decision), request),
  async serve({ limits, routes, handler }) {
    const errors: unknown[] = []
    const handle =
      (handler: Handler): FetchHandler =>
      async (request) => {
        const set = new Headers()
        const decision = forFetch.rateLimitOf(request)
        const answer = await handler({ request, decision, set: (name, value) => set.append(name, value) })
        const response = await responseOf(answer, request)
        for (const [name, value] of set) response.headers.append(name, value)
        return response
      }
    const limited = (handler: FetchHandler, options: AnyOptions): FetchHandler =>
      forFetch.rateLimit(options as never)(handler)
    const all = new Map(
      routes.map(({ path, limit, handler }) => [
        path,
        [handle(handler)].map((each) => (limit ? limited(each, limit) : each))[0]!,
      ]),
    )
    const last = handle(handler)
    const routed: FetchHandler = (request, bindings) =>
      (all.get(new URL(request.url).pathname) ?? last)(request, bindings)
    const app = limits.toReversed().reduce(limited, routed)
    return serveFetch(async (request, bindings) => {
      try {
        return await app(request, bindings)
      } catch (error) {
        errors.push(error)
        return new Response('fault', { status: 500 })
      }
    }, errors)
  },
}

const honoWith = (own: Partial<NamedHarness>, env: (bindings: HttpBindings) => object): NamedHarness => ({
  name: 'Hono 4',
  keyers: forHono,
  header: (context: Context, name) => context.req.header(name),
  method: (context: Context) => context.req.method,
  make: (options) => forHono.rateLimit(options as never),
  onDenied: (answer) => async (context: Context, _next: Next, decision: Decision) => {
    const { status = 200, text = '' } = await answer(decision)
    return context.text(text, status as 200)
  },
  async serve({ before, limits, routes, handler }) {
    const errors: unknown[] = []
    const app = new Hono()
    const handle = (handler: Handler) => async (context: Context) => {
      const decision = context.get('rateLimit')
      const answer = await handler({ request: context, decision, set: (name, value) => context.header(name, value) })
      return responseOf(answer, context.req.raw)
    }
    app.onError((error, context) => {
      errors.push(error)
      return context.text('fault', 500)
    })
    if (before) {
      app.use((context, next) => {
        before({ set: (name, value) => context.header(name, value) })
        return next()
      })
    }
    for (const options of limits) app.use(forHono.rateLimit(options as never))
    for (const { path, limit, handler: routed } of routes) {
      if (limit) app.all(path, forHono.rateLimit(limit as never), handle(routed))
      else app.all(path, handle(routed))
    }
    app.all('*', handle(handler))
    return serveFetch((request, bindings) => app.fetch(request, env(bindings)), errors)
  },
  ...own,
})

const hono = honoWith({}, (bindings) => bindings)

const honoAddress = ({ env }: Context): string => (env as { address: string }).address
const honoIpKeyer = (options: object = {}): unknown => forHono.ipKeyer({ address: honoAddress, ...options })

/** Like a runtime that has no Node responses. */
const honoElsewhere = honoWith(
  {
    name: 'Hono 4, not on Node',
    lacks: ['proxy-trust', 'unread-bodies'],
    keyers: { ...forHono, ipKeyer: honoIpKeyer, byIP: honoIpKeyer() },
    address: honoAddress,
  },
  ({ incoming }) => ({ address: incoming.socket.remoteAddress }),
)

const node: NamedHarness = {
  name: 'node:http',
  keyers: forNode,
  ...nodeRequest,
  make: (options) => forNode.rateLimit(options as never),
  onDenied: (answer) => async (_request: IncomingMessage, response: ServerResponse, decision: Decision) =>
    sendNode(response, await answer(decision)),
  async serve({ before, limits, routes, handler }) {
    const errors: unknown[] = []
    const onError = (error: unknown, response: ServerResponse): void => {
      errors.push(error)
      sendNode(response, { status: 500, text: 'fault' })
    }
    const limited = (listener: RequestListener, options: AnyOptions): RequestListener => {
      const own = { onError: (error: unknown, _request: unknown, response: ServerResponse) => onError(error, response) }
      return forNode.rateLimit({ ...own, ...options } as never)(listener)
    }
    const handle =
      (handler: Handler): RequestListener =>
      (request, response) => {
        const set = (name: string, value: string): void => void response.setHeader(name, value)
        const decision = forNode.rateLimitOf(request)
        const answer = new Promise<Answer>((resolve) => resolve(handler({ request, decision, set })))
        void answer.then((known) => sendNode(response, known)).catch((error: unknown) => onError(error, response))
      }
    const all = new Map(
      routes.map(({ path, limit, handler }) => [path, limit ? limited(handle(handler), limit) : handle(handler)]),
    )
    const last = handle(handler)
    const routed: RequestListener = (request, response) => (all.get(request.url!) ?? last)(request, response)
    const app = limits.toReversed().reduce(limited, routed)
    return serveListener((request, response) => {
      before?.({ set: (name, value) => void response.setHeader(name, value) })
      app(request, response)
    }, errors)
  },
}

function sendNode(response: ServerResponse, { status = 200, text, stream }: Answer): void {
  response.statusCode = status
  if (stream) return stream(nodeSink(response))
  response.setHeader('content-type', 'text/plain')
  response.end(text)
}

export const webFrameworks: readonly NamedHarness[] = [fetchFramework, hono, honoElsewhere, node]
