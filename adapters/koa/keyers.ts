import type { Context } from 'koa'
import { type ClientSurface, clientKeyer, type IpKeyerOptions } from '../../src/http/keys/ip-keyer.ts'
import type { ProxyTrust } from '../../src/http/keys/proxy.ts'
import { headerKeyer, routeKey, type RoutePattern } from '../../src/http/keys/request-keyers.ts'
import type { SyncKeyer } from '../../src/limiter/keyers.ts'

const client: ClientSurface<Context> = {
  address: (context) => context.ip,
  forwarded: (context) => context.req.headers['x-forwarded-for'] !== undefined,
  trust: trustOf,
  app: (context) => context.app,
}

/** A field of another name is one that a proxy writes, and does not just add to. */
function trustOf({ app }: Context): ProxyTrust {
  if (!app.proxy) return 'nobody'
  return app.maxIpsCount > 0 || app.proxyIpHeader.toLowerCase() !== 'x-forwarded-for' ? 'some' : 'everybody'
}

/**
 * The client's address as `context.ip` has it, so under the app's `proxy` settings; IPv6 by its prefix.
 * Throws `INVALID_OPTION`, `UNKNOWN_OPTION`.
 * @example ipKeyer({ ipv6Subnet: 64 }) // /56 unless told
 */
export function ipKeyer(options?: IpKeyerOptions): SyncKeyer<Context> {
  return clientKeyer(client, options)
}

/**
 * The client's address; IPv6 by its /56.
 * @example rateLimit({ keyer: byIP, limits: perMinute(100) })
 */
export const byIP: SyncKeyer<Context> = ipKeyer()

/**
 * A field of the request, such as an API key. Throws `INVALID_OPTION` for what is no field's name.
 * @example rateLimit({ keyer: byHeader('x-api-key'), limits: perMinute(100) })
 */
export function byHeader(name: string): SyncKeyer<Context> {
  return headerKeyer((context: Context, field) => context.req.headers[field] as string | undefined, name)
}

/**
 * The method.
 * @example keyers(byHeader('x-api-key'), byMethod)
 */
export const byMethod: SyncKeyer<Context> = (context) => context.method

/**
 * The pattern of the route, such as `GET /users/:id`, behind `@koa/router`, which tells it; elsewhere one bucket for all. In a
 * router's own middleware, that of the route which is about to answer. All methods of one route count together.
 * @example keyers(byIP, byRoute)
 */
export const byRoute: SyncKeyer<Context> = (context) => {
  const { method, matched, _matchedRoute: current } = context as Matched
  const answers = ({ methods }: Layer): boolean => methods.includes(method)
  // Of middlewares that look alike, one that comes after all routes is not what runs.
  const last = (matched?.findLastIndex(answers) ?? -1) + 1
  const candidates = matched?.slice(0, last) ?? []
  const at = candidates.findLastIndex(({ path }) => path === current)
  const route = candidates.slice(Math.max(at, 0)).find(answers)
  if (route === undefined) return routeKey(method, current)
  // HTTP has nine methods. `router.all` means dozens.
  return routeKey(route.methods.length > 10 ? 'ALL' : route.methods, route.path)
}

/** What `@koa/router` tells of the routes and middlewares whose path a request has, in the order in which they run. */
interface Matched {
  readonly method: string
  readonly matched?: readonly Layer[]
  readonly _matchedRoute?: RoutePattern
}

interface Layer {
  readonly methods: readonly string[]
  readonly path: RoutePattern
}
