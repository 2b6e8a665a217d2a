import type { Context } from 'hono'
import {
  type AddressOptions,
  type ClientSurface,
  clientKeyer,
  givenAddressKeyer,
  type IpKeyerOptions as SubnetOptions,
} from '../../src/http/keys/ip-keyer.ts'
import { headerKeyer, routeKey } from '../../src/http/keys/request-keyers.ts'
import type { SyncKeyer } from '../../src/limiter/keyers.ts'
import { bindingsOf } from './node.ts'

/** Options of {@link ipKeyer}. */
export type IpKeyerOptions = SubnetOptions & Partial<AddressOptions<[context: Context]>>

// The address of the socket: as it is without any proxy.
const client: ClientSurface<Context> = {
  address: (context) => bindingsOf(context).incoming?.socket.remoteAddress,
  forwarded: (context) => context.req.header('x-forwarded-for') !== undefined,
  trust: () => 'nobody',
  app: (context) => bindingsOf(context).incoming?.socket.server,
}

/**
 * The client's address, IPv6 by its prefix: as the socket has it on `@hono/node-server`, or as `address` says, which other
 * runtimes and apps behind a proxy need. Without any all clients share one bucket, and a warning says so.
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
 * The client's address on `@hono/node-server`; IPv6 by its /56.
 * @example rateLimit({ keyer: byIP, limits: perMinute(100) })
 */
export const byIP: SyncKeyer<Context> = ipKeyer()

/**
 * A field of the request, such as an API key. Throws `INVALID_OPTION` for what is no field's name.
 * @example rateLimit({ keyer: byHeader('x-api-key'), limits: perMinute(100) })
 */
export function byHeader(name: string): SyncKeyer<Context> {
  return headerKeyer((context: Context, field) => context.req.header(field), name)
}

/**
 * The method.
 * @example keyers(byHeader('x-api-key'), byMethod)
 */
export const byMethod: SyncKeyer<Context> = (context) => context.req.method

/** What Hono knows of the routes that a request has matched; its own helper for it would have to be loaded. */
interface Matched {
  readonly routeIndex: number
  readonly matchedRoutes: readonly { readonly method: string; readonly path: string }[]
}

/**
 * The pattern of the route, such as `GET /users/:id`, in a route's own middleware; in others their pattern, such as `ALL /*`.
 * @example keyers(byIP, byRoute)
 */
export const byRoute: SyncKeyer<Context> = (context) => {
  const { matchedRoutes, routeIndex } = context.req as Matched
  const route = matchedRoutes[routeIndex]
  return routeKey(route?.method ?? '', route?.path)
}
