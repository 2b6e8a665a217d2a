import { subscribe } from 'node:diagnostics_channel'
import type { FastifyInstance, FastifyRequest, RouteOptions } from 'fastify'
import {
  addOwnHook,
  checkRouteHooks,
  configOf,
  createOwnLimit,
  type DeclaredRoute,
  type GivenOptions,
  hookIn,
  type Inheritable,
  limiterName,
  misuse,
  type OwnRoute,
  routeName,
  withInherited,
} from './routes.ts'
import { createHook, type Hook, type LimitHook } from './adapter.ts'
import { withChecks } from '../../src/http/checking.ts'
import { without } from '../../src/http/options.ts'
import { OUTCOME_OPTIONS } from '../../src/http/settlement.ts'
import { nearest } from '../../src/util/validate.ts'

interface ScopeLimit extends Inheritable {
  readonly scope: Scope
  /** True once Fastify has put the hook of the scope on a route or a 404 handler. */
  attached: boolean
  /** The hook of a limit at `preHandler`, which runs after all other hooks. */
  last?: LimitHook
}

interface AppLimits {
  readonly app: Scope
  readonly scopeLimits: ScopeLimit[]
  /** The routes with own limits. Routes that were declared before this package was loaded are added at their first request. */
  readonly ownRoutes: OwnRoute[]
  readonly scopesWithRoutes: Set<Scope>
  /** The checks that run when the app starts. */
  readonly checks: (() => void)[]
}

// A scope inherits from the scope around it, so these properties also exist in all inner scopes.
const APP_LIMITS = Symbol('sluice: limits of the app')
const ON_REQUEST = Symbol('sluice: limit of the scope, onRequest')
const PRE_HANDLER = Symbol('sluice: limit of the scope, preHandler')
const OWN_ROUTE = Symbol('sluice: limit of the route')
const SCOPE_LIMIT = { onRequest: ON_REQUEST, preHandler: PRE_HANDLER } as const
/** All copies of this package in a process share this symbol: each copy sees all apps, but only one registers the limits. */
const LIMITED = Symbol.for('sluice: limited')

type Scope = FastifyInstance & {
  [APP_LIMITS]?: AppLimits
  [ON_REQUEST]?: ScopeLimit
  [PRE_HANDLER]?: ScopeLimit
  [LIMITED]?: true
}
type Config = Record<string | symbol, unknown> & { [OWN_ROUTE]?: OwnRoute | undefined }

/**
 * Watches every app that is created from now on. This is necessary because a plugin of Fastify only sees routes that are declared after it, and none of
 * other scopes.
 */
export function watchApps(): void {
  subscribe('fastify.initialization', (message) => {
    const app = (message as { fastify: Scope }).fastify
    watchApp(app)
    // Sets the default 404 handler again, because Fastify has set it before this function was called.
    ;(app as unknown as { setNotFoundHandler(): void }).setNotFoundHandler()
  })
}

/**
 * Limits every route of a scope, even if it is declared earlier, and its 404 handler. Routes with their own limit are left out. A scope within a limited
 * scope inherits its options. Throws `NOT_APPLICABLE` if the scope already has a limit at this hook, and as `createHook` does.
 */
export function limitScope(instance: FastifyInstance, given: object): void {
  const scope = instance as Scope
  const outer = nearestLimit(Object.getPrototypeOf(scope) as Scope, hookIn(given))?.options
  const options = outer === undefined ? (given as GivenOptions) : within(outer, given, scope.prefix || '/')
  const limit = createHook(options)
  const hook = hookIn(options) ?? 'onRequest'
  if (Object.hasOwn(scope, SCOPE_LIMIT[hook]))
    throw misuse(
      `rateLimit is registered twice, at ${hook}, in the scope ${JSON.stringify(scope.prefix || '/')}, and would count every ` +
        'request twice. Register it once with all `limits`, or with a `stack` of limiters.',
    )
  const scopeLimit: ScopeLimit = { scope, hook, options, attached: false }
  scope[SCOPE_LIMIT[hook]] = scopeLimit
  scope[LIMITED] = true
  const { scopeLimits } = scope[APP_LIMITS] ?? watchApp(scope)
  scopeLimits.push(scopeLimit)
  // `reply.callNotFound` runs the preHandler hooks again, as hooks of the 404 handler.
  const passed = hook === 'preHandler' ? new WeakSet<FastifyRequest>() : undefined

  /** Creates the hook of one route or 404 handler. `request.routeOptions` creates an object at each read, so it is read once. */
  function limitRoute(): LimitHook {
    let config: Config | undefined
    return function limitRequest(request, reply, done) {
      if (passed?.has(request)) return done()
      passed?.add(request)
      config ??= request.routeOptions.config as unknown as Config
      if (!Object.hasOwn(config, 'rateLimit') || config.rateLimit === undefined) return limit(request, reply, done)
      if (config.rateLimit === false) return done()
      const own = (config[OWN_ROUTE] ??= ownRouteOf(request))
      return own?.caller === scopeLimit ? own.limit!(request, reply, done) : done()
    }
  }

  /** Returns a route that was declared early; `undefined` if another scope limits it. Throws `NOT_APPLICABLE` if its options have another hook. */
  function ownRouteOf(request: FastifyRequest): OwnRoute | undefined {
    const { ownRoutes } = (request.server as Scope)[APP_LIMITS]!
    const { config, method, url = '' } = request.routeOptions
    const { rateLimit: options } = config as unknown as Config
    const known = ownRoutes.find((each) => each.options === options && each.route.method === method && each.url === url)
    if (known !== undefined) return known
    if (nearestLimit(request.server, hookIn(options)) !== scopeLimit) return undefined
    if ((hookIn(options) ?? hook) !== hook)
      throw misuse(
        `The \`config.rateLimit\` of route ${routeName(method, url)} has another \`hook\` than its scope, but the route was ` +
          "declared before sluice was loaded. Import 'sluice/fastify' before the app is created, or declare the route after " +
          '`await app.register(rateLimit)`.',
      )
    const own: OwnRoute = { options, route: { method }, url, caller: scopeLimit }
    createOwnLimit(own, ownRoutes, scopeLimit)
    ownRoutes.push(own)
    return own
  }
  addScopeHook(scopeLimit, hook, limitRoute)
}

