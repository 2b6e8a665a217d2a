/* oxlint-disable typescript/no-generated-empty-object-type -- apps declare members */
import type Application from 'koa'
import type { Context, DefaultContext, DefaultState, Middleware, Next, ParameterizedContext, Response } from 'koa'
import type { Decision } from '../../src/limiter/decision.ts'
import { callStarted, type ResponseHead } from '../../src/http/response/on-denied.ts'
import { markAborted, whenClosed } from '../../src/http/response/node.ts'
import { isClosed } from '../../src/util/closed.ts'
import { discardBody } from '../../src/http/response/unread-body.ts'
import { unroutedKey, withChecks } from '../../src/http/checking.ts'
import { withNames } from '../../src/http/headers/cors.ts'
import { RETRY_AFTER_MS } from '../../src/http/headers/retry-after.ts'
import { writtenHeaders } from '../../src/http/headers/styles.ts'
import { latestPass } from '../../src/http/headers/stacked.ts'
import { createRequestLimiter } from '../../src/http/request-limiter.ts'
import type { HttpOptions, LimiterSource } from '../../src/http/options.ts'
import { trackWork } from '../../src/http/work.ts'
import type { HttpAdapter } from '../../src/http/adapter.ts'
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
import { define, isMadeBy, type SyncKeyer } from '../../src/limiter/keyers.ts'
import { refuseOwnCall } from '../../src/util/validate.ts'

/** The part of a context that the keyers of this module read. It has no state, so the keyers fit apps with any state. */
export type AnyContext = Pick<Context, 'app' | 'method' | 'req'>

const client: ClientInfo<Context> = {
  address: (context) => context.ip,
  proxyHeader: ({ app, req }) => proxyHeaderIn(req.headers, app.proxyIpHeader.toLowerCase()),
  trust: trustOf,
  app: (context) => context.app,
  isSet: (context) => isSetByApp(context, context.req.socket, context.ips),
}

/** Returns which proxies an app trusts. A proxy appends to X-Forwarded-For, and replaces a header with any other name. */
function trustOf({ app }: Context): ProxyTrust {
  if (!app.proxy) return 'nobody'
  return app.maxIpsCount > 0 || app.proxyIpHeader.toLowerCase() !== 'x-forwarded-for' ? 'some' : 'everybody'
}

/** Returns the client's address, for rules. */
const addressOf: (request: Context) => string | undefined = addressReader(client)

/**
 * Returns a keyer for the client's address in `context.ip`, which depends on the app's `proxy` settings. IPv6 addresses are cut to
 * a prefix.
 * Throws `INVALID_OPTION`, `UNKNOWN_OPTION`.
 * @example ipKeyer({ ipv6Subnet: 64 }) // the default is 56
 */
export const ipKeyer: (options?: IpKeyerOptions) => SyncKeyer<AnyContext> = ipKeyerOf<AnyContext>(client)

/**
 * The client's address in `context.ip`. IPv6 addresses are cut to their /56.
 * @example rateLimit({ keyer: byIP, limits: perMinute(100) })
 */
export const byIP: SyncKeyer<AnyContext> = ipKeyer()

/**
 * Returns a keyer for a header of the request, such as an API key. Throws `INVALID_OPTION` for a text that is not the name of a
 * header.
 * @example rateLimit({ keyer: byHeader('x-api-key'), limits: perMinute(100) })
 */
export const byHeader: (name: string) => SyncKeyer<AnyContext> = byHeaderOf(({ req }, name) => nodeHeader(req, name))

/**
 * The method of the request.
 * @example keyers(byHeader('x-api-key'), byMethod)
 */
export const byMethod: SyncKeyer<AnyContext> = byMethodOf((context) => context.method)

/**
 * The pattern of the route, such as `GET /users/:id`, with `@koa/router`. Outside of a router, all requests share one bucket, and the process warning
 * `SLUICE_NO_ROUTE` is emitted once for each app. In the middleware of a router, it is the pattern of the route that will answer. All methods of a route
 * count together. In an app that is mounted with `koa-mount`, the path of the mount is a part of the key: `GET /users/:id of /v1`.
 * @example keyers(byIP, byRoute)
 */
export const byRoute: SyncKeyer<AnyContext> = define('byRoute', ['koa'], (context: AnyContext) => {
  refuseOwnCall('byRoute', context)
  const routed = context as AnyContext & Matched
  const { matched, _matchedRoute: current } = routed
  if (matched === undefined && current === undefined) return unroutedKey(context, context.app)
  return [keyOfRoute(routed), mountOf(routed)].filter(Boolean).join(' of ')
})

