import * as express from '../express/express.ts'
import * as fastify from '../fastify/keyers.ts'
import {
  addressKeyer,
  type AddressOptions,
  givenAddressKeyer,
  type IpKeyerOptions as SubnetOptions,
} from '../../src/http/keys/address.ts'
import { byHeaderOf, byMethodOf } from '../../src/http/keys/request-keyers.ts'
import { define, type SyncKeyer } from '../../src/limiter/keyers.ts'
import { executionContext, handshakeHeaderOf, isOfExpress, isOfFastify, socketAddressOf } from './platform.ts'
import { nameOf } from './class-names.ts'
import { needsCall, refuseOwnCall } from '../../src/util/validate.ts'

/** The options of {@link ipKeyer}. */
export type IpKeyerOptions = SubnetOptions & Partial<AddressOptions<[request: object]>>

/** Returns a function of this name that calls the function for the platform of a request. Warnings have the name. */
function byPlatform<Result>(
  name: string,
  onExpress: (request: never) => Result,
  onFastify: (request: never) => Result,
  elsewhere: (request: object) => Result,
): (request: object) => Result {
  function ofPlatform(request: object): Result {
    refuseOwnCall(name, request)
    if (isOfExpress(request)) return onExpress(request as never)
    return isOfFastify(request) ? onFastify(request as never) : elsewhere(request)
  }
  return Object.defineProperty(ofPlatform, 'name', { value: name })
}

/** Returns the address of a client of a gateway, or of a request of Node, such as a request of a subscription. */
function bareAddressOf(request: object): string | undefined {
  const { socket } = request as { readonly socket?: { readonly remoteAddress?: string } }
  return socketAddressOf(request) ?? socket?.remoteAddress
}

/** Returns the client's address, for rules. */
export const addressOf: (request: object) => string | undefined = byPlatform(
  'byIP',
  express.addressOf,
  fastify.addressOf,
  bareAddressOf,
)

/**
 * Returns a keyer for the client's address: `request.ip`, which depends on the app's `trust proxy` or `trustProxy`, or in a gateway the address of the
 * connection. With `address`, which gateways behind a proxy need, it is the result of this function. IPv6 addresses are cut to a prefix.
 * Throws `INVALID_OPTION`, `UNKNOWN_OPTION`.
 * @example ipKeyer({ ipv6Subnet: 64 }) // the default is 56
 */
export function ipKeyer(options: IpKeyerOptions = {}): SyncKeyer<object> {
  if (options.address !== undefined) return givenAddressKeyer(options as AddressOptions<[request: object]>)
  const key = addressKeyer(options.ipv6Subnet)
  const keyOf = byPlatform('byIP', express.ipKeyer(options), fastify.ipKeyer(options), (client) =>
    key(bareAddressOf(client)),
  )
  return define('ipKeyer', ['nestjs', key], keyOf)
}

/**
 * The client's address: see {@link ipKeyer}. IPv6 addresses are cut to their /56.
 * @example RateLimitModule.forRoot({ keyer: byIP, limits: perMinute(100) })
 */
export const byIP: SyncKeyer<object> = ipKeyer()

/**
 * Returns a keyer for a header of the request, such as an API key. In gateways on socket.io it is a header of the request that
 * opened the connection. Throws `INVALID_OPTION` for a text that is not the name of a header.
 * @example RateLimitModule.forRoot({ keyer: byHeader('x-api-key'), limits: perMinute(100) })
 */
export const byHeader: (name: string) => SyncKeyer<object> = byHeaderOf((request, name) => {
  const { headers } = request as { readonly headers?: Readonly<Record<string, string | undefined>> }
  return headers === undefined ? handshakeHeaderOf(request, name) : headers[name]
})

/**
 * The method of the request.
 * @example keyers(byHeader('x-api-key'), byMethod)
 */
export const byMethod: SyncKeyer<object> = byMethodOf((request) => (request as { readonly method?: string }).method)

/**
 * The pattern of the route, such as `GET /users/:id`. All fields of GraphQL have the same route, and messages have none. Use {@link byHandler} for them.
 * @example keyers(byIP, byRoute)
 */
export const byRoute: SyncKeyer<object> = byPlatform('byRoute', express.byRoute, fastify.byRoute, () => undefined)

/**
 * The class and the method that handle the call, such as `UsersController.findOne`. Each handler then has its own limits. With `RateLimitModule`, a second
 * class with the same name has a number, such as `UsersController 2.findOne`.
 * @example RateLimitModule.forRoot({ keyer: keyers(byIP, byHandler), limits: perMinute(100) })
 */
export const byHandler: SyncKeyer<object> = (request) => {
  refuseOwnCall('byHandler', request)
  const context = executionContext()
  return context && nameOf(context.getClass(), context.getHandler().name)
}

needsCall(ipKeyer, 'ipKeyer()')
