import { subscribe } from 'node:diagnostics_channel'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import {
  addOwnHook,
  checkRouteHooks,
  configOf,
  type CreateHook,
  createOwnLimit,
  earlyLimit,
  type EarlyRoute,
  findOwnRoute,
  type GivenOptions,
  type Hook,
  hookIn,
  type Inheritable,
  inheriting,
  type LimitHook,
  limitsNothing,
  misplacedOptions,
  outOfScope,
  type OwnLimit,
  type OwnRoute,
  registeredTwice,
  routeName,
} from './routes.ts'
import { withChecks } from '../../src/http/checking.ts'

/** A limit of the scope that it is registered in. */
interface ScopeLimit extends Inheritable {
  readonly scope: Scope
  /** True once Fastify has put the hook of the scope on a route or a 404 handler. */
  attached: boolean
  readonly early: EarlyRoute[]
  /** The hook of a limit at `preHandler` that runs after all others. */
  last?: LimitHook
}

/** The limits and routes of an app. */
interface AppLimits {
  readonly app: Scope
  readonly scopeLimits: ScopeLimit[]
  readonly ownRoutes: OwnRoute[]
  readonly scopesWithRoutes: Set<Scope>
  /** Checks for an option `rateLimit` outside of `config`. */
  readonly misplaced: (() => void)[]
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
type Config = Record<string | symbol, unknown> & { [OWN_LIMIT]?: OwnLimit | undefined }

/**
 * Listens to every app of the process that is created from now on. Fastify tells a plugin only about routes that are declared
 * after it, and nothing about those of other scopes.
 */
export function watchApps(create: CreateHook): void {
  subscribe('fastify.initialization', (message) => {
    const app = (message as { fastify: Scope }).fastify
    watchApp(app, create)
    // The default 404 handler again, since Fastify has set it before.
    ;(app as unknown as { setNotFoundHandler(): void }).setNotFoundHandler()
  })
}

/**
 * Limits every route of a scope, whenever it is declared, and its 404 handler. Routes with their own limit are excepted.
 * Throws `NOT_APPLICABLE` when the scope already has a limit at this hook.
 */
export function limitScope(
  instance: FastifyInstance,
  options: GivenOptions,
  limit: LimitHook,
  create: CreateHook,
): void {
  const scope = instance as Scope
  const hook = hookIn(options) ?? 'onRequest'
  if (Object.hasOwn(scope, SCOPE_LIMIT[hook])) throw registeredTwice(scope.prefix, hook)
  const scopeLimit: ScopeLimit = { scope, hook, options, attached: false, early: [] }
  scope[SCOPE_LIMIT[hook]] = scopeLimit
  scope[LIMITED] = true
  const { scopeLimits } = scope[APP_LIMITS] ?? watchApp(scope, create)
  scopeLimits.push(scopeLimit)
  // `reply.callNotFound` runs the preHandler hooks again, as the hooks of a 404 handler without a route.
  const passed = hook === 'preHandler' ? new WeakSet<FastifyRequest>() : undefined

  /** Creates the hook of one route or 404 handler. `request.routeOptions` makes an object at each read, so it is read once. */
  function limitRoute(): LimitHook {
    let config: Config | undefined
    return function limitRequest(request, reply, done) {
      if (passed?.has(request)) return done()
      passed?.add(request)
      config ??= request.routeOptions.config as unknown as Config
      if (config.rateLimit === undefined) return limit(request, reply, done)
      if (config.rateLimit === false) return done()
      const own = (config[OWN_LIMIT] ??= ownLimitOf(request))
      return own?.caller === scopeLimit ? own.limit!(request, reply, done) : done()
    }
  }

  /** Returns `undefined` for an early route whose limit is created by a scope within. */
  function ownLimitOf(request: FastifyRequest): OwnLimit | undefined {
    const known = findOwnRoute(request, (request.server as Scope)[APP_LIMITS]!.ownRoutes)
    if (known !== undefined) return known
    const { config, method, url } = request.routeOptions
    const given = hookIn((config as unknown as Config).rateLimit)
    const nearest = nearestLimit(request.server, given)!
    if (given === undefined && nearest !== scopeLimit) return undefined
    const counted = String(method) === 'HEAD' ? 'GET' : method
    return earlyLimit(request, scopeLimit.early, scopeLimit, hook, inheriting(nearest, create, counted, url ?? ''))
  }
  addScopeHook(scopeLimit, hook, limitRoute)
}

/** Returns the limit of a scope or of the nearest one around it: the one at `hook`, if it has two. */
export function nearestLimit(instance: FastifyInstance, hook: Hook = 'onRequest'): Inheritable | undefined {
  for (let each = instance as Scope | null; each !== null; each = Object.getPrototypeOf(each) as Scope | null) {
    for (const at of [hook, 'onRequest', 'preHandler'] as const)
      if (Object.hasOwn(each, SCOPE_LIMIT[at])) return each[SCOPE_LIMIT[at]]
  }
  return undefined
}

/** Adds the hook of a limit to its scope, and sets `attached` when Fastify puts it on a route or a 404 handler. */
function addScopeHook(scopeLimit: ScopeLimit, hook: Hook, limitRoute: CreateRouteHook): void {
  let isChecked = false
  function limitEarlyRoute(): LimitHook {
    const limit = limitRoute()
    return function limitEarly(request, reply, done) {
      if (!isChecked)
        withChecks(scopeLimit.options['checks'] as boolean | undefined, (checks) => checks.warnOfEarlyRoute())
      isChecked = true
      limit(request, reply, done)
    }
  }
  const isLate = hook === 'preHandler'
  const { bind, last } = isLate ? preHandlers(limitRoute, limitEarlyRoute) : { bind: limitRoute }
  if (last !== undefined) scopeLimit.last = last
  const bound = withBind(isLate ? limitEarlyRoute : limitRoute, () => {
    scopeLimit.attached = true
    return bind()
  })
  scopeLimit.scope.addHook(hook as 'onRequest', bound)
}

/** Returns the hooks of all limits at `preHandler` around a route or a 404 handler, the outermost first. */
function lastHooks(scope: Scope): LimitHook[] {
  const hooks: LimitHook[] = []
  for (let each: Scope | null = scope; each !== null; each = Object.getPrototypeOf(each) as Scope | null)
    if (Object.hasOwn(each, PRE_HANDLER)) hooks.unshift(each[PRE_HANDLER]!.last!)
  return hooks
}

function watchApp(app: Scope, create: CreateHook): AppLimits {
  const limits: AppLimits = { app, scopeLimits: [], ownRoutes: [], scopesWithRoutes: new Set(), misplaced: [] }
  app[APP_LIMITS] = limits
  app.addHook('onRoute', function watchRoute(route) {
    const scope = this as Scope
    const { url, constraints, handler } = route
    const given = configOf(route)
    limits.scopesWithRoutes.add(scope)
    checkRouteHooks(route)
    const checkPlace = (): void => refuseMisplaced(route, scope, `Route ${routeName(route.method, url)}`)
    checkPlace()
    // Hooks of the application run after this one, and may set the limit of the route.
    scope.after(() => {
      if ('rateLimit' in route) limits.misplaced.push(checkPlace)
      const own = addOwnHook({ route, url, constraints, given, handler, scope })
      if (own !== undefined) limits.ownRoutes.push(own)
      appendLast(route, () => [...lastHooks(scope), ...(own !== undefined && isLast(own) ? [own.last] : [])])
    })
  })
  watchNotFound(app, limits)
  app.addHook('onReady', function checkLimits(done: (error?: Error) => void) {
    for (const check of limits.misplaced) check()
    for (const own of limits.ownRoutes) prepareOwnRoute(own, limits.ownRoutes, create)
    for (const each of limits.scopeLimits) if (!hasRoutes(each, limits)) throw limitsNothing(each.scope.prefix)
    done()
  })
  return limits
}

/** Gives every 404 handler that an app sets from now on the limits at `preHandler`, as its last hooks. */
function watchNotFound(app: Scope, { misplaced }: AppLimits): void {
  type SetHandler = (this: Scope, options: object, handler?: unknown) => Scope
  const setHandler = app.setNotFoundHandler as unknown as SetHandler
  const watched: SetHandler = function setNotFoundHandler(...given) {
    const [options, handler] = typeof given[0] === 'function' ? [{}, given[0]] : [{ ...given[0] }, given[1]]
    setHandler.call(this, options, handler)
    misplaced.push(() => refuseMisplaced(options, this, 'The 404 handler'))
    appendLast(options, () => lastHooks(this))
    return this
  }
  Object.assign(app, { setNotFoundHandler: watched })
}

/** Returns true for a route whose own limit runs after all other preHandler hooks. Call it when all plugins are loaded. */
function isLast({ options, scope }: OwnRoute): boolean {
  const hook = hookIn(options)
  return (hook ?? nearestLimit(scope)?.hook) === 'preHandler'
}

/** Creates the limit of a route. Throws `NOT_APPLICABLE` for a route outside of every limited scope. */
function prepareOwnRoute(own: OwnRoute, routes: readonly OwnRoute[], create: CreateHook): void {
  const scope: Scope = own.scope
  const { route, url, constraints } = own
  const nearest = nearestLimit(scope, hookIn(own.options))
  if (nearest !== undefined) {
    own.hook = isLast(own) ? 'preHandler' : 'onRequest'
    createOwnLimit(own, routes, inheriting(nearest, create, route.method, url, constraints))
  }
  // Other plugins, too, have options with this name.
  else if (scope[LIMITED] !== true && isOurs(own.options)) throw outOfScope(routeName(own.route.method, own.url))
}

/** Throws `NOT_APPLICABLE` for a route or a 404 handler with `rateLimit` outside of `config`, where it has no effect. */
function refuseMisplaced(declared: object, scope: Scope, owner: string): void {
  if (!('rateLimit' in declared)) return
  if (scope[LIMITED] === true || isOurs(declared.rateLimit)) throw misplacedOptions(owner)
}

function isOurs(options: unknown): boolean {
  return (
    typeof options === 'object' &&
    options !== null &&
    ('limits' in options || 'limiter' in options || 'rules' in options)
  )
}

function hasRoutes({ scope, attached }: ScopeLimit, { app, scopesWithRoutes }: AppLimits): boolean {
  if (attached || scope === app) return true
  for (const each of scopesWithRoutes)
    if (each === scope || Object.prototype.isPrototypeOf.call(scope, each)) return true
  return false
}

/** A route, or the options of a 404 handler. */
interface Hooked {
  preHandler?: unknown
}

/**
 * Gives a route or a 404 handler hooks that run after all other preHandler hooks. Fastify reads the property when all plugins are
 * loaded, so that hooks that are added until then run before. The array that a reader gets is frozen: adding to it throws.
 *
 * @param lastHooks returns the hooks; they can change until all plugins are loaded
 */
function appendLast(hooked: Hooked, lastHooks: () => readonly LimitHook[]): void {
  let others = hooked.preHandler
  Object.defineProperty(hooked, 'preHandler', {
    configurable: true,
    enumerable: true,
    get() {
      const last = lastHooks()
      return last.length === 0 ? others : Object.freeze([others ?? []].flat().concat(last))
    },
    set(given: unknown) {
      const last: readonly unknown[] = lastHooks()
      const isRead = Array.isArray(given) && given.some((hook) => last.includes(hook))
      others = isRead ? given.filter((hook) => !last.includes(hook)) : given
    },
  })
}

/** Creates the hook of one route or 404 handler. */
type CreateRouteHook = () => LimitHook

/** The two hooks of a limit at `preHandler`. On a route or a 404 handler that has both, only `last` limits. */
interface PreHandlers {
  /** Binds the hook of a scope. It runs before the hooks of routes, and before hooks that are added to the scope later. */
  readonly bind: CreateRouteHook
  /** For `appendLast`. */
  readonly last: LimitHook
}

/**
 * Creates the hooks of a limit. Fastify binds the hooks of a route one after another, first those of its scope, and calls what
 * `bind` returns. So `last` knows which one of the bound hooks of the scope is on the same route.
 *
 * @param early limits where `last` is missing, since Fastify created the app before this package was loaded
 */
function preHandlers(limit: CreateRouteHook, early: CreateRouteHook): PreHandlers {
  let latest = { isReplaced: false }
  function bindOfScope(): LimitHook {
    const bound = { isReplaced: false }
    const limitEarly = early()
    latest = bound
    return (request, reply, done) => (bound.isReplaced ? done() : limitEarly(request, reply, done))
  }
  function bindLast(): LimitHook {
    latest.isReplaced = true
    return limit()
  }
  return { bind: bindOfScope, last: withBind(limit, bindLast) }
}

/** Returns a hook that Fastify binds with `bind`, once for each route. Where it is called directly, `create` makes the hook of that call. */
function withBind(create: CreateRouteHook, bind: CreateRouteHook): LimitHook {
  return Object.assign(((request, reply, done) => create()(request, reply, done)) satisfies LimitHook, { bind })
}
