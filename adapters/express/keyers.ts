import type { Request } from 'express'
import {
  addressReader,
  type ClientInfo,
  clientKeyer,
  type IpKeyerOptions,
  isSetByApp,
} from '../../src/http/keys/ip-keyer.ts'
import { proxyHeaderIn, type ProxyTrust } from '../../src/http/keys/proxy-warning.ts'
import { headerKeyer, methodKey, unroutedKey } from '../../src/http/keys/request-keyers.ts'
import { define, refuseOwnCall, type SyncKeyer } from '../../src/limiter/keyers.ts'
import { keyOfRoute, type Route } from './route-key.ts'
import { needsCall } from '../../src/util/validate.ts'

const client: ClientInfo<Request> = {
  address: (request) => request.ip,
  proxyHeader: (request) => proxyHeaderIn(request.headers),
  trust: trustOf,
  app: (request) => request.app,
  isSet: (request) => isSetByApp(request, request.socket, request.ips),
}

/** An app trusts every proxy if it trusts an address that is reserved for documentation, 99 hops away. */
function trustOf({ app }: Request): ProxyTrust {
  if (!app.get('trust proxy')) return 'nobody'
  const trusts = app.get('trust proxy fn') as (address: string, hops: number) => boolean
  return trusts('203.0.113.1', 99) ? 'everybody' : 'some'
}

/** Returns the client's address, for rules. */
export const addressOf: (request: Request) => string | undefined = addressReader(client)

/**
 * Returns a keyer for the client's address in `request.ip`, which depends on the app's `trust proxy`. IPv6 addresses are cut to a
 * prefix.
 * Throws `INVALID_OPTION`, `UNKNOWN_OPTION`.
 * @example ipKeyer({ ipv6Subnet: 64 }) // the default is 56
 */
export function ipKeyer(options?: IpKeyerOptions): SyncKeyer<Request> {
  return clientKeyer(client, options)
}

/**
 * The client's address in `request.ip`. IPv6 addresses are cut to their /56.
 * @example rateLimit({ keyer: byIP, limits: perMinute(100) })
 */
export const byIP: SyncKeyer<Request> = ipKeyer()

/**
 * Returns a keyer for a header of the request, such as an API key. Throws `INVALID_OPTION` for a text that is not the name of a
 * header.
 * @example rateLimit({ keyer: byHeader('x-api-key'), limits: perMinute(100) })
 */
export function byHeader(name: string): SyncKeyer<Request> {
  return headerKeyer((request: Request, lowerCaseName) => request.headers[lowerCaseName] as string | undefined, name)
}

/**
 * The method of the request.
 * @example keyers(byHeader('x-api-key'), byMethod)
 */
export const byMethod: SyncKeyer<Request> = (request) => {
  refuseOwnCall('byMethod', request)
  return methodKey(request.method)
}

/**
 * The pattern of the route, such as `GET /users/:id`, in the middleware of a route. Elsewhere all requests share one bucket,
 * and the process warning `SLUICE_NO_ROUTE` is emitted once for each app.
 * The key of a route in a router has the number of that router: `GET /:id of router 2`. This works for routers and apps that were
 * mounted with `use`; routes of all others with the same pattern share a bucket.
 * @example keyers(byIP, byRoute)
 */
export const byRoute: SyncKeyer<Request> = define('byRoute', ['express'], (request: Request) => {
  refuseOwnCall('byRoute', request)
  const route = request.route as Route | undefined
  return route === undefined ? unroutedKey(request.app) : keyOfRoute(request.app, route)
})

/** What is read of a request of Express. */
interface PathSource {
  readonly baseUrl: string
  /** It is null for a URL without one. */
  readonly path: string | null
  readonly originalUrl: string
}

/**
 * Returns the path of the whole app that the router matches, also in a router that is mounted somewhere. If a middleware has rewritten the URL,
 * it also returns the one that the client sent.
 */
export function pathsOf({ baseUrl, path, originalUrl }: PathSource): string | readonly string[] {
  const routed = baseUrl + (path ?? '')
  const isSame =
    originalUrl.startsWith(routed) && (originalUrl.length === routed.length || originalUrl[routed.length] === '?')
  return isSame ? routed : [routed, originalUrl]
}

needsCall(ipKeyer, 'ipKeyer()')
needsCall(byHeader, "byHeader('x-api-key')")
