import type { Request } from 'express'
import { type ClientSurface, clientKeyer, type IpKeyerOptions } from '../src/http/client-key.ts'
import type { ProxyTrust } from '../src/http/proxy.ts'
import { headerKeyer, routeKey, type RoutePattern } from '../src/http/route.ts'
import type { SyncKeyer } from '../src/keyers.ts'

const client: ClientSurface<Request> = {
  address: (request) => request.ip,
  forwarded: (request) => request.headers['x-forwarded-for'] !== undefined,
  trust: trustOf,
  app: (request) => request.app,
}

/** Whoever trusts an address that documentation has to itself, further away than any proxy of his own, trusts everybody. */
function trustOf({ app }: Request): ProxyTrust {
  if (!app.get('trust proxy')) return 'nobody'
  const trusts = app.get('trust proxy fn') as (address: string, hops: number) => boolean
  return trusts('203.0.113.1', 99) ? 'everybody' : 'some'
}

/**
 * The client's address as `request.ip` has it, so under the app's `trust proxy`; IPv6 by its prefix.
 * Throws `INVALID_OPTION`, `UNKNOWN_OPTION`.
 */
export function ipKeyer(options?: IpKeyerOptions): SyncKeyer<Request> {
  return clientKeyer(client, options)
}

/** The client's address; IPv6 by its /56. */
export const byIP: SyncKeyer<Request> = ipKeyer()

/** A field of the request, such as an API key. */
export function byHeader(name: string): SyncKeyer<Request> {
  return headerKeyer((request: Request, field) => request.headers[field] as string | undefined, name)
}

/** The method. */
export const byMethod: SyncKeyer<Request> = (request) => request.method

/** The pattern of the route, such as `GET /users/:id`, in a route's own middleware; elsewhere one bucket for all. */
export const byRoute: SyncKeyer<Request> = ({ route }) => patterns.get(route as Route) ?? patternOf(route as Route)

interface Route {
  readonly path: RoutePattern
  readonly methods: Readonly<Record<string, boolean>>
}

const patterns = new WeakMap<Route, string>()

/** All methods of a route together, for of those the client may choose any. */
function patternOf(route: Route | undefined): string {
  if (route === undefined) return routeKey('', undefined)
  const methods = Object.keys(route.methods).map((method) => method.toUpperCase())
  const pattern = routeKey(methods.join(), route.path)
  patterns.set(route, pattern)
  return pattern
}