/** Options that say which requests count, and how much. They are not inherited: a `skip` may leave out the requests that an inner scope limits. */
const COUNTED = ['skip', 'allow', 'address', 'cost', ...OUTCOME_OPTIONS]

/** Adds the options that a scope inherits from a limited scope around it: those that a route inherits, except `COUNTED`. */
function within(outer: GivenOptions, given: object, prefix: string): GivenOptions {
  return withInherited(given, without(outer, COUNTED) as GivenOptions, limiterName(outer, prefix))
}

/** Returns the limit of a scope, or of the nearest limited scope around it. If that scope has two limits, returns the one at `hook`. */
export function nearestLimit(instance: FastifyInstance, hook: Hook = 'onRequest'): Inheritable | undefined {
  for (let each = instance as Scope | null; each !== null; each = Object.getPrototypeOf(each) as Scope | null) {
    for (const at of [hook, 'onRequest', 'preHandler'] as const)
      if (Object.hasOwn(each, SCOPE_LIMIT[at])) return each[SCOPE_LIMIT[at]]
  }
  return undefined
}

type CreateRouteHook = () => LimitHook

/**
 * Adds the hook of a limit to its scope. A limit at `preHandler` also has `last`, for `appendLast`. The hook of the scope runs before the hooks of routes,
 * so it only limits routes without `last`: Fastify has created their app before this package was loaded.
 *
 * Fastify binds the hooks of a route one after another, and the hooks of its scope first. So `last` can find the bound hook of the scope on the same route.
 */
function addScopeHook(scopeLimit: ScopeLimit, hook: Hook, limitRoute: CreateRouteHook): void {
  const { checks: wanted } = scopeLimit.options
  let isChecked = false
  let latest = { isReplaced: false }
  function bindOfScope(): LimitHook {
    scopeLimit.attached = true
    const limit = limitRoute()
    if (hook === 'onRequest') return limit
    const bound = { isReplaced: false }
    latest = bound
    return function limitEarly(request, reply, done) {
      if (bound.isReplaced) return done()
      if (!isChecked) withChecks(wanted as boolean | undefined, (checks) => checks.warnOfEarlyRoute())
      isChecked = true
      limit(request, reply, done)
    }
  }
  function bindLast(): LimitHook {
    latest.isReplaced = true
    return limitRoute()
  }
  if (hook === 'preHandler') scopeLimit.last = withBind(limitRoute, bindLast)
  scopeLimit.scope.addHook(hook as 'onRequest', withBind(bindOfScope, bindOfScope))
}

/** Returns the hooks of all limits at `preHandler` of the scopes around a route or a 404 handler, the outermost first. */
function lastHooks(scope: Scope): LimitHook[] {
  const hooks: LimitHook[] = []
  for (let each: Scope | null = scope; each !== null; each = Object.getPrototypeOf(each) as Scope | null)
    if (Object.hasOwn(each, PRE_HANDLER)) hooks.unshift(each[PRE_HANDLER]!.last!)
  return hooks
}

