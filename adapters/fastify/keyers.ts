import type { FastifyReply, FastifyRequest } from 'fastify'
import {
  addressReader,
  type ClientInfo,
  type IpKeyerOptions,
  ipKeyerOf,
  isSetByApp,
  proxyHeaderIn,
  type ProxyTrust,
} from '../../src/http/keys/address.ts'
import { byHeaderOf, byMethodOf, nodeHeader, routeKey } from '../../src/http/keys/request-keyers.ts'
import type { SyncKeyer } from '../../src/limiter/keyers.ts'
import { refuseOwnCall } from '../../src/util/validate.ts'
import type { ResponseHead } from '../../src/http/response/on-denied.ts'

// A request through 32 proxies with an address that is reserved for documentation. An app that trusts all of them trusts every proxy.
const PROXIES = 32
const UNKNOWN_ADDRESS = '203.0.113.1'
const PROBE = {
  socket: { remoteAddress: UNKNOWN_ADDRESS },
  headers: { 'x-forwarded-for': Array(PROXIES).fill(UNKNOWN_ADDRESS).join() },
}

const client: ClientInfo<FastifyRequest> = {
  address: (request) => request.ip,
  proxyHeader: (request) => proxyHeaderIn(request.headers),
  trust: trustOf,
  app: (request) => request.server.server,
  isSet: (request) => isSetByApp(request, request.socket, request.ips),
}

/** Returns which proxies an app trusts. Fastify does not expose its `trustProxy`, but `ips` exists only with this option, and shows its effect. */
function trustOf(request: FastifyRequest): ProxyTrust {
  if (request.ips === undefined) return 'nobody'
  const probe = Object.create(request, { raw: { value: PROBE } }) as FastifyRequest
  const { length } = probe.ips!
  if (length > PROXIES) return 'everybody'
  return length === 1 && isCount(request.server) ? 'nobody' : 'some'
}

/**
 * Returns true if `trustProxy` is a number. Since Fastify 5.12.1, a number trusts no proxy, without any message. A probe cannot distinguish a number from a
 * list of addresses, so this function reads the options of the app. Fastify keeps them under a private symbol. Without this symbol, there is no warning in
 * this case.
 */
function isCount(server: object | null): boolean {
  if (server === null) return false
  const own = Object.getOwnPropertySymbols(server).find(({ description }) => description === 'fastify.options')
  if (own === undefined) return isCount(Object.getPrototypeOf(server) as object | null)
  const { trustProxy } = (server as Record<symbol, { readonly trustProxy?: unknown }>)[own]!
  return typeof trustProxy === 'number'
}

/** Returns the client's address, for rules. */
export const addressOf: (request: FastifyRequest) => string | undefined = addressReader(client)

/**
 * Returns a keyer for the client's address in `request.ip`, which depends on the app's `trustProxy`. IPv6 addresses are cut to a
 * prefix.
 * Throws `INVALID_OPTION`, `UNKNOWN_OPTION`.
 * @example ipKeyer({ ipv6Subnet: 64 }) // the default is 56
 */
export const ipKeyer: (options?: IpKeyerOptions) => SyncKeyer<FastifyRequest> = ipKeyerOf(client)

/**
 * The client's address in `request.ip`. IPv6 addresses are cut to their /56.
 * @example await app.register(rateLimit, { keyer: byIP, limits: perMinute(100) })
 */
export const byIP: SyncKeyer<FastifyRequest> = ipKeyer()

/**
 * Returns a keyer for a header of the request, such as an API key. Throws `INVALID_OPTION` for a text that is not the name of a
 * header.
 * @example await app.register(rateLimit, { keyer: byHeader('x-api-key'), limits: perMinute(100) })
 */
export const byHeader: (name: string) => SyncKeyer<FastifyRequest> = byHeaderOf(nodeHeader)

/**
 * The method of the request.
 * @example keyers(byHeader('x-api-key'), byMethod)
 */
export const byMethod: SyncKeyer<FastifyRequest> = byMethodOf((request) => request.method)

/**
 * The pattern of the route, such as `GET /users/:id`. Requests without a route share one bucket.
 * @example keyers(byIP, byRoute)
 */
export const byRoute: SyncKeyer<FastifyRequest> = (request) => {
  refuseOwnCall('byRoute', request)
  const { method, url } = request.routeOptions
  return routeKey(String(method), url)
}

/** Returns the path that the router matches. If `rewriteUrl` has changed it, also returns the path that the client sent. */
export function pathsOf({ url, originalUrl }: FastifyRequest): string | readonly string[] {
  return url === originalUrl ? routed(url) : [routed(url), routed(originalUrl)]
}

/** Returns a URL as the router reads it. The router ignores the first character, so `*login` is `/login`. It accepts full URLs of two schemes. */
function routed(url: string): string {
  return url.startsWith('/') || /^https?:\/\//i.test(url) ? url : `/${url.slice(1)}`
}

/** Returns the head of a reply. Fastify keeps the headers of a reply itself, and sends them with the body. */
export function headOf(reply: FastifyReply): ResponseHead {
  return {
    get statusCode() {
      return reply.statusCode
    },
    set statusCode(status) {
      // `reply.code` would make it a status that the application has chosen, with which Fastify also sends redirects.
      reply.raw.statusCode = status
    },
    get headersSent() {
      return reply.sent
    },
    get destroyed() {
      return reply.raw.destroyed
    },
    getHeader: (name) => reply.getHeader(name),
    setHeader: (name, value) => reply.header(name, value),
    removeHeader: (name) => void reply.removeHeader(name),
  }
}
