import type { Context, Env, Hono, MiddlewareHandler, Next } from 'hono'
import { trackWork } from '../../src/http/work.ts'
import type { HttpAdapter } from '../../src/http/adapter.ts'
import { type HttpOptions, type LimiterSource, validateHttpOptions } from '../../src/http/options.ts'
import { exposedAfter } from '../../src/http/headers/stacked.ts'
import type { ResponseReader } from '../../src/http/settlement.ts'
import { requestLimiterOf } from '../../src/http/request-limiter.ts'
import { whenClosed } from '../../src/http/response/node.ts'
import { isClosed } from '../../src/util/closed.ts'
import { madeOnce } from '../../src/util/copies.ts'
import { discardBody } from '../../src/http/response/unread-body.ts'
import { callStarted, type ResponseHead } from '../../src/http/response/on-denied.ts'
import { clientGone, isAborted, lateHeaders, responseFrom } from '../../src/http/response/web.ts'
import type { Decision } from '../../src/limiter/decision.ts'
import { chain, type MaybePromise } from '../../src/util/maybe-promise.ts'
import { bindingsOf, closingOf, getResponse, knownEndOf, responseEndOf, sentResponseOf } from './response-end.ts'
import {
  type AddressOptions,
  addressReader,
  type ClientInfo,
  clientKeyer,
  givenAddressKeyer,
  type IpKeyerOptions as SubnetOptions,
  isSocketSet,
  proxyHeaderIn,
} from '../../src/http/keys/address.ts'
import { byHeaderOf, byMethodOf, routeKey } from '../../src/http/keys/request-keyers.ts'
import { define, type SyncKeyer } from '../../src/limiter/keyers.ts'
import { needsCall, refuse, refuseOwnCall } from '../../src/util/validate.ts'

export type { HeaderStyle } from '../../src/http/headers/types.ts'

/** The options of {@link ipKeyer}. */
export type IpKeyerOptions = SubnetOptions & Partial<AddressOptions<[context: Context]>>

/** The part of a context that the keyers of this module read. It has no environment, so the keyers fit apps with any environment. */
export type AnyContext = Pick<Context, 'req'>

// The address of the socket, which is the client's address if there is no proxy.
const client: ClientInfo<Context> = {
  address: (context) => bindingsOf(context).incoming?.socket.remoteAddress,
  proxyHeader: (context) => proxyHeaderIn(bindingsOf(context).incoming?.headers ?? {}),
  trust: () => 'nobody',
  app: (context) => bindingsOf(context).incoming?.socket.server,
  isSet: (context) => isSocketSet(bindingsOf(context).incoming?.socket),
}

/** Returns an object that identifies the app. A context does not know its app, but each app has its own route objects. */
function appOf(context: Context): object | undefined {
  return (context.req as Matched).matchedRoutes[0] ?? client.app(context)
}

/** Returns the client's address on `@hono/node-server`, for rules. */
const addressOf: (context: Context) => string | undefined = addressReader(client)

/**
 * Returns a keyer for the client's address: the address of the socket on `@hono/node-server`, or the result of `address`, which
 * other runtimes and apps behind a proxy need. IPv6 addresses are cut to a prefix. Clients without an address share one bucket,
 * with a warning.
 * Throws `INVALID_OPTION`, `UNKNOWN_OPTION`.
 *
 * @example
 * import { getConnInfo } from 'hono/bun' // or 'hono/deno', 'hono/cloudflare-workers', 'hono/vercel', …
 * ipKeyer({ address: (context) => getConnInfo(context).remote.address })
 */
export const ipKeyer: (options?: IpKeyerOptions) => SyncKeyer<AnyContext> = needsCall(function ipKeyer(
  options: IpKeyerOptions = {},
) {
  const keyer =
    options.address === undefined
      ? clientKeyer(client, options)
      : givenAddressKeyer(options as AddressOptions<[context: Context]>)
  return keyer as SyncKeyer<AnyContext>
}, 'ipKeyer()')

