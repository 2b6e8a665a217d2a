import fastifyPlugin from 'fastify-plugin'
import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import type { Decision } from '../../src/limiter/decision.ts'
import type { LimiterOptions } from '../../src/limiter/options.ts'
import { denialStatus } from '../../src/http/denial.ts'
import { isClosed, markAborted, whenAnswered, whenClosed } from '../../src/http/response/node.ts'
import { discardBody } from '../../src/http/response/unread-body.ts'
import { callStarted } from '../../src/http/response/on-denied.ts'
import { requestLimiterOf, whenAdmitted } from '../../src/http/request-limiter.ts'
import { type HttpOptions, type LimiterSource, validateHttpOptions } from '../../src/http/options.ts'
import type { HttpAdapter } from '../../src/http/adapter.ts'
import { nodeHeader } from '../../src/http/keys/request-keyers.ts'
import { chain } from '../../src/util/maybe-promise.ts'
import { oneOf, refuse } from '../../src/util/validate.ts'
import { addressOf, headOf, pathsOf } from './keyers.ts'
import { throwDenial } from './denial-error.ts'
import { type Hook, type LimitHook, misuse, routeHook, withInherited } from './routes.ts'
import { limitScope, nearestLimit, watchApps } from './scope.ts'

export { byHeader, byIP, byMethod, byRoute, ipKeyer } from './keyers.ts'
export { DenialError } from './denial-error.ts'
export type { IpKeyerOptions } from '../../src/http/keys/address.ts'
export type { HeaderStyle } from '../../src/http/headers/types.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The decision of the latest rate limit. */
    rateLimit?: Decision
  }
  interface FastifyContextConfig {
    /** The limits of this route. They replace the limits of the scopes around it. `false`: no limits. */
    rateLimit?: RouteRateLimitOptions | false
  }
  interface FastifyInstance {
    /**
     * Returns a hook that limits a route in addition to its scope: `onRequest`, `preValidation` or `preHandler`. This method exists after
     * `await app.register(rateLimit, …)`, also in inner scopes. The options are the options of a route, without `hook`: the place of the hook is used instead.
     * Throws `SluiceError` for wrong options, and `NOT_APPLICABLE` if it is not called as a method. If a route uses the hook at a point where a response
     * has begun already, the declaration of the route throws `NOT_APPLICABLE`.
     * @example app.post('/login', { preHandler: app.rateLimit({ limits: perMinute(5) }) }, login)
     */
    rateLimit(options: WithoutHook<RouteRateLimitOptions>): RateLimitHook
  }
}

/**
 * The options of a route, in `config.rateLimit` or for `app.rateLimit`. A route inherits every option of its scope that it does not have itself, such as
 * `keyer`, `cost`, `store`, `skip`, `headers`, `onDenied` and `hook`. It does not inherit `limits`, `limiter`, `rules`, `name` and `shared`. In an inherited
 * `store`, it counts under its own name, such as `default POST /login`. If a route has one of `onDenied`, `message` and `statusCode`, it inherits none of
 * these. If it has one of the options of the headers, it inherits none of those. If it has a `limiter` or `rules`, it does not inherit keys, costs or
 * store.
 */
export type RouteRateLimitOptions =
  | RateLimitOptions
  | (Omit<RateLimitOptions, keyof LimiterOptions<never> | 'limiter' | 'rules'> &
      Omit<LimiterOptions<FastifyRequest>, 'keyer'> & {
        readonly keyer?: never
        readonly limiter?: never
        readonly rules?: never
      })

type WithoutHook<Options> = Options extends unknown ? Omit<Options, 'hook'> : never

/** The hook of a route, for requests of any types. */
export type RateLimitHook = (request: object, reply: object, done: (error?: Error) => void) => void

/** The options of {@link rateLimit}: the options of `createLimiter` or a `limiter`, and the options of HTTP responses. */
export type RateLimitOptions = LimiterSource<FastifyRequest> &
  HttpOptions<FastifyRequest, FastifyReply> & {
    /**
     * Answers a denied request instead of the 429. The status 429, `Cache-Control: no-store`, `Retry-After` and the rate-limit
     * headers are already set. Its return value is sent. Without a return value, it must send a reply. If it does not do so within ten seconds, the process
     * warning `SLUICE_NOT_ANSWERED` is emitted once. `'throw'`: the error handler of the scope receives a {@link DenialError}.
     * @example await app.register(rateLimit, { keyer: byIP, limits: perMinute(100), onDenied: 'throw' })
     */
    readonly onDenied?: OnDenied | 'throw'
    /** When to decide. Use `'preHandler'` if keys or costs need the body or an authenticated user. Default `'onRequest'`. */
    readonly hook?: Hook
  }

/** Called with denials: see the option `onDenied`. */
export type OnDenied = (request: FastifyRequest, reply: FastifyReply, decision: Decision) => unknown

