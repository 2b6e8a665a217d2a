import type { IncomingMessage } from 'node:http'
import {
  type AddressOptions,
  type ClientSurface,
  clientKeyer,
  givenAddressKeyer,
  type IpKeyerOptions as SubnetOptions,
} from '../../src/http/keys/ip-keyer.ts'
import { headerKeyer } from '../../src/http/keys/request-keyers.ts'
import type { SyncKeyer } from '../../src/limiter/keyers.ts'

/** Options of {@link ipKeyer}. */
export type IpKeyerOptions = SubnetOptions & Partial<AddressOptions<[request: IncomingMessage]>>

const client: ClientSurface<IncomingMessage> = {
  address: (request) => request.socket.remoteAddress,
  forwarded: (request) => request.headers['x-forwarded-for'] !== undefined,
  trust: () => 'nobody',
  app: (request) => (request.socket as { server?: object }).server,
}

/**
 * The client's address, IPv6 by its prefix: as the socket has it, or as `address` says, which is for servers behind a proxy.
 * Throws `INVALID_OPTION`, `UNKNOWN_OPTION`.
 * @example ipKeyer({ address: (request) => request.headers['x-real-ip'] as string }) // which the proxy overwrites
 */
export function ipKeyer(options: IpKeyerOptions = {}): SyncKeyer<IncomingMessage> {
  if (options.address === undefined) return clientKeyer(client, options)
  return givenAddressKeyer(options as AddressOptions<[request: IncomingMessage]>)
}

/**
 * The address of the socket; IPv6 by its /56.
 * @example rateLimit({ keyer: byIP, limits: perMinute(100) })
 */
export const byIP: SyncKeyer<IncomingMessage> = ipKeyer()

/**
 * A field of the request, such as an API key. Throws `INVALID_OPTION` for what is no field's name.
 * @example rateLimit({ keyer: byHeader('x-api-key'), limits: perMinute(100) })
 */
export function byHeader(name: string): SyncKeyer<IncomingMessage> {
  return headerKeyer((request: IncomingMessage, field) => request.headers[field] as string | undefined, name)
}

/**
 * The method.
 * @example keyers(byHeader('x-api-key'), byMethod)
 */
export const byMethod: SyncKeyer<IncomingMessage> = (request) => request.method