/**
 * The client's address on `@hono/node-server`. IPv6 addresses are cut to their /56.
 * @example rateLimit({ keyer: byIP, limits: perMinute(100) })
 */
export const byIP: SyncKeyer<AnyContext> = ipKeyer()

/**
 * Returns a keyer for a header of the request, such as an API key. Throws `INVALID_OPTION` for a text that is not the name of a
 * header.
 * @example rateLimit({ keyer: byHeader('x-api-key'), limits: perMinute(100) })
 */
export const byHeader: (name: string) => SyncKeyer<AnyContext> = byHeaderOf(({ req }, name) => req.header(name))

/**
 * The method of the request.
 * @example keyers(byHeader('x-api-key'), byMethod)
 */
export const byMethod: SyncKeyer<AnyContext> = byMethodOf((context) => context.req.method)

/** A route of Hono. The helpers of Hono for routes are not used, because they would have to be loaded. */
interface Route {
  readonly method: string
  readonly path: string
  readonly handler: object
}

interface Matched {
  readonly routeIndex: number
  readonly matchedRoutes: readonly Route[]
}

/**
 * The pattern of the route, such as `GET /users/:id`. In a middleware with a wildcard, such as of `app.use`, it is the first matching route after the
 * middleware. Requests without a route share the pattern of the last middleware, such as `ALL /*`.
 *
 * Each method and each path of `app.on(methods, paths, …)` is a separate route, because a context does not show that they were declared together. Use
 * {@link routeKeyer} for them. `app.all` is one route for all methods.
 * @example keyers(byIP, byRoute)
 */
export const byRoute: SyncKeyer<AnyContext> = (context) => {
  refuseOwnCall('byRoute', context)
  const route = routeOf(context)
  return routeKey(route?.method ?? '', route?.path)
}

/**
 * Returns a keyer for the routes of an app, in which all methods and paths of one `app.on(methods, paths, …)` are one route, such as
 * `GET,POST /a,/b`. Routes that share one handler function count together. Throws `INVALID_OPTION` for anything but a Hono app.
 * @example
 * const app = new Hono()
 * app.use(rateLimit({ keyer: keyers(byIP, routeKeyer(app)), limits: perMinute(100) }))
 */
export const routeKeyer: (app: { readonly routes: readonly Route[] }) => SyncKeyer<AnyContext> = needsCall(
  function routeKeyer(app: { readonly routes: readonly Route[] }) {
    if (!Array.isArray(app?.routes)) refuse('routeKeyer', 'a Hono app, such as routeKeyer(app)', app)
    let keys = new Map<object, string>()
    let known = 0
    return define('routeKeyer', [app], function keyOfDeclaration(context: AnyContext) {
      const { routes } = app
      if (routes.length !== known) [keys, known] = [keysByHandler(routes), routes.length]
      return keys.get(handlerOf(context)) ?? byRoute(context)
    })
  },
  'routeKeyer(app)',
)

function keysByHandler(routes: readonly Route[]): Map<object, string> {
  const declared = new Map<object, Record<'methods' | 'paths', Set<string>>>()
  for (const { method, path, handler } of routes) {
    const same = madeOnce(declared, handler, () => ({ methods: new Set<string>(), paths: new Set<string>() }))
    same.methods.add(method)
    same.paths.add(path)
  }
  return new Map(
    [...declared].map(([handler, { methods, paths }]) => [handler, routeKey([...methods], [...paths].join())]),
  )
}

/** Returns the last handler of the route that a request matches. Handlers before it are middleware, which routes may share. */
function handlerOf(context: AnyContext): object {
  const route = routeOf(context)
  const { matchedRoutes } = context.req as Matched
  const same = matchedRoutes.findLast(({ method, path }) => method === route?.method && path === route.path)
  return same?.handler ?? matchedRoutes
}

