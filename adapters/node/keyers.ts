import type { IncomingMessage } from 'node:http'
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
import { headerKeyer, methodKey } from '../../src/http/keys/request-keyers.ts'
import type { SyncKeyer } from '../../src/limiter/keyers.ts'
import { needsCall, refuseOwnCall } from '../../src/util/validate.ts'

/** The options of {@link ipKeyer}. */
export type IpKeyerOptions = SubnetOptions & Partial<AddressOptions<[request: IncomingMessage]>>

/** Returns the server of a request. */
export function serverOf(request: IncomingMessage): object | undefined {
  return (request.socket as { server?: object }).server
}

const client: ClientInfo<IncomingMessage> = {
  address: (request) => request.socket.remoteAddress,
  proxyHeader: (request) => proxyHeaderIn(request.headers),
  trust: () => 'nobody',
  app: serverOf,
  isSet: (request) => isSocketSet(request.socket),
}

/** Returns the address of the socket, for rules. */
export const addressOf: (request: IncomingMessage) => string | undefined = addressReader(client)

/**
 * Returns a keyer for the client's address: the address of the socket, or the result of `address`, which servers behind a proxy
 * need. IPv6 addresses are cut to a prefix.
 * Throws `INVALID_OPTION`, `UNKNOWN_OPTION`.
 * @example ipKeyer({ address: (request) => request.headers['x-real-ip'] as string }) // a header that the proxy overwrites
 */
export function ipKeyer(options: IpKeyerOptions = {}): SyncKeyer<IncomingMessage> {
  if (options.address === undefined) return clientKeyer(client, options)
  return givenAddressKeyer(options as AddressOptions<[request: IncomingMessage]>)
}

/**
 * The address of the socket. IPv6 addresses are cut to their /56.
 * @example rateLimit({ keyer: byIP, limits: perMinute(100) })
 */
export const byIP: SyncKeyer<IncomingMessage> = ipKeyer()

/**
 * Returns a keyer for a header of the request, such as an API key. Throws `INVALID_OPTION` for a text that is not the name of a
 * header.
 * @example rateLimit({ keyer: byHeader('x-api-key'), limits: perMinute(100) })
 */
export function byHeader(name: string): SyncKeyer<IncomingMessage> {
  return headerKeyer(
    (request: IncomingMessage, lowerCaseName) => request.headers[lowerCaseName] as string | undefined,
    name,
  )
}

/**
 * The method of the request.
 * @example keyers(byHeader('x-api-key'), byMethod)
 */
export const byMethod: SyncKeyer<IncomingMessage> = (request) => {
  refuseOwnCall('byMethod', request)
  return methodKey(request.method)
}

needsCall(ipKeyer, 'ipKeyer()')
needsCall(byHeader, "byHeader('x-api-key')")