const adapter: HttpAdapter<FastifyRequest, FastifyReply, undefined, OnDenied> = {
  getMethod: (request) => request.method,
  getRequestHeader: nodeHeader,
  getPath: pathsOf,
  getAddress: addressOf,
  getApp: (request) => request.server.server,
  discardBody: (request, reply) => discardBody(request.raw, reply.raw),
  getHeader: (reply, name) => reply.getHeader(name),
  setHeader: (reply, name, value) => void reply.header(name, value),
  removeHeader: (reply, name) => void reply.removeHeader(name),
  headersSent: (reply) => reply.raw.headersSent,
  getStatus: (reply) => reply.raw.statusCode,
  markAborted: ({ raw }) => markAborted(raw),
  // The body is sent as bytes, because Fastify adds a charset to a text with a JSON type.
  sendDenial: (reply, status, body) => void reply.code(status).send(Buffer.from(body)),
  onEnd: (reply, listener) => whenClosed(reply.raw, listener),
  isGone: (_request, { raw }) => isClosed(raw),
  onAnswer: ({ raw }, listener) => whenAnswered(raw, listener),
  getDecision: (request) => request.rateLimit,
  setDecision: (request, decision) => void (request.rateLimit = decision),
  callOnDenied: (onDenied, request, reply, _next, decision) =>
    callStarted({ request, onDenied, response: headOf(reply), status: denialStatus(decision) }, () =>
      chain(
        onDenied(request, reply, decision),
        (answer) => void (answer === undefined || reply.sent || reply.send(answer)),
      ),
    ),
}

/**
 * A plugin that limits its scope and all inner scopes: their routes, even if they are declared earlier, and their 404 handlers. In a scope within a limited
 * scope, it adds limits. It inherits the same options as a route, except those that say which requests count: `skip`, `allow`, `address`, `cost`, `count`,
 * `refundWhen`, `settleWith`, `resetWhen`. `config: { rateLimit: options }` gives a route its own limits instead, and `config: { rateLimit: false }` gives
 * it none. The decision is on `request.rateLimit`.
 *
 * When the app starts, it throws `SluiceError` for a wrong or unknown option, and `NOT_APPLICABLE` if it would limit nothing or count requests twice. If it
 * is called directly, as if it created a middleware, it throws `NOT_APPLICABLE` at once.
 * @example await app.register(rateLimit, { keyer: byIP, limits: [perSecond(10), perMinute(100)] })
 */
export const rateLimit: FastifyPluginAsync<RateLimitOptions> = fastifyPlugin(
  function rateLimit(scope: FastifyInstance, options: RateLimitOptions): Promise<void> {
    // This throws synchronously: `app.register` also accepts a promise of a plugin, and may ignore its rejection.
    if (typeof scope?.addHook !== 'function')
      throw misuse(
        'rateLimit is a plugin that Fastify calls: write `app.register(rateLimit, { … })`, not `app.register(rateLimit({ … }))`.',
      )
    return register(scope, options)
  },
  { name: 'sluice', fastify: '5.x' },
)

watchApps(createHook)

async function register(scope: FastifyInstance, options: RateLimitOptions): Promise<void> {
  if (!scope.hasRequestDecorator('rateLimit')) scope.decorateRequest('rateLimit')
  limitScope(scope, options, createHook)
  if (!scope.hasDecorator('rateLimit')) scope.decorate('rateLimit', routeLimiter as never)
}

/** The method `app.rateLimit`. */
const routeLimiter = routeHook((scope, options) => {
  const nearest = nearestLimit(scope)
  if (nearest === undefined) return undefined
  const { hook: _scopeHook, ...inherited } = nearest.options
  return createHook(withInherited(options, inherited) as unknown as RateLimitOptions)
})

/** Replaces `onDenied: 'throw'` by a function. */
function withThrown(given: RateLimitOptions): RateLimitOptions {
  const onDenied: unknown = given?.onDenied
  if (onDenied === 'throw') return { ...given, onDenied: throwDenial(given.unit) }
  return typeof onDenied === 'string' ? refuse('onDenied', "a function or 'throw'", onDenied) : given
}

type Answered = LimiterSource<FastifyRequest> &
  HttpOptions<FastifyRequest, FastifyReply> & { readonly onDenied?: OnDenied }

/** Creates the hook that limits requests. Throws `SluiceError` for wrong options. */
function createHook(given: RateLimitOptions): LimitHook {
  given = validateHttpOptions(withThrown(given), 'hook')
  const { hook = 'onRequest', ...options } = given
  oneOf('hook', hook, ['onRequest', 'preHandler'])
  const requestLimiter = requestLimiterOf(options as Answered, adapter)
  return function limitRate(request, reply, done) {
    whenAdmitted(requestLimiter, request, reply, undefined, done, done)
  }
}
