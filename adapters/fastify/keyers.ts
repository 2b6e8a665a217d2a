import type { FastifyRequest } from 'fastify'
import { type ClientSurface, clientKeyer, type IpKeyerOptions } from '../../src/http/keys/ip-keyer.ts'
import type { ProxyTrust } from '../../src/http/keys/proxy.ts'
import { headerKeyer, routeKey } from '../../src/http/keys/request-keyers.ts'
import type { SyncKeyer } from '../../src/limiter/keyers.ts'

// Proxies in a row, more than anybody has, at addresses that documentation has to itself: who trusts them trusts everybody.
const STRANGERS = Array(32).fill('203.0.113.1').join()
const FROM_AFAR = { socket: { remoteAddress: '203.0.113.1' }, headers: { 'x-forwarded-for': STRANGERS } }

const client: ClientSurface<FastifyRequest> = {
  address: (request) => request.ip,
  forwarded: (request) => request.headers['x-forwarded-for'] !== undefined,
  trust: trustOf,
  app: (request) => request.server.server,
}

/** Fastify does not tell its `trustProxy`, but `ips` is only there with one, and shows what it makes of a request. */
function trustOf(request: FastifyRequest): ProxyTrust {
  if (request.ips === undefined) return 'nobody'
  const probe = Object.create(request, { raw: { value: FROM_AFAR } }) as FastifyRequest
  const { length } = probe.ips!
  if (length > 32) return 'everybody'
  return length === 1 && isCount(request.server) ? 'nobody' : 'some'
}

/**
 * A number of proxies trusts none of them since Fastify 5.12.1, and Fastify says nothing about it. A stranger that is not
 * trusted does not tell a number from a list, so this looks at what the app was made with: under a symbol that Fastify keeps
 * to itself, without which there is one warning less.
 */
function isCount(server: object | null): boolean {
  if (server === null) return false
  const own = Object.getOwnPropertySymbols(server).find(({ description }) => description === 'fastify.options')
  if (own === undefined) return isCount(Object.getPrototypeOf(server) as object | null)
  const { trustProxy } = (server as Record<symbol, { readonly trustProxy?: unknown }>)[own]!
  return typeof trustProxy === 'number'
}

/**
 * The client's address as `request.ip` has it, so under the app's `trustProxy`; IPv6 by its prefix.
 * Throws `INVALID_OPTION`, `UNKNOWN_OPTION`.
 * @example ipKeyer({ ipv6Subnet: 64 }) // /56 unless told
 */
export function ipKeyer(options?: IpKeyerOptions): SyncKeyer<FastifyRequest> {
  return clientKeyer(client, options)
}

/**
 * The client's address; IPv6 by its /56.
 * @example rateLimit({ keyer: byIP, limits: perMinute(100) })
 */
export const byIP: SyncKeyer<FastifyRequest> = ipKeyer()

/**
 * A field of the request, such as an API key. Throws `INVALID_OPTION` for what is no field's name.
 * @example rateLimit({ keyer: byHeader('x-api-key'), limits: perMinute(100) })
 */
export function byHeader(name: string): SyncKeyer<FastifyRequest> {
  return headerKeyer((request: FastifyRequest, field) => request.headers[field] as string | undefined, name)
}

/**
 * The method.
 * @example keyers(byHeader('x-api-key'), byMethod)
 */
export const byMethod: SyncKeyer<FastifyRequest> = (request) => request.method

/**
 * The pattern of the route, such as `GET /users/:id`; one bucket for all requests without a route.
 * @example keyers(byIP, byRoute)
 */
export const byRoute: SyncKeyer<FastifyRequest> = ({ routeOptions: { method, url } }) => routeKey(String(method), url)
