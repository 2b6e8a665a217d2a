import { subscribe } from 'node:diagnostics_channel'
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { SluiceError } from '../../src/util/errors.ts'
import { coversNothing, nameOf, outOfScope, registeredTwice, seenTooLate, wrongConfig } from './messages.ts'

/** Where in a request's life a limit decides. */
export type Hook = 'onRequest' | 'preHandler'

/** Decides about a request, and calls `done` unless it has been answered. */
export type Pass = (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) => void

/** Makes what `config.rateLimit` of a route asks for. Throws `SluiceError` for options that make no limit. */
export type Make = (options: never) => Pass

/** A limiter, at the scope that it is registered in. */
interface Cover {
  readonly scope: Scope
  /** Fastify has put the scope's hook on a route or a 404 handler. */
  attached: boolean
  /** What it runs for routes that were declared before anybody looked. */
  readonly unseen: Unseen[]
}

/** What runs for a route in place of the limits around it. */
interface Instead {
  /** Absent until the app is ready, and when the option is not for us. */
  pass?: Pass
  /** Who runs it, when the route has no hook of its own for that. */
  readonly runner?: Cover
}

/** A route, and where it was declared; Fastify and its hooks change the `route` afterwards. */
interface Declared {
  readonly route: RouteOptions
  readonly url: string
  readonly constraints: RouteOptions['constraints']
  /** Its `config.rateLimit` before hooks of the application have changed it. */
  readonly given: unknown
  /** Its handler, likewise. */
  readonly handler: unknown
  readonly scope: Scope
}

/** A route's own limit. */
interface Own extends Declared, Instead {
  readonly options: unknown
}

interface Unseen extends Instead, Route {
  readonly options: unknown
}

interface Route {
  readonly method: string | readonly string[]
  readonly url: string
}

interface Watch {
  readonly app: Scope
  readonly covers: Cover[]
  readonly own: Own[]
  /** Scopes that have a route. */
  readonly peopled: Set<Scope>
}

// A scope inherits from the scope around it, so what is kept under these names holds for the scopes within, too.
const WATCH = Symbol('sluice: the routes of the app')
const ON_REQUEST = Symbol('sluice: who limits the scope, on request')
const PRE_HANDLER = Symbol('sluice: who limits the scope, before the handler')
const OWN = Symbol('sluice: the limit of the route')
const COVER = { onRequest: ON_REQUEST, preHandler: PRE_HANDLER } as const
/** Says the same for all copies of this package in a process: each sees all apps, and one sees to the limits. */
const COVERED = Symbol.for('sluice: limited')

type Scope = FastifyInstance & { [WATCH]?: Watch; [ON_REQUEST]?: Cover; [PRE_HANDLER]?: Cover; [COVERED]?: true }
type Config = Record<string | symbol, unknown> & { [OWN]?: Instead }

/**
 * From here on sees each app of the process when it is made: Fastify tells a plugin only of routes that are declared after
 * it, and nothing of those in other scopes.
 */
export function watchApps(make: Make): void {
  subscribe('fastify.initialization', (message) => watch((message as { fastify: Scope }).fastify, make))
}

/**
 * Puts `pass` before every route of a scope, whenever declared, and before its 404 handler; routes with a limit of their own
 * excepted. Throws `NOT_APPLICABLE` when the scope has one at this hook already.
 */
export function coverScope(instance: FastifyInstance, hook: Hook, pass: Pass, make: Make): void {
  const scope = instance as Scope
  if (Object.hasOwn(scope, COVER[hook])) throw registeredTwice(scope.prefix, hook)
  const cover: Cover = { scope, attached: false, unseen: [] }
  scope[COVER[hook]] = cover
  scope[COVERED] = true
  const { covers } = scope[WATCH] ?? watch(scope, make)
  covers.push(cover)
  // `reply.callNotFound` runs the hooks before the handler once more, as those of a 404 handler that knows no route.
  const passed = hook === 'preHandler' ? new WeakSet<FastifyRequest>() : undefined

  function limitScope(request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void): void {
    if (passed?.has(request)) return done()
    passed?.add(request)
    const config = request.routeOptions.config as unknown as Config
    if (config.rateLimit === undefined) return pass(request, reply, done)
    if (config.rateLimit === false) return done()
    const own = (config[OWN] ??= ownOf(request) ?? unseen(request, cover, hook, make))
    return own.runner === cover ? own.pass!(request, reply, done) : done()
  }
  scope.addHook(hook as 'onRequest', noting(limitScope, cover))
}

/** Fastify binds a hook to the scope of each route and 404 handler that it puts it on. */
function noting(pass: Pass, cover: Cover): Pass {
  function bind(this: Pass, scope: unknown): Pass {
    cover.attached = true
    return Function.prototype.bind.call(this, scope) as Pass
  }
  return Object.assign(pass, { bind })
}

