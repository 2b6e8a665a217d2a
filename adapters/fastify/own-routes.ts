import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { SluiceError } from '../../src/util/errors.ts'
import { declaredTooEarly, routeName, wrongConfig } from './messages.ts'

/** The point in the life of a request at which a limit decides. */
export type Hook = 'onRequest' | 'preHandler'

/** Decides about a request, and calls `done` unless the request was answered. */
export type LimitHook = (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) => void

/** Creates the hook of a route from its `config.rateLimit`. Throws `SluiceError` for wrong options. */
export type CreateHook = (options: never) => LimitHook

/** The limit of a route, in place of the limits of the scopes around it. */
export interface OwnLimit {
  /** Undefined until the app is ready, and when the options are not for this package. */
  limit?: LimitHook
  /** The scope limit that calls `limit`. Absent when the route has its own hook. */
  readonly caller?: object
}

/** A route with `config.rateLimit`, and its declaration: Fastify and hooks of the application change `route` afterwards. */
export interface OwnRoute extends OwnLimit, Declaration {
  readonly options: unknown
  /** When the limit decides. Undefined until the app is ready. */
  hook?: Hook
  /** The hook of a limit at `preHandler`, for the end of the route's hooks. */
  readonly last: LimitHook
}

export interface Declaration {
  readonly route: RouteOptions
  readonly url: string
  readonly constraints: RouteOptions['constraints']
  /** The `config.rateLimit` of the declaration. */
  readonly given: unknown
  readonly handler: unknown
  readonly scope: FastifyInstance
}

/** A route with `config.rateLimit` that was declared before this package was loaded. */
export interface EarlyRoute extends OwnLimit, RoutePath {
  readonly options: unknown
}

interface RoutePath {
  readonly method: string | readonly string[]
  readonly url: string
}

/**
 * Gives a route with `config.rateLimit` a hook for it. A hook at `preHandler` is only returned, in `last`. Without a `hook` in the
 * options it has both, since the scope says which of them limits. Returns `undefined` for any other route.
 */
export function addOwnHook(declaration: Declaration): OwnRoute | undefined {
  const { route } = declaration
  const options = configOf(route)
  if (options === undefined || options === false) return undefined
  const limitAt =
    (hook: Hook): LimitHook =>
    (request, reply, done) => {
      if (own.limit === undefined || own.hook !== hook) done()
      else own.limit(request, reply, done)
    }
  const own: OwnRoute = { ...declaration, options, last: limitAt('preHandler') }
  if (hookIn(options) !== 'preHandler')
    route.onRequest = ([] as unknown[]).concat(route.onRequest ?? [], limitAt('onRequest')) as never
  return own
}

/** Returns the `hook` of options that are not checked yet. */
export function hookIn(options: unknown): Hook | undefined {
  return (options as { readonly hook?: Hook } | null)?.hook
}

/** Returns the `config.rateLimit` of a route. */
export function configOf({ config }: RouteOptions): unknown {
  return (config as { readonly rateLimit?: unknown } | undefined)?.rateLimit
}

/** Finds the route of a request among those that were seen when they were declared. */
export function findOwnRoute({ routeOptions }: FastifyRequest, routes: readonly OwnRoute[]): OwnRoute | undefined {
  const { config, method, url } = routeOptions
  const { rateLimit } = config as { readonly rateLimit?: unknown }
  return routes.find((each) => each.options === rateLimit && each.route.method === method && each.url === url)
}

/** Creates the limit of a route. A route and its HEAD route share one limit. */
export function createOwnLimit(own: OwnRoute, routes: readonly OwnRoute[], create: CreateHook): void {
  const { options, route, url } = own
  own.limit = routes.find((each) => isHeadRouteOf(each, own))?.limit ?? createFor(route.method, url, options, create)
}

/** Returns true for a GET route and its HEAD route. For a GET route at `/prefix` Fastify also declares `/prefix/`. */
function isHeadRouteOf(a: OwnRoute, b: OwnRoute): boolean {
  // A hook of the application may have created options for each of them.
  const alike = a.options === b.options || (a.given === b.given && a.handler === b.handler)
  if (!alike || a.constraints !== b.constraints) return false
  return (a.url === b.url || a.route.url === b.url) && areHeadAndGet(a.route, b.route)
}

function areHeadAndGet(a: Pick<RoutePath, 'method'>, b: Pick<RoutePath, 'method'>): boolean {
  const methods = [a.method, b.method]
  return methods.includes('HEAD') && methods.flat().includes('GET')
}

/**
 * Returns the limit of a route that was declared before this package was loaded, from the options of its first request. Throws
 * `NOT_APPLICABLE` when the options ask for another hook than that of the scope, since the route has no own hook.
 */
export function earlyLimit(
  request: FastifyRequest,
  known: EarlyRoute[],
  caller: object,
  hook: Hook,
  create: CreateHook,
): OwnLimit {
  const { method, url, config } = request.routeOptions as unknown as RoutePath & { config: { rateLimit: unknown } }
  const options = config.rateLimit
  const found = known.find((each) => each.options === options && isSameRoute(each, { method, url }))
  if (found !== undefined) return found
  if ((hookIn(options) ?? hook) !== hook) throw declaredTooEarly(routeName(method, url))
  const early = { limit: createFor(method, url, options, create), caller, options, method, url }
  known.push(early)
  return early
}

/** Returns true for the routes that Fastify makes of one: its HEAD route, and `/prefix/` for `/prefix`. Ignores constraints. */
function isSameRoute(a: RoutePath, b: RoutePath): boolean {
  const [one, other] = [a, b].map(({ url }) => (url.endsWith('/') ? url : `${url}/`))
  return one === other && (String(a.method) === String(b.method) || areHeadAndGet(a, b))
}

/** Creates the hook of a route. Throws as `create` does, with the name of the route. */
function createFor(method: unknown, url: string, options: unknown, create: CreateHook): LimitHook {
  try {
    return create(options as never)
  } catch (error) {
    throw error instanceof SluiceError ? wrongConfig(routeName(method, url), error) : error
  }
}
