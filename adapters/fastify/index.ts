import fastifyPlugin from 'fastify-plugin'
import type { FastifyInstance, FastifyPluginAsync, FastifyRequest } from 'fastify'
import type { Decision } from '../../src/limiter/decision.ts'
import type { LimiterOptions } from '../../src/limiter/options.ts'
import type { Absent } from '../../src/http/options.ts'
import { createHook, type RateLimitOptions } from './adapter.ts'
import { misuse, routeHook, withInherited } from './routes.ts'
import { limitScope, nearestLimit, watchApps } from './scope.ts'

export type { OnDenied, RateLimitOptions } from './adapter.ts'
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
      Omit<LimiterOptions<FastifyRequest>, 'keyer'> &
      Absent<'keyer' | 'limiter' | 'rules'>)

type WithoutHook<Options> = Options extends unknown ? Omit<Options, 'hook'> : never

/** The hook of a route, for requests of any types. */
export type RateLimitHook = (request: object, reply: object, done: (error?: Error) => void) => void

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

watchApps()

async function register(scope: FastifyInstance, options: RateLimitOptions): Promise<void> {
  if (!scope.hasRequestDecorator('rateLimit')) scope.decorateRequest('rateLimit')
  limitScope(scope, options)
  if (!scope.hasDecorator('rateLimit')) scope.decorate('rateLimit', routeLimiter as never)
}

/** The method `app.rateLimit`. */
const routeLimiter = routeHook((scope, options) => {
  const nearest = nearestLimit(scope)
  if (nearest === undefined) return undefined
  const { hook: _scopeHook, ...inherited } = nearest.options
  return createHook(withInherited(options, inherited))
})
