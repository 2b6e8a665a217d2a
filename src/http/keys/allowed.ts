import { refuse } from '../../util/validate.ts'
import type { HttpAdapter } from '../adapter.ts'
import { clientAddress } from './address.ts'
import { isNetwork, NetworkMap } from './networks.ts'

/** The options of clients that are not limited. */
export interface AllowOptions<Request> {
  /**
   * Addresses and networks of clients that are not limited: IPv4 or IPv6, such as `'192.0.2.7'`, `'10.0.0.0/8'` or `'2001:db8::/32'`.
   * Their requests are not counted and have no rate-limit headers. An IPv4-mapped address is its IPv4 address, and so is NAT64 (`64:ff9b::/96`) of a public address. A client without a known
   * address is limited. The address is the one that `byIP` uses, so it depends on the proxies that the framework trusts: with
   * `SLUICE_PROXY_TRUSTS_ALL` clients can forge an address of this list. Default: none.
   * @example rateLimit({ keyer: byIP, limits: perMinute(100), allow: ['127.0.0.1', '::1', '10.0.0.0/8'] })
   */
  readonly allow?: readonly string[]
  /**
   * Returns the client's address for `allow`, as the runtime or your own proxy reports it. It receives the arguments of a handler. Do
   * not use a header that the client can write. Default: the address that `byIP` uses. `sluice/fetch` needs it, since its requests
   * have no address, and so does Hono outside of Node.
   * @example rateLimit({ keyer, limits, allow: ['10.0.0.0/8'], address: (request) => request.headers.get('x-real-ip') ?? undefined })
   */
  readonly address?: (request: Request, ...rest: never[]) => string | undefined
}

type AddressAdapter<Request> = Pick<HttpAdapter<Request, never, never, never>, 'getAddress' | 'getRest'>

/**
 * Returns a function that returns true for the requests of `allow`, or `undefined` without this option. Throws `INVALID_OPTION` for
 * anything but addresses and networks, and where nothing says the address of a request.
 */
export function allowedRequests<Request>(
  { allow, address }: AllowOptions<Request>,
  adapter: AddressAdapter<Request>,
): ((request: Request) => boolean) | undefined {
  if (address !== undefined && typeof address !== 'function')
    refuse('address', 'a function that returns the address of a client', address)
  if (allow === undefined)
    return address === undefined ? undefined : refuse('address', 'the option `allow` together with it', address)
  const networks = networksOf(allow)
  const addressOf = address === undefined ? adapter.getAddress : givenAddress(address, adapter)
  if (addressOf === undefined)
    return refuse('allow', 'the option `address` together with it, because a request has no address here', allow)
  return function isAllowed(request) {
    const known = clientAddress(addressOf(request))
    return known !== undefined && networks.find(known).length > 0
  }
}

function networksOf(allow: readonly string[]): NetworkMap<true> {
  if (!Array.isArray(allow)) refuse('allow', "an array of addresses and networks, such as ['10.0.0.0/8']", allow)
  const networks = new NetworkMap<true>()
  for (const [i, each] of allow.entries()) {
    if (typeof each !== 'string' || !isNetwork(each))
      refuse(`allow[${i}]`, "an address or a network, such as '192.0.2.7', '10.0.0.0/8' or '2001:db8::/32'", each)
    networks.of(each, () => true)
  }
  return networks
}

function givenAddress<Request>(
  address: (request: Request, ...rest: never[]) => string | undefined,
  { getRest }: AddressAdapter<Request>,
): (request: Request) => string | undefined {
  return (request) => address(request, ...((getRest?.(request) ?? []) as never[]))
}
