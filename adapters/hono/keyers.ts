import type { Context } from 'hono'
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
import { headerKeyer, methodKey, routeKey } from '../../src/http/keys/request-keyers.ts'
import { define, type SyncKeyer } from '../../src/limiter/keyers.ts'
import { needsCall, refuse, refuseOwnCall } from '../../src/util/validate.ts'
import { bindingsOf } from './response-end.ts'

/** The options of {@link ipKeyer}. */
export type IpKeyerOptions = SubnetOptions & Partial<AddressOptions<[context: Context]>>

// The address of the socket, which is the client's address if there is no proxy.
const client: ClientInfo<Context> = {
  address: (context) => bindingsOf(context).incoming?.socket.remoteAddress,
  proxyHeader: (context) => proxyHeaderIn(bindingsOf(context).incoming?.headers ?? {}),
  trust: () => 'nobody',
  app: (context) => bindingsOf(context).incoming?.socket.server,
  isSet: (context) => isSocketSet(bindingsOf(context).incoming?.socket),
}

/** A context does not know its app, but the routes of an app are its own objects. */
export function appOf(context: Context): object | undefined {
  return (context.req as Matched).matchedRoutes[0] ?? client.app(context)
}

/** Returns the client's address on `@hono/node-server`, for rules. */
export const addressOf: (context: Context) => string | undefined = addressReader(client)

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
export function ipKeyer(options: IpKeyerOptions = {}): SyncKeyer<Context> {
  if (options.address === undefined) return clientKeyer(client, options)
  return givenAddressKeyer(options as AddressOptions<[context: Context]>)
}

/**
 * The client's address on `@hono/node-server`. IPv6 addresses are cut to their /56.
 * @example rateLimit({ keyer: byIP, limits: perMinute(100) })
 */
export const byIP: SyncKeyer<Context> = ipKeyer()

/**
 * Returns a keyer for a header of the request, such as an API key. Throws `INVALID_OPTION` for a text that is not the name of a
 * header.
 * @example rateLimit({ keyer: byHeader('x-api-key'), limits: perMinute(100) })
 */
export function byHeader(name: string): SyncKeyer<Context> {
  return headerKeyer((context: Context, lowerCaseName) => context.req.header(lowerCaseName), name)
}

/**
 * The method of the request.
 * @example keyers(byHeader('x-api-key'), byMethod)
 */
export const byMethod: SyncKeyer<Context> = (context) => {
  refuseOwnCall('byMethod', context)
  return methodKey(context.req.method)
}

/** A route as Hono keeps it. Hono's own helpers for it would have to be loaded. */
interface Route {
  readonly method: string
  readonly path: string
  readonly handler: object
}

/** The routes that a request matches. */
interface Matched {
  readonly routeIndex: number
  readonly matchedRoutes: readonly Route[]
}

/**
 * The pattern of the route, such as `GET /users/:id`. In a middleware with a wildcard, as of `app.use`, it is the first route after
 * it that matches. Requests without a route share the pattern of the last middleware, such as `ALL /*`.
 *
 * Each method and each path of `app.on(methods, paths, …)` is a separate route here, because a context does not show that they were
 * declared together: use {@link routeKeyer} for them. `app.all` is one route for all methods.
 * @example keyers(byIP, byRoute)
 */
export const byRoute: SyncKeyer<Context> = (context) => {
  refuseOwnCall('byRoute', context)
  const route = routeOf(context)
  return routeKey(route?.method ?? '', route?.path)
}

/**
 * Returns a keyer for the routes of an app, in which all methods and paths of one `app.on(methods, paths, …)` are one route, such as
 * `GET,POST /a,/b`. Routes that share one handler function count together. Throws `INVALID_OPTION` for what is no Hono app.
 * @example
 * const app = new Hono()
 * app.use(rateLimit({ keyer: keyers(byIP, routeKeyer(app)), limits: perMinute(100) }))
 */
export function routeKeyer(app: { readonly routes: readonly Route[] }): SyncKeyer<Context> {
  if (!Array.isArray(app?.routes)) refuse('routeKeyer', 'a Hono app, such as routeKeyer(app)', app)
  let keys = new Map<object, string>()
  let known = 0
  return define('routeKeyer', [app], function keyOfDeclaration(context: Context) {
    const { routes } = app
    if (routes.length !== known) [keys, known] = [keysByHandler(routes), routes.length]
    return keys.get(handlerOf(context)) ?? byRoute(context)
  })
}

function keysByHandler(routes: readonly Route[]): Map<object, string> {
  const declared = new Map<object, { readonly methods: Set<string>; readonly paths: Set<string> }>()
  for (const { method, path, handler } of routes) {
    const same = declared.get(handler) ?? { methods: new Set(), paths: new Set() }
    declared.set(handler, same)
    same.methods.add(method)
    same.paths.add(path)
  }
  return new Map(
    [...declared].map(([handler, { methods, paths }]) => [handler, routeKey([...methods], [...paths].join())]),
  )
}

/** Returns the last handler of the route that a request matches: those before it are middleware, which routes may share. */
function handlerOf(context: Context): object {
  const route = routeOf(context)
  const { matchedRoutes } = context.req as Matched
  const same = matchedRoutes.findLast(({ method, path }) => method === route?.method && path === route.path)
  return same?.handler ?? matchedRoutes
}

function routeOf(context: Context): Route | undefined {
  const { matchedRoutes, routeIndex } = context.req as Matched
  const current = matchedRoutes[routeIndex]
  return current?.path.endsWith('*') ? answering(matchedRoutes.slice(routeIndex)) : current
}

/** Returns the first route that is no middleware, as far as that is known: `app.use` and `app.all` have the method `ALL`. */
function answering(routes: readonly Route[]): Route | undefined {
  return routes.find(({ method }) => method !== 'ALL') ?? routes.at(-1)
}

needsCall(ipKeyer, 'ipKeyer()')
needsCall(byHeader, "byHeader('x-api-key')")
needsCall(routeKeyer, 'routeKeyer(app)')
