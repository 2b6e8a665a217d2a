import { type AddressOptions, givenAddressKey } from '../../src/http/keys/ip-keyer.ts'
import { headerKeyer } from '../../src/http/keys/request-keyers.ts'
import type { SyncKeyer } from '../../src/limiter/keyers.ts'

/** What a runtime hands to a handler beside the request: the server, the connection, the environment. */
type Rest = readonly unknown[]

const rests = new WeakMap<Request, Rest>()

/** Keeps what came along with a request for those who look for its address. */
export function keepRest(request: Request, rest: Rest): void {
  if (rest.length > 0) rests.set(request, rest)
}

/** Options of {@link ipKeyer}. `Arguments` are those of the handlers that are limited. */
export type IpKeyerOptions<Arguments extends readonly [Request, ...Rest] = readonly [Request]> =
  AddressOptions<Arguments>

/**
 * The client's address, IPv6 by its prefix. A web-standard request has none: `address` gets what the handler gets, and says
 * where the runtime has put it. A header such as `X-Forwarded-For` tells an address only behind a proxy of your own that
 * overwrites it; anywhere else the client writes its own.
 * Throws `INVALID_OPTION`, `UNKNOWN_OPTION`.
 *
 * @example
 * ipKeyer({ address: (request, server: Bun.Server<unknown>) => server.requestIP(request)?.address }) // Bun
 * ipKeyer({ address: (_request, info: Deno.ServeHandlerInfo<Deno.NetAddr>) => info.remoteAddr.hostname }) // Deno
 * ipKeyer({ address: (request) => request.headers.get('cf-connecting-ip') ?? undefined }) // Cloudflare
 * ipKeyer({ address: (request) => request.headers.get('x-real-ip') ?? undefined }) // Next.js, behind a proxy that sets it
 */
export function ipKeyer<Arguments extends readonly [Request, ...Rest] = readonly [Request]>(
  options: IpKeyerOptions<Arguments>,
): SyncKeyer<Request> {
  const key = givenAddressKey(options as AddressOptions<never>)
  const address = options.address as unknown as (request: Request, ...rest: Rest) => string | undefined
  return function ipKey(request) {
    return key(address(request, ...(rests.get(request) ?? [])))
  }
}

/**
 * A field of the request, such as an API key. Throws `INVALID_OPTION` for what is no field's name.
 * @example rateLimit({ keyer: byHeader('x-api-key'), limits: perMinute(100) })
 */
export function byHeader(name: string): SyncKeyer<Request> {
  return headerKeyer((request: Request, field) => request.headers.get(field) ?? undefined, name)
}

/**
 * The method.
 * @example keyers(byHeader('x-api-key'), byMethod)
 */
export const byMethod: SyncKeyer<Request> = (request) => request.method
