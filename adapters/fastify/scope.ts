import { subscribe } from 'node:diagnostics_channel'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { limitsNothing, outOfScope, registeredTwice, routeName } from './messages.ts'
import {
  addOwnHook,
  configOf,
  type CreateHook,
  createOwnLimit,
  earlyLimit,
  type EarlyRoute,
  findOwnRoute,
  type Hook,
  type LimitHook,
  type OwnLimit,
  type OwnRoute,
} from './own-routes.ts'

/** A limit of the scope that it is registered in. */
interface ScopeLimit {
  readonly scope: Scope
  /** True once Fastify has put the hook of the scope on a route or a 404 handler. */
  attached: boolean
  readonly early: EarlyRoute[]
}

/** The limits and routes of an app. */
interface AppLimits {
  readonly app: Scope
  readonly scopeLimits: ScopeLimit[]
  readonly ownRoutes: OwnRoute[]
  readonly scopesWithRoutes: Set<Scope>
}

// A scope inherits from the scope around it, so these properties also exist in all scopes within.
const APP_LIMITS = Symbol('sluice: limits of the app')
const ON_REQUEST = Symbol('sluice: limit of the scope, onRequest')
const PRE_HANDLER = Symbol('sluice: limit of the scope, preHandler')
const OWN_LIMIT = Symbol('sluice: limit of the route')
const SCOPE_LIMIT = { onRequest: ON_REQUEST, preHandler: PRE_HANDLER } as const
/** The same symbol for all copies of this package in a process: each copy sees all apps, but one registers the limits. */
const LIMITED = Symbol.for('sluice: limited')

type Scope = FastifyInstance & {
  [APP_LIMITS]?: AppLimits
  [ON_REQUEST]?: ScopeLimit
  [PRE_HANDLER]?: ScopeLimit
  [LIMITED]?: true
}
type Config = Record<string | symbol, unknown> & { [OWN_LIMIT]?: OwnLimit }

/**
 * Listens to every app of the process that is created from now on. Fastify tells a plugin only about routes that are declared
 * after it, and nothing about those of other scopes.
 */
export function watchApps(create: CreateHook): void {
  subscribe('fastify.initialization', (message) => watchApp((message as { fastify: Scope }).fastify, create))
}

/**
 * Limits every route of a scope, whenever it is declared, and its 404 handler. Routes with a limit of their own are excepted.
 * Throws `NOT_APPLICABLE` when the scope already has a limit at this hook.
 */
export function limitScope(instance: FastifyInstance, hook: Hook, limit: LimitHook, create: CreateHook): void {
  const scope = instance as Scope
  if (Object.hasOwn(scope, SCOPE_LIMIT[hook])) throw registeredTwice(scope.prefix, hook)
  const scopeLimit: ScopeLimit = { scope, attached: false, early: [] }
  scope[SCOPE_LIMIT[hook]] = scopeLimit
  scope[LIMITED] = true
  const { scopeLimits } = scope[APP_LIMITS] ?? watchApp(scope, create)
  scopeLimits.push(scopeLimit)
  // `reply.callNotFound` runs the preHandler hooks again, as the hooks of a 404 handler without a route.
  const passed = hook === 'preHandler' ? new WeakSet<FastifyRequest>() : undefined

  function limitRequest(request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void): void {
    if (passed?.has(request)) return done()
    passed?.add(request)
    const config = request.routeOptions.config as unknown as Config
    if (config.rateLimit === undefined) return limit(request, reply, done)
    if (config.rateLimit === false) return done()
    const { ownRoutes } = (request.server as Scope)[APP_LIMITS]!
    const own = (config[OWN_LIMIT] ??=
      findOwnRoute(request, ownRoutes) ?? earlyLimit(request, scopeLimit.early, scopeLimit, hook, create))
    return own.caller === scopeLimit ? own.limit!(request, reply, done) : done()
  }
  scope.addHook(hook as 'onRequest', noticeBinding(limitRequest, scopeLimit))
}

/** Sets `attached` when Fastify binds the hook to the scope of a route or a 404 handler. */
function noticeBinding(hook: LimitHook, scopeLimit: ScopeLimit): LimitHook {
  function bind(this: LimitHook, scope: unknown): LimitHook {
    scopeLimit.attached = true
    return Function.prototype.bind.call(this, scope) as LimitHook
  }
  return Object.assign(hook, { bind })
}

function watchApp(app: Scope, create: CreateHook): AppLimits {
  const limits: AppLimits = { app, scopeLimits: [], ownRoutes: [], scopesWithRoutes: new Set() }
  app[APP_LIMITS] = limits
  app.addHook('onRoute', function watchRoute(route) {
    const scope = this as Scope
    const { url, constraints, handler } = route
    const given = configOf(route)
    limits.scopesWithRoutes.add(scope)
    // Hooks of the application run after this one, and may set the limit of the route.
    scope.after(() => {
      const own = addOwnHook({ route, url, constraints, given, handler, scope })
      if (own !== undefined) limits.ownRoutes.push(own)
    })
  })
  app.addHook('onReady', function checkLimits(done: (error?: Error) => void) {
    for (const own of limits.ownRoutes) prepareOwnRoute(own, limits.ownRoutes, create)
    for (const each of limits.scopeLimits) if (!hasRoutes(each, limits)) throw limitsNothing(each.scope.prefix)
    done()
  })
  return limits
}

/** Creates the limit of a route. Throws `NOT_APPLICABLE` for a route outside of every limited scope. */
function prepareOwnRoute(own: OwnRoute, routes: readonly OwnRoute[], create: CreateHook): void {
  const scope: Scope = own.scope
  if (scope[ON_REQUEST] !== undefined || scope[PRE_HANDLER] !== undefined) createOwnLimit(own, routes, create)
  // Other plugins, too, have options with this name.
  else if (scope[LIMITED] !== true && isOurs(own.options)) throw outOfScope(routeName(own.route.method, own.url))
}

function isOurs(options: unknown): boolean {
  return typeof options === 'object' && options !== null && ('limits' in options || 'limiter' in options)
}

function hasRoutes({ scope, attached }: ScopeLimit, { app, scopesWithRoutes }: AppLimits): boolean {
  if (attached || scope === app) return true
  for (const each of scopesWithRoutes)
    if (each === scope || Object.prototype.isPrototypeOf.call(scope, each)) return true
  return false
}
