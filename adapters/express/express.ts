import type { Application, NextFunction, Request, Response } from 'express'
import { markAborted, sendBody, whenAnswered, whenClosed } from '../../src/http/response/node.ts'
import { isClosed } from '../../src/util/closed.ts'
import { discardBody, hasUnreadBody, isLargeBody } from '../../src/http/response/unread-body.ts'
import { byHeaderOf, byMethodOf, nodeHeader, routeKey, type RoutePattern } from '../../src/http/keys/request-keyers.ts'
import {
  addressReader,
  type ClientInfo,
  type IpKeyerOptions,
  ipKeyerOf,
  isSetByApp,
  proxyHeaderIn,
  type ProxyTrust,
} from '../../src/http/keys/address.ts'
import { unroutedKey, withChecks } from '../../src/http/checking.ts'
import { define, isMadeBy, type SyncKeyer } from '../../src/limiter/keyers.ts'
import { refuseOwnCall } from '../../src/util/validate.ts'
import type { Decision } from '../../src/limiter/decision.ts'
import { callStarted } from '../../src/http/response/on-denied.ts'
import { createRequestLimiter, whenAdmitted } from '../../src/http/request-limiter.ts'
import type { HttpOptions, LimiterSource } from '../../src/http/options.ts'
import type { HttpAdapter } from '../../src/http/adapter.ts'
import { checkMounts, type Layer, middlewareOf, stackOf, watchMounts } from './mounted-late.ts'

/**
 * Returns true if a middleware is mounted with `use`. It does not run in a route then: `request.route` is an earlier route that called `next`, if there is
 * one.
 */
function isMountedWithUse(app: Application, middleware: unknown): boolean {
  return [...routersIn(stackOf(app))].some(({ stack }) => stack.some((layer) => middlewareOf(layer) === middleware))
}

/** A router, and the numbers of the routers that lead to it, such as `2.1`. They are the same in each process of a program. */
interface Place {
  readonly stack: readonly Layer[]
  readonly numbers: readonly number[]
}

/** Lists an app and all routers in it, each once: routers can contain each other. */
function* routersIn(
  stack: readonly Layer[],
  numbers: readonly number[] = [],
  seen = new Set<readonly Layer[]>(),
): Generator<Place> {
  seen.add(stack)
  yield { stack, numbers }
  const within = stack.flatMap(({ handle }) => (handle.stack === undefined ? [] : [handle.stack]))
  for (const [i, inner] of within.entries()) if (!seen.has(inner)) yield* routersIn(inner, [...numbers, i + 1], seen)
}

/**
 * Makes a large body that has not arrived look complete. The error handler of Express reads a body to its end before it answers. With this function, it
 * answers at once, and the connection ends after the response.
 */
function skipLargeBody(request: Request): void {
  if (!hasUnreadBody(request) || !isLargeBody(request)) return
  const options = { configurable: true, writable: true }
  Object.defineProperties(request, { complete: { value: true, ...options }, readable: { value: false, ...options } })
}

interface Route {
  readonly path: RoutePattern
  readonly methods: Readonly<Record<string, boolean>>
}

const keys = new WeakMap<Application, WeakMap<Route, string>>()

/**
 * Returns the key of a route, such as `GET /:id of router 2`. It has all methods of the route, because the client can choose any of them, its declared
 * pattern, and the number of its router, because a router does not know the path at which it is mounted.
 */
function keyOfRoute(app: Application, route: Route): string {
  const known = keys.get(app) ?? new WeakMap<Route, string>()
  keys.set(app, known)
  const kept = known.get(route)
  if (kept !== undefined) return kept
  const methods = Object.keys(route.methods).map((method) => method.toUpperCase())
  const key = [routeKey(methods, route.path), placeIn(app, route)].filter(Boolean).join(' of ')
  known.set(route, key)
  return key
}

/** Returns the place of a route; `''` for a route of the app itself. A router that was not mounted with `use` cannot be found. */
function placeIn(app: Application, route: Route): string {
  const found = [...routersIn(stackOf(app))].find(({ stack }) =>
    stack.some((layer) => (layer.route as unknown) === route),
  )
  const place = found === undefined ? 'out of sight' : found.numbers.join('.')
  return [app.path(), place && `router ${place}`].filter(Boolean).join(', ')
}

const client: ClientInfo<Request> = {
  address: (request) => request.ip,
  proxyHeader: (request) => proxyHeaderIn(request.headers),
  trust: trustOf,
  app: (request) => request.app,
  isSet: (request) => isSetByApp(request, request.socket, request.ips),
}

/** Returns which proxies an app trusts. It trusts every proxy if it trusts an address that is reserved for documentation, 99 hops away. */
function trustOf({ app }: Request): ProxyTrust {
  if (!app.get('trust proxy')) return 'nobody'
  const trusts = app.get('trust proxy fn') as (address: string, hops: number) => boolean
  return trusts('203.0.113.1', 99) ? 'everybody' : 'some'
}

/** Returns the client's address, for rules. */
export const addressOf: (request: Request) => string | undefined = addressReader(client)

/**
 * Returns a keyer for the client's address in `request.ip`, which depends on the app's `trust proxy`. IPv6 addresses are cut to a
 * prefix.
 * Throws `INVALID_OPTION`, `UNKNOWN_OPTION`.
 * @example ipKeyer({ ipv6Subnet: 64 }) // the default is 56
 */
export const ipKeyer: (options?: IpKeyerOptions) => SyncKeyer<Request> = ipKeyerOf(client)

/**
 * The client's address in `request.ip`. IPv6 addresses are cut to their /56.
 * @example rateLimit({ keyer: byIP, limits: perMinute(100) })
 */