function routeOf(context: AnyContext): Route | undefined {
  const { matchedRoutes, routeIndex } = context.req as Matched
  const current = matchedRoutes[routeIndex]
  if (!current?.path.endsWith('*')) return current
  // This is the first route that is certainly not a middleware: `app.use` and `app.all` both have the method `ALL`.
  return matchedRoutes.slice(routeIndex).find(({ method }) => method !== 'ALL') ?? matchedRoutes.at(-1)
}

declare module 'hono' {
  interface ContextVariableMap {
    /** The decision of the latest rate limit. */
    rateLimit: Decision | undefined
  }
}

/** The environment of a `Hono` without a type argument, in which no name is declared. */
type BlankEnv = Hono extends Hono<infer E> ? E : never

/** The environment of a `Context` without a type argument, in which every name has the type `any`. */
type AnyEnv = Context extends Context<infer E> ? E : never

/**
 * The options of {@link rateLimit}: the options of `createLimiter` or a `limiter`, and the options of HTTP responses. A request is the
 * context of Hono. `E` is the environment of the app, as in `new Hono<E>()`.
 */
export type RateLimitOptions<E extends Env = BlankEnv> = LimiterSource<Context<E>> &
  HttpOptions<Context<E>, Response> & {
    /**
     * Answers a denied request instead of the 429: it returns a response, or calls `next`. Methods such as `context.json` start with status 429.
     * `Cache-Control: no-store`, `Retry-After` and the rate-limit headers are added to the response. A larger `Retry-After` of that response stays. `next`
     * undoes the status and `Cache-Control`, and an error that it throws undoes the status. If its promise is pending for ten seconds, the process warning
     * `SLUICE_NOT_ANSWERED` is emitted once.
     */
    readonly onDenied?: OnDenied<E>
  }

/** Answers a denied request: see the option `onDenied`. */
export type OnDenied<E extends Env = BlankEnv> = (
  context: Context<E>,
  next: Next,
  decision: Decision,
) => MaybePromise<Response | void>

/** The headers that all rate limits of a request have set before there is a response. */
const drafts = new WeakMap<Context, Headers>()

function draftOf(context: Context): Headers {
  const draft = drafts.get(context) ?? new Headers()
  drafts.set(context, draft)
  return draft
}

/** Returns a header that was set. It does not read `context.res`, because this creates a response whose headers replace the headers of the handler. */
function headerOf(context: Context, name: string): string | undefined {
  return context.newResponse(null, 200).headers.get(name) ?? undefined
}

const adapter: HttpAdapter<Context, Context, Next, OnDenied<AnyEnv>> & ResponseReader<Context, Response> = {
  getMethod: (context) => context.req.method,
  getRequestHeader: (context, name) => context.req.header(name),
  // The router matches `path`, which the option `getPath` of the app can change.
  getPath: ({ req: { path, url } }) => [path, url],
  getAddress: addressOf,
  getApp: appOf,
  discardBody(context) {
    const { incoming, outgoing } = bindingsOf(context)
    if (incoming?.httpVersionMajor !== undefined && outgoing !== undefined) discardBody(incoming, outgoing)
  },
  getHeader: headerOf,
  setHeader(context, name, value) {
    draftOf(context).set(name, value)
    context.header(name, value)
  },
  removeHeader(context, name) {
    draftOf(context).delete(name)
    context.header(name, undefined)
  },
  headersSent: (context) => bindingsOf(context).outgoing?.headersSent ?? knownEndOf(context)?.response !== undefined,
  getStatus: (context) => sentResponseOf(context)!.status,
  givenResponse: (context) => sentResponseOf(context) ?? clientGone(),
  sendDenial(context, status, body) {
    context.res = context.newResponse(body, status as 429)
    // These headers belong to this body. Another body may replace it.
    for (const name of ['Content-Type', 'Cache-Control', 'Vary']) draftOf(context).delete(name)
  },
  onEnd(context, listener) {
    const closing = closingOf(context)
    if (closing === undefined) return responseEndOf(context).listen(listener)
    // It keeps the response of an upgrade, for functions of the user.
    if (bindingsOf(context).outgoing === undefined) responseEndOf(context)
    return whenClosed(closing, listener)
  },
  isGone(context) {
    const closing = closingOf(context)
    return closing === undefined ? isAborted(context.req.raw) : isClosed(closing)
  },
  getDecision: (context) => context.get('rateLimit'),
  setDecision: (context, decision) => context.set('rateLimit', decision),
  callOnDenied: (onDenied, context, _response, next, decision) =>
    callStarted({ request: context, onDenied, response: headOf(context), decision, isSentAtEnd: true }, (undo) => {
      const goOn = (): Promise<void> => {
        undo()
        // A response of the handler has no header of an earlier middleware.
        draftOf(context).delete('Cache-Control')
        return next()
      }
      return chain(onDenied(context, goOn, decision), (answer) => setDenial(context, answer))
    }),
}

