import type { Request } from 'express'
import { type ClientSurface, clientKeyer, type IpKeyerOptions } from '../../src/http/keys/ip-keyer.ts'
import type { ProxyTrust } from '../../src/http/keys/proxy.ts'
import { headerKeyer, routeKey } from '../../src/http/keys/request-keyers.ts'
import type { SyncKeyer } from '../../src/limiter/keyers.ts'
import { keyOfRoute, type Route } from './route-key.ts'

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
 * @example ipKeyer({ ipv6Subnet: 64 }) // /56 unless told
 */
export function ipKeyer(options?: IpKeyerOptions): SyncKeyer<Request> {
  return clientKeyer(client, options)
}

/**
 * The client's address; IPv6 by its /56.
 * @example rateLimit({ keyer: byIP, limits: perMinute(100) })
 */
export const byIP: SyncKeyer<Request> = ipKeyer()

/**
 * A field of the request, such as an API key. Throws `INVALID_OPTION` for what is no field's name.
 * @example rateLimit({ keyer: byHeader('x-api-key'), limits: perMinute(100) })
 */
export function byHeader(name: string): SyncKeyer<Request> {
  return headerKeyer((request: Request, field) => request.headers[field] as string | undefined, name)
}

/**
 * The method.
 * @example keyers(byHeader('x-api-key'), byMethod)
 */
export const byMethod: SyncKeyer<Request> = (request) => request.method

/**
 * The pattern of the route, such as `GET /users/:id`, in a route's own middleware; elsewhere one bucket for all. A route of a
 * router is told apart from those of others by the place of that router among them: `GET /:id of router 2`. That goes for
 * routers and apps that an app has been given by `use`; all others look alike.
 * @example keyers(byIP, byRoute)
 */
export const byRoute: SyncKeyer<Request> = ({ app, route }) =>
  route === undefined ? routeKey('', undefined) : keyOfRoute(app, route as Route)
