import type { Context } from 'koa'
import {
  addressReader,
  type ClientInfo,
  clientKeyer,
  type IpKeyerOptions,
  isSetByApp,
  proxyHeaderIn,
  type ProxyTrust,
} from '../../src/http/keys/address.ts'
import { unroutedKey } from '../../src/http/checks.ts'
import { headerKeyer, methodKey, routeKey, type RoutePattern } from '../../src/http/keys/request-keyers.ts'
import { define, type SyncKeyer } from '../../src/limiter/keyers.ts'
import { needsCall, refuseOwnCall } from '../../src/util/validate.ts'

const client: ClientInfo<Context> = {
  address: (context) => context.ip,
  proxyHeader: ({ app, req }) => proxyHeaderIn(req.headers, app.proxyIpHeader.toLowerCase()),
  trust: trustOf,
  app: (context) => context.app,
  isSet: (context) => isSetByApp(context, context.req.socket, context.ips),
}

/** A proxy replaces a header with another name. It only appends to X-Forwarded-For. */
function trustOf({ app }: Context): ProxyTrust {
  if (!app.proxy) return 'nobody'
  return app.maxIpsCount > 0 || app.proxyIpHeader.toLowerCase() !== 'x-forwarded-for' ? 'some' : 'everybody'
}

/** Returns the client's address, for rules. */
export const addressOf: (request: Context) => string | undefined = addressReader(client)

/**
 * Returns a keyer for the client's address in `context.ip`, which depends on the app's `proxy` settings. IPv6 addresses are cut to
 * a prefix.
 * Throws `INVALID_OPTION`, `UNKNOWN_OPTION`.
 * @example ipKeyer({ ipv6Subnet: 64 }) // the default is 56
 */
export function ipKeyer(options?: IpKeyerOptions): SyncKeyer<Context> {
  return clientKeyer(client, options)
}

/**
 * The client's address in `context.ip`. IPv6 addresses are cut to their /56.
 * @example rateLimit({ keyer: byIP, limits: perMinute(100) })
 */
export const byIP: SyncKeyer<Context> = ipKeyer()

/**
 * Returns a keyer for a header of the request, such as an API key. Throws `INVALID_OPTION` for a text that is not the name of a
 * header.
 * @example rateLimit({ keyer: byHeader('x-api-key'), limits: perMinute(100) })
 */
export function byHeader(name: string): SyncKeyer<Context> {
  return headerKeyer(
    (context: Context, lowerCaseName) => context.req.headers[lowerCaseName] as string | undefined,
    name,
  )
}

/**
 * The method of the request.
 * @example keyers(byHeader('x-api-key'), byMethod)
 */
export const byMethod: SyncKeyer<Context> = (context) => {
  refuseOwnCall('byMethod', context)
  return methodKey(context.method)
}

/**
 * The pattern of the route, such as `GET /users/:id`, with `@koa/router`. Elsewhere all requests share one bucket, and the
 * process warning `SLUICE_NO_ROUTE` is emitted once for each app. In the middleware of a router it is the pattern of the route that will answer. All methods of a route count together.
 * @example keyers(byIP, byRoute)
 */
export const byRoute: SyncKeyer<Context> = define('byRoute', ['koa'], (context: Context) => {
  refuseOwnCall('byRoute', context)
  const { method, matched, _matchedRoute: current } = context as Matched
  if (matched === undefined && current === undefined) return unroutedKey(context, context.app)
  const answers = ({ methods }: Layer): boolean => methods.includes(method)
  // A middleware after all routes with the same path does not run.
  const last = (matched?.findLastIndex(answers) ?? -1) + 1
  const candidates = matched?.slice(0, last) ?? []
  const at = candidates.findLastIndex(({ path }) => path === current)
  const route = candidates.slice(Math.max(at, 0)).find(answers)
  if (route === undefined) return routeKey(method, current)
  // HTTP has nine methods. A route of `router.all` has dozens.
  return routeKey(route.methods.length > 10 ? 'ALL' : route.methods, route.path)
})

/** The routes and middlewares of `@koa/router` that match the path of a request, in the order in which they run. */
interface Matched {
  readonly method: string
  readonly matched?: readonly Layer[]
  readonly _matchedRoute?: RoutePattern
}

interface Layer {
  readonly methods: readonly string[]
  readonly path: RoutePattern
}

needsCall(ipKeyer, 'ipKeyer()')
needsCall(byHeader, "byHeader('x-api-key')")
