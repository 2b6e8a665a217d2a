import { type AddressOptions, givenAddressKey } from '../../src/http/keys/address.ts'
import { headerKeyer, methodKey } from '../../src/http/keys/request-keyers.ts'
import { define, type SyncKeyer } from '../../src/limiter/keyers.ts'
import { shared } from '../../src/util/copies.ts'
import { needsCall, refuseOwnCall } from '../../src/util/validate.ts'

/** The other arguments of a handler: the server, the connection, or the environment, depending on the runtime. */
type Rest = readonly unknown[]

const rests = shared('rests', () => new WeakMap<Request, Rest>())

/** Keeps the other arguments of a request for keyers that need its address. */
export function keepRest(request: Request, rest: Rest): void {
  if (rest.length > 0) rests.set(request, rest)
}

/** Returns the other arguments of a request. */
export function restOf(request: Request): Rest {
  return rests.get(request) ?? []
}

/** The options of {@link ipKeyer}. `Arguments` are the arguments of the limited handlers. */
export type IpKeyerOptions<Arguments extends readonly [Request, ...Rest] = readonly [Request]> =
  AddressOptions<Arguments>

/**
 * Returns a keyer for the client's address. A web-standard request has no address: `address` receives the arguments of the handler
 * and returns it. Use a header such as `X-Forwarded-For` only if your own proxy overwrites it; otherwise the client can write it.
 * IPv6 addresses are cut to a prefix.
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
  return define('ipKeyer', [address, key], function ipKey(request: Request) {
    return key(address(request, ...restOf(request)))
  })
}

/**
 * Returns a keyer for a header of the request, such as an API key. Throws `INVALID_OPTION` for a text that is not the name of a
 * header.
 * @example rateLimit({ keyer: byHeader('x-api-key'), limits: perMinute(100) })
 */
export function byHeader(name: string): SyncKeyer<Request> {
  return headerKeyer((request: Request, lowerCaseName) => request.headers.get(lowerCaseName) ?? undefined, name)
}

/**
 * The method of the request.
 * @example keyers(byHeader('x-api-key'), byMethod)
 */
export const byMethod: SyncKeyer<Request> = (request) => {
  refuseOwnCall('byMethod', request)
  return methodKey(request.method)
}

needsCall(ipKeyer, 'ipKeyer({ address })')
needsCall(byHeader, "byHeader('x-api-key')")