function watchApp(app: Scope): AppLimits {
  const limits: AppLimits = { app, scopeLimits: [], ownRoutes: [], scopesWithRoutes: new Set(), checks: [] }
  app[APP_LIMITS] = limits
  app.addHook('onRoute', function watchRoute(route) {
    const scope = this as Scope
    const { url, constraints, handler } = route
    const given = configOf(route)
    limits.scopesWithRoutes.add(scope)
    checkRouteHooks(route)
    const checkPlace = (): void => refuseMisplaced(route, scope, `Route ${routeName(route.method, url)}`)
    checkPlace()
    // Hooks of the application run after this hook, and may set the limit of the route.
    scope.after(() => {
      limits.checks.push(checkPlace, () => refuseMisspelt(route, scope))
      const own = addOwnHook(route, { url, constraints, given, handler, scope })
      if (own !== undefined) {
        limits.ownRoutes.push(own)
        limits.checks.push(() => prepareOwnRoute(own, limits.ownRoutes))
      }
      appendLast(route, () => [...lastHooks(scope), ...(own !== undefined && isLast(own) ? [own.last] : [])])
    })
  })
  watchNotFound(app, limits)
  app.addHook('onReady', function checkLimits(done: (error?: Error) => void) {
    for (const check of limits.checks) check()
    const unused = limits.scopeLimits.find((each) => !hasRoutes(each, limits))
    if (unused !== undefined)
      throw misuse(
        `rateLimit is registered in a scope (${JSON.stringify(unused.scope.prefix || '/')}) that has no routes, so it limits ` +
          'nothing. Register it where the routes are, or on the app.',
      )
    done()
  })
  return limits
}

/** Adds the limits at `preHandler` to every 404 handler that an app sets from now on, as its last hooks. */
function watchNotFound(app: Scope, { checks }: AppLimits): void {
  type SetHandler = (this: Scope, options: object, handler?: unknown) => Scope
  const setHandler = app.setNotFoundHandler as unknown as SetHandler
  const watched: SetHandler = function setNotFoundHandler(...given) {
    const [options, handler] = typeof given[0] === 'function' ? [{}, given[0]] : [{ ...given[0] }, given[1]]
    setHandler.call(this, options, handler)
    checks.push(() => refuseMisplaced(options, this, 'The 404 handler'))
    appendLast(options, () => lastHooks(this))
    return this
  }
  Object.assign(app, { setNotFoundHandler: watched })
}

/** Returns true for a route whose own limit runs after all other preHandler hooks. Must be called after all plugins are loaded. */
function isLast({ options, scope }: DeclaredRoute): boolean {
  const hook = hookIn(options)
  return (hook ?? nearestLimit(scope)?.hook) === 'preHandler'
}

/** Creates the limit of a route. Throws `NOT_APPLICABLE` for a route outside of every limited scope. */
function prepareOwnRoute(own: DeclaredRoute, routes: readonly OwnRoute[]): void {
  const scope: Scope = own.scope
  const nearest = nearestLimit(scope, hookIn(own.options))
  if (nearest !== undefined) {
    own.hook = isLast(own) ? 'preHandler' : 'onRequest'
    createOwnLimit(own, routes, nearest)
  }
  // Other plugins also have options with this name.
  else if (scope[LIMITED] !== true && isOurs(own.options))
    throw misuse(
      `Route ${routeName(own.route.method, own.url)} has \`config.rateLimit\`, but rateLimit is not registered in its scope or a ` +
        'parent scope. Register it on the app: `await app.register(rateLimit, options)`.',
    )
}

/** Throws `NOT_APPLICABLE` for a route or a 404 handler with `rateLimit` outside of `config`, where it has no effect. */
function refuseMisplaced(declared: object, scope: Scope, owner: string): void {
  if (!('rateLimit' in declared)) return
  if (scope[LIMITED] === true || isOurs(declared.rateLimit))
    throw misuse(`${owner} has an option \`rateLimit\`. It has no effect there. Write \`config: { rateLimit: … }\`.`)
}

/** Throws `NOT_APPLICABLE` for an object or false in `config` whose name differs little from `rateLimit`, such as `rateLimits`. */
function refuseMisspelt({ method, url, config = {} }: RouteOptions, scope: Scope): void {
  if (scope[LIMITED] !== true) return
  for (const [name, value] of Object.entries(config)) {
    if (name === 'rateLimit' || (value !== false && (typeof value !== 'object' || value === null))) continue
    if (nearest(name.replace(/[-_]/g, ''), ['rateLimit'], 2) !== undefined)
      throw misuse(
        `Route ${routeName(method, url)} has \`config.${name}\`, which limits nothing. Write \`config: { rateLimit: … }\`, or another name for a value of your own.`,
      )
  }
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

/**
 * Adds hooks to a route or a 404 handler that run after all other preHandler hooks. Fastify reads the property when all plugins are loaded, so hooks that are
 * added before that run first. The array that a reader gets is frozen, so adding to it throws.
 *
 * @param lastHooks returns the hooks; they can change until all plugins are loaded
 */
function appendLast(hooked: { preHandler?: unknown }, lastHooks: () => readonly LimitHook[]): void {
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

/** Returns a hook that Fastify binds with `bind`, once for each route. If it is called directly, `create` makes a hook for this call. */
function withBind(create: CreateRouteHook, bind: CreateRouteHook): LimitHook {
  return Object.assign(((request, reply, done) => create()(request, reply, done)) satisfies LimitHook, { bind })
}