function keyOfRoute({ method, matched, _matchedRoute: current }: Matched): string {
  const answers = ({ methods }: Layer): boolean => methods.includes(method)
  // A middleware after all routes with the same path does not run.
  const last = (matched?.findLastIndex(answers) ?? -1) + 1
  const candidates = matched?.slice(0, last) ?? []
  const at = candidates.findLastIndex(({ path }) => path === current)
  const route = candidates.slice(Math.max(at, 0)).find(answers)
  if (route === undefined) return routeKey(method, current)
  // HTTP has nine methods. A route of `router.all` has dozens.
  return routeKey(route.methods.length > 10 ? 'ALL' : route.methods, route.path)
}

/** Returns the path at which `koa-mount` has mounted the app of a request. After this app, `mountPath` still exists, but `path` is whole again. */
function mountOf({ mountPath, path, originalUrl }: Matched): string | undefined {
  if (mountPath === undefined) return undefined
  const [sent = ''] = originalUrl.split('?', 1)
  const isMounted = sent.endsWith(mountPath + path) || (path === '/' && sent.endsWith(mountPath))
  return isMounted ? mountPath : undefined
}

/** The routes and middlewares of `@koa/router` that match the path of a request, in the order in which they run. */
interface Matched {
  readonly method: string
  readonly path: string
  readonly originalUrl: string
  readonly matched?: readonly Layer[]
  readonly _matchedRoute?: RoutePattern
  readonly mountPath?: string
}

interface Layer {
  readonly methods: readonly string[]
  readonly path: RoutePattern
}

export type { IpKeyerOptions } from '../../src/http/keys/address.ts'
export type { HeaderStyle } from '../../src/http/headers/types.ts'

declare module 'koa' {
  interface DefaultState {
    /** The decision of the latest rate limit. */
    rateLimit?: Decision
  }
}

/** The part of the state that {@link rateLimit} sets, for apps with their own state type. */
export interface RateLimitState {
  /** The decision of the latest rate limit. */
  rateLimit?: Decision
}

/** The members of a type with a declared name, without its index signatures, which have the type `any`. */
export type Declared<Type> = {
  [
    Name in keyof Type as string extends Name ? never : number extends Name ? never : symbol extends Name ? never : Name
  ]: Type[Name]
}

/**
 * The options of {@link rateLimit}: the options of `createLimiter` or a `limiter`, and the options of HTTP responses. A request is the
 * context of Koa. `State` and `Custom` are the types of the app, as in `new Koa<State, Custom>()`. By default they are the declared members of
 * `DefaultState` and `DefaultContext`.
 */
export type RateLimitOptions<State = Declared<DefaultState>, Custom = Declared<DefaultContext>> = LimiterSource<
  ParameterizedContext<State, Custom>
> &
  HttpOptions<ParameterizedContext<State, Custom>, Response> & {
    /**
     * Answers a denied request instead of the 429. The status 429, `Cache-Control: no-store`, `Retry-After` and the rate-limit
     * headers are already set. `next` undoes the status and `Cache-Control`, and an error that it throws undoes the status. If its promise is pending for
     * ten seconds, the process warning `SLUICE_NOT_ANSWERED` is emitted once.
     */
    readonly onDenied?: OnDenied<State, Custom>
  }

/** Answers a denied request: see the option `onDenied`. */
export type OnDenied<State = Declared<DefaultState>, Custom = Declared<DefaultContext>> = (
  context: ParameterizedContext<State, Custom>,
  next: Next,
  decision: Decision,
) => unknown

// The adapter uses the response of Node where possible, because the response of Koa checks the name of every header first.
const adapter: HttpAdapter<Context, Response, Next, OnDenied<DefaultState, DefaultContext>> = {
  getMethod: (context) => context.req.method,
  getRequestHeader: ({ req }, name) => nodeHeader(req, name),
  // Routers match `path`, which a middleware can rewrite. It is null for a URL without a path.
  getPath: ({ path, originalUrl }) => (path === originalUrl ? path : [(path as string | null) ?? '', originalUrl]),
  getAddress: addressOf,
  getApp: (context) => context.app,
  discardBody: ({ req }, { res }) => discardBody(req, res),
  getHeader: (response, name) => response.res.getHeader(name),
  setHeader: (response, name, value) => void response.res.setHeader(name, value),
  removeHeader: (response, name) => response.res.removeHeader(name),
  headersSent: (response) => response.res.headersSent,
  getStatus: (response) => response.res.statusCode,
  markAborted: ({ res }) => markAborted(res),
  sendDenial(response, status, body) {
    // `response.status` is not used, because it refuses statuses without a name.
    response.res.statusCode = status
    if (response.req.httpVersionMajor < 2) response.message = ''
    Object.assign(response, { _explicitStatus: true })
    response.body = body
  },
  onEnd: (response, listener) => whenClosed(response.res, listener),
  isGone: (_context, { res }) => isClosed(res),
  getDecision: (context) => context.state.rateLimit,
  setDecision: (context, decision) => void (context.state.rateLimit = decision),
  callOnDenied: (onDenied, context, _response, next, decision) =>
    callStarted({ request: context, onDenied, response: headOf(context), decision, isSentAtEnd: true }, (undo) => {
      const goOn = (): Promise<unknown> => {
        undo()
        return next()
      }
      return onDenied(context, goOn, decision)
    }),
}