export const byIP: SyncKeyer<Request> = ipKeyer()

/**
 * Returns a keyer for a header of the request, such as an API key. Throws `INVALID_OPTION` for a text that is not the name of a
 * header.
 * @example rateLimit({ keyer: byHeader('x-api-key'), limits: perMinute(100) })
 */
export const byHeader: (name: string) => SyncKeyer<Request> = byHeaderOf(nodeHeader)

/**
 * The method of the request.
 * @example keyers(byHeader('x-api-key'), byMethod)
 */
export const byMethod: SyncKeyer<Request> = byMethodOf((request) => request.method)

/**
 * The pattern of the route, such as `GET /users/:id`, in the middleware of a route. In any other middleware, all requests share one bucket, and the process
 * warning `SLUICE_NO_ROUTE` is emitted once for each app. The key of a route in a router has the number of that router: `GET /:id of router 2`. This works
 * for routers and apps that were mounted with `use`. In all others, routes with the same pattern share a bucket.
 * @example keyers(byIP, byRoute)
 */
export const byRoute: SyncKeyer<Request> = define('byRoute', ['express'], (request: Request) => {
  refuseOwnCall('byRoute', request)
  const route = request.route as Route | undefined
  return route === undefined ? unroutedKey(request, request.app) : keyOfRoute(request.app, route)
})

/**
 * Returns the full path that the router matches, also in a mounted router. If a middleware has rewritten the URL, also returns the URL that the client sent.
 */
export function pathsOf({ baseUrl, path, originalUrl }: Request): string | readonly string[] {
  // It is null for a URL without a path.
  const routed = baseUrl + ((path as string | null) ?? '')
  const isSame =
    originalUrl.startsWith(routed) && (originalUrl.length === routed.length || originalUrl[routed.length] === '?')
  return isSame ? routed : [routed, originalUrl]
}

declare global {
  namespace Express {
    interface Request {
      /** The decision of the latest rate limit. */
      rateLimit?: Decision
    }
  }
}

/** The options of {@link rateLimit}: the options of `createLimiter` or a `limiter`, and the options of HTTP responses. */
export type RateLimitOptions = LimiterSource<Request> &
  HttpOptions<Request, Response> & {
    /**
     * Answers a denied request instead of the 429. The status 429, `Cache-Control: no-store`, `Retry-After` and the rate-limit
     * headers are already set. It must send a response or call `next`. `next` undoes the status and `Cache-Control`. An error that it throws or passes to
     * `next` undoes only the status. Its return value is not sent. If it does neither within ten seconds, the process warning `SLUICE_NOT_ANSWERED` is
     * emitted once.
     */
    readonly onDenied?: OnDenied
  }

/** A middleware for any types of requests and responses, so that the handlers after it keep their types. */
export type RateLimit = <Params, ResBody, ReqBody, Query, Locals extends Record<string, unknown>>(
  request: Request<Params, ResBody, ReqBody, Query, Locals>,
  response: Response<ResBody, Locals>,
  next: NextFunction,
) => void

/** Called with denials: see the option `onDenied`. */
export type OnDenied = (request: Request, response: Response, next: NextFunction, decision: Decision) => unknown

const adapter: HttpAdapter<Request, Response, NextFunction, OnDenied> = {
  getMethod: (request) => request.method,
  getRequestHeader: nodeHeader,
  getPath: pathsOf,
  getAddress: addressOf,
  getApp: (request) => request.app,
  discardBody,
  getHeader: (response, name) => response.getHeader(name),
  setHeader: (response, name, value) => void response.setHeader(name, value),
  removeHeader: (response, name) => response.removeHeader(name),
  headersSent: (response) => response.headersSent,
  getStatus: (response) => response.statusCode,
  markAborted,
  sendDenial: sendBody,
  onEnd: (response, listener) => whenClosed(response, listener),
  isGone: (_request, response) => isClosed(response),
  onAnswer: whenAnswered,
  getDecision: (request) => request.rateLimit,
  setDecision: (request, decision) => void (request.rateLimit = decision),
  callOnDenied: (onDenied, request, response, next, decision) =>
    callStarted({ request, onDenied, response, decision }, (undo) => {
      const goOn = (...reason: [unknown?]): void => {
        const hasFailed = isError(reason[0])
        undo(hasFailed)
        if (hasFailed) skipLargeBody(request)
        ;(next as (...reason: [unknown?]) => void)(...reason)
      }
      return onDenied(request, response, goOn, decision)
    }),
}

/** Returns true for an error. In Express, `'route'` and `'router'` mean the end of a route or router. */
function isError(reason: unknown): boolean {
  return Boolean(reason) && reason !== 'route' && reason !== 'router'
}

/**
 * Creates a middleware for an app, a router or a route, in Express 4 and 5. The decision is on `request.rateLimit`.
 * Throws `SluiceError` for a wrong or unknown option.
 * @example app.use(rateLimit({ keyer: byIP, limits: [perSecond(10), perMinute(100)] }))
 */
export function rateLimit(options: RateLimitOptions): RateLimit {
  const requestLimiter = createRequestLimiter(options, adapter, function checkApp(app) {
    checkMounts(app as Application)
    if (isMadeBy('byRoute', options.keyer) && isMountedWithUse(app as Application, limitRate))
      withChecks(true, (checks) => checks.warnOfNoRoute(app))
  })
  const limitRate: RateLimit = function limitRate(given, response, next) {
    const request = given as unknown as Request
    function failed(error: unknown): void {
      skipLargeBody(request)
      next(error)
    }
    whenAdmitted(requestLimiter, request, response as Response, next, next, failed)
  }
  if (options.checks !== false) watchMounts(limitRate)
  return limitRate
}