function watch(app: Scope, make: Make): Watch {
  const watched: Watch = { app, covers: [], own: [], peopled: new Set() }
  app[WATCH] = watched
  app.addHook('onRoute', function watchRoute(route) {
    const scope = this as Scope
    const { url, constraints, handler } = route
    const given = (route.config as Config | undefined)?.rateLimit
    watched.peopled.add(scope)
    // The hooks of the application come after this one, and may say what limits the route.
    scope.after(() => limitRoute({ route, url, constraints, given, handler, scope }, watched.own))
  })
  app.addHook('onReady', function checkLimits(done: (error?: Error) => void) {
    for (const own of watched.own) apply(own, watched.own, make)
    for (const cover of watched.covers) if (!covering(cover, watched)) throw coversNothing(cover.scope.prefix)
    done()
  })
  return watched
}

/** Gives a route that asks for a limit of its own a hook for it. */
function limitRoute(declared: Declared, known: Own[]): void {
  const { route } = declared
  const options = (route.config as Config | undefined)?.rateLimit
  if (options === undefined || options === false) return
  const own: Own = { ...declared, options }
  known.push(own)
  const hook: Hook = (options as { hook?: Hook } | null)?.hook === 'preHandler' ? 'preHandler' : 'onRequest'
  const pass: Pass = (request, reply, done) => (own.pass === undefined ? done() : own.pass(request, reply, done))
  route[hook] = ([] as unknown[]).concat(route[hook] ?? [], pass) as never
}

/** The limit of a route that was seen, found by what Fastify tells of the route. */
function ownOf({ server, routeOptions: { config, method, url } }: FastifyRequest): Own | undefined {
  const { rateLimit } = config as unknown as Config
  const { own } = (server as Scope)[WATCH]!
  return own.find((each) => each.options === rateLimit && each.route.method === method && each.url === url)
}

/** HEAD beside GET, of the same options at the same place. Fastify moves a GET route at `/prefix` on to `/prefix/` as well. */
function areTwins(a: Own, b: Own): boolean {
  // A hook may have made options for each of them.
  const alike = a.options === b.options || (a.given === b.given && a.handler === b.handler)
  if (!alike || a.constraints !== b.constraints) return false
  return (a.url === b.url || a.route.url === b.url) && areHeadAndGet(a.route, b.route)
}

function areHeadAndGet(a: Pick<Route, 'method'>, b: Pick<Route, 'method'>): boolean {
  const methods = [a.method, b.method]
  return methods.includes('HEAD') && methods.flat().includes('GET')
}

function apply(own: Own, known: readonly Own[], make: Make): void {
  const { scope, options, route, url } = own
  const name = nameOf(route.method, url)
  if (scope[COVER.onRequest] !== undefined || scope[COVER.preHandler] !== undefined)
    own.pass = known.find((each) => areTwins(each, own))?.pass ?? makeFor(name, options, make)
  // Other plugins, too, keep options under this name.
  else if (scope[COVERED] !== true && isOurs(options)) throw outOfScope(name)
}

function isOurs(options: unknown): boolean {
  return typeof options === 'object' && options !== null && ('limits' in options || 'limiter' in options)
}

/** A route that was declared before anybody looked: in an app made before this module was loaded. */
function unseen(request: FastifyRequest, runner: Cover, hook: Hook, make: Make): Instead {
  const { method, url, config } = request.routeOptions as unknown as Route & { config: Config }
  const options = config.rateLimit as { hook?: Hook } | null
  const known = runner.unseen.find((each) => each.options === options && areOne(each, { method, url }))
  if (known !== undefined) return known
  const name = nameOf(method, url)
  if ((options?.hook ?? 'onRequest') !== hook) throw seenTooLate(name)
  const made = { pass: makeFor(name, options, make), runner, options, method, url }
  runner.unseen.push(made)
  return made
}

/** What Fastify has made of one route: its HEAD, and `/prefix/` beside `/prefix`. Another version looks the same. */
function areOne(a: Route, b: Route): boolean {
  const [one, other] = [a, b].map(({ url }) => (url.endsWith('/') ? url : `${url}/`))
  return one === other && (String(a.method) === String(b.method) || areHeadAndGet(a, b))
}

/** Makes what a route asks for. Throws as `make` does, and names the route. */
function makeFor(route: string, options: unknown, make: Make): Pass {
  try {
    return make(options as never)
  } catch (error) {
    throw error instanceof SluiceError ? wrongConfig(route, error) : error
  }
}

function covering({ scope, attached }: Cover, { app, peopled }: Watch): boolean {
  if (attached || scope === app) return true
  for (const each of peopled) if (each === scope || Object.prototype.isPrototypeOf.call(scope, each)) return true
  return false
}