/** Returns the head of a response. Koa changes a status when a body is set, unless the status was set before: then it is explicit. */
function headOf({ res, response }: Context): ResponseHead {
  const { statusCode } = res
  const { _explicitStatus: isExplicit = false } = response as { _explicitStatus?: boolean }
  return {
    get statusCode() {
      return res.statusCode
    },
    set statusCode(status) {
      res.statusCode = status
      Object.assign(response, { _explicitStatus: status === statusCode ? isExplicit : true })
    },
    get headersSent() {
      return res.headersSent
    },
    get destroyed() {
      return res.destroyed
    },
    getHeader: (name) => res.getHeader(name),
    setHeader: (name, value) => res.setHeader(name, value),
    removeHeader: (name) => res.removeHeader(name),
  }
}

/**
 * Creates a middleware for Koa 2 and 3. The decision is on `context.state.rateLimit`.
 * Throws `SluiceError` for a wrong or unknown option.
 * @example app.use(rateLimit({ keyer: byIP, limits: [perSecond(10), perMinute(100)] }))
 * @example
 * interface State extends RateLimitState { user: { id: string } }
 * const app = new Koa<State>()
 * app.use(rateLimit<State>({ keyer: (context) => context.state.user.id, limits: perMinute(100) }))
 */
export function rateLimit<State = Declared<DefaultState>, Custom = Declared<DefaultContext>>(
  given: RateLimitOptions<State, Custom>,
): Middleware<State & RateLimitState, Custom> {
  // Only functions of the user read the state.
  const options = given as unknown as RateLimitOptions<DefaultState, DefaultContext>
  const requestLimiter = createRequestLimiter(options, adapter, function checkApp(app) {
    if (isLastAfterRouter(app as Application, limitRate)) withChecks(true, (checks) => checks.warnOfLateMount())
    // An earlier router may have set a route.
    if (isMadeBy('byRoute', options.keyer) && (app as Application).middleware.includes(limitRate as never))
      withChecks(true, (checks) => checks.warnOfNoRoute(app))
  })

  async function limitRate(context: Context, next: Next): Promise<unknown> {
    try {
      const admitted = await requestLimiter.admit(context, context.response, next)
      // An earlier middleware may use the result of later ones.
      return admitted ? await trackWork(context, next()) : undefined
    } catch (error) {
      keepHeaders(context)
      throw error
    }
  }
  return limitRate as unknown as Middleware<State & RateLimitState, Custom>
}

/** Returns true for the last middleware of an app that comes after a router of `@koa/router`. */
function isLastAfterRouter({ middleware }: Application, limitRate: unknown): boolean {
  return middleware.indexOf(limitRate as never) === middleware.length - 1 && middleware.some((each) => 'router' in each)
}

const EXPOSE_HEADERS = 'Access-Control-Expose-Headers'

/**
 * Keeps the rate-limit headers on the response of an error, because the request was counted. Koa removes all headers before it answers an uncaught error.
 * They are set again when the response is sent, unless the error has headers with the same names. Names that scripts can read are merged.
 */
function keepHeaders(context: Context): void {
  const { res, state } = context
  const latest = latestPass(adapter, context)
  if (latest === undefined || res.headersSent) return
  const { shown, parts } = latest
  const written = parts.flatMap(({ config }) => writtenHeaders(config, shown.limits))
  const isDenial = state.rateLimit?.allowed === false && res.getHeader('Cache-Control') === 'no-store'
  const ofDenial = isDenial ? ['Cache-Control', 'Retry-After', RETRY_AFTER_MS] : []
  const kept = [...written, ...ofDenial].map((name) => [name, res.getHeader(name)] as const)
  const exposed = res.getHeader(EXPOSE_HEADERS)
  const { end } = res
  function setAgain(): void {
    for (const [name, value] of kept) if (value !== undefined && !res.hasHeader(name)) res.setHeader(name, value)
    if (exposed === undefined) return
    res.setHeader(EXPOSE_HEADERS, withNames(String(res.getHeader(EXPOSE_HEADERS) ?? ''), String(exposed).split(', ')))
  }
  res.end = function endWithHeaders(...given: never[]) {
    res.end = end
    if (!res.headersSent) setAgain()
    return end.apply(res, given as never)
  } as typeof end
}