/** Returns the head of a response that does not exist yet. */
function headOf(context: Context): ResponseHead {
  return {
    get statusCode() {
      return context.newResponse(null).status
    },
    set statusCode(status) {
      context.status(status as 429)
    },
    get headersSent() {
      return adapter.headersSent(context)
    },
    getHeader: (name) => headerOf(context, name),
    setHeader: (name, value) => adapter.setHeader(context, name, String(value)),
    removeHeader: (name) => adapter.removeHeader!(context, name),
  }
}

/** Makes the result of `onDenied` the response, unless it has called `next`. */
function setDenial(context: Context, answer: unknown): void {
  if (context.finalized) return
  // Without a response, this throws: Hono would answer with an empty 200.
  const denial = responseFrom('onDenied', answer, 'a function that returns a Response or calls next')
  // If a middleware such as `cors` has read `context.res`, Hono would use the headers of the draft instead of the headers of the denial.
  const theirs = [...denial.headers]
  for (const name of draftOf(context).keys()) context.header(name)
  // A response of `@hono/node-server` shares its headers with the context.
  for (const [name, value] of theirs) if (!denial.headers.has(name)) denial.headers.set(name, value)
  context.res = denial
}

/**
 * Creates a middleware for an app, a path or a route, in Hono 4. `context.get('rateLimit')` returns the decision. A header that the handler sets on its
 * response does not change, unless another middleware, such as `cors`, has read `context.res` before: Hono uses the header of the limit then. An error of
 * a keyer or of the store goes to the `onError` of the app.
 * Throws `SluiceError` for a wrong or unknown option.
 * @example app.use(rateLimit({ keyer: byIP, limits: [perSecond(10), perMinute(100)] }))
 * @example
 * interface Env {
 *   Variables: { user: { id: string } }
 * }
 * const app = new Hono<Env>()
 * app.use(rateLimit<Env>({ keyer: (context) => context.get('user').id, limits: perMinute(100) }))
 */
export function rateLimit<E extends Env = BlankEnv>(options: RateLimitOptions<E>): MiddlewareHandler {
  options = validateHttpOptions(options)
  const requestLimiter = requestLimiterOf(options, adapter)

  return async function limitRate(context, next) {
    const admitted = await requestLimiter.admit(context, context, next)
    if (!admitted && !context.finalized) return clientGone()
    try {
      if (admitted) await trackWork(context, next())
    } catch (error) {
      // Hono answers an Error. For any other value it leaves the answer to the runtime.
      if (!(error instanceof Error)) knownEndOf(context)?.deliver(new Response(null, { status: 500 }))
      throw error
    }
    addHeaders(context, () => exposedAfter(adapter, context))
    return undefined
  }
}

/** Adds the draft to the response. A response that Hono did not create itself does not have these headers. */
function addHeaders(context: Context, exposed: () => readonly string[]): void {
  const draft = drafts.get(context)
  if (draft === undefined || !context.finalized) return
  const { status, headers } = getResponse(context)
  // A protocol switch cannot be copied.
  if (status < 200) return
  for (const [name, value] of lateHeaders(headers, draft, exposed)) context.header(name, value)
}
