import { carrierOf, clientAddress, recentCache, withoutZone } from './address.ts'
import { readIPv4, readIPv6 } from './ip.ts'
import { refuse } from '../../util/validate.ts'
import type { HttpAdapter } from '../adapter.ts'

/** How many addresses are cached with their networks, in each of two generations. */
const CACHE_SIZE = 1000

interface Address {
  readonly bits: bigint
  readonly width: 32 | 128
}

interface Network extends Address {
  readonly prefix: number
}

/** Returns true for an address, and for a network such as `192.0.2.0/24`. */
export function isNetwork(text: string): boolean {
  return parsed(text) !== undefined
}

/** Returns true for a network that contains all addresses of IPv4 or of IPv6, however it is written. */
export function isEveryAddress(text: string): boolean {
  return parsed(text)?.prefix === 0
}

/** A map from networks to values. An address is looked up once for each length of prefix. */
export class NetworkMap<Value> {
  /** The values by the width of an address, the length of a prefix and its bits. */
  readonly #values = { 32: new Map<number, Map<bigint, Value>>(), 128: new Map<number, Map<bigint, Value>>() }
  readonly #cached: (address: string) => readonly Value[]

  constructor() {
    this.#cached = recentCache(CACHE_SIZE, (address) => this.#lookUp(address))
  }

  /** Returns the value of a network. Makes it if there is none. Must be called for all networks before `find`. */
  of(text: string, make: () => Value): Value {
    const network = parsed(text)!
    const { width, prefix } = network
    const values = this.#values[width].get(prefix) ?? new Map<bigint, Value>()
    this.#values[width].set(prefix, values)
    const bits = firstBits(network, prefix)
    const value = values.get(bits) ?? make()
    values.set(bits, value)
    return value
  }

  /** Returns the values of all networks that contain an address. */
  find(address: string): readonly Value[] {
    return this.#values[32].size + this.#values[128].size === 0 ? [] : this.#cached(address)
  }

  #lookUp(address: string): readonly Value[] {
    const known = parsed(address)
    if (known === undefined) return []
    const found = Array.from(this.#values[known.width], ([prefix, values]) => values.get(firstBits(known, prefix)))
    return found.filter((value) => value !== undefined)
  }
}

/** Reads an address or a network. An IPv4-mapped one becomes its IPv4 address or network: `::ffff:10.0.0.0/104` is `10.0.0.0/8`. */
function parsed(text: string): Network | undefined {
  const slash = text.indexOf('/')
  const written = slash === -1 ? text : text.slice(0, slash)
  const groups = readIPv6(withoutZone(written))
  const address = groups !== undefined || readIPv4(written) !== undefined ? clientAddress(written) : undefined
  if (address === undefined) return undefined
  const { bits, width } = bitsOf(address)
  const length = slash === -1 ? String(width) : text.slice(slash + 1)
  const hidden = slash === -1 || groups === undefined ? 0 : hiddenBits(groups)
  const prefix = /^\d{1,3}$/.test(length) ? Number(length) - hidden : Infinity
  return prefix >= 0 && prefix <= width ? { bits, width, prefix } : undefined
}

/** Returns how many bits a network has before its IPv4 address: 96 for an IPv4-mapped network, otherwise 0. `Infinity` for a network that is not allowed. */
function hiddenBits(groups: readonly number[]): number {
  const carrier = carrierOf(groups)
  if (carrier === undefined) return 0
  // Clients in translated networks have their IPv4 address as a key.
  return carrier === 'mapped' ? 96 : Infinity
}

function bitsOf(address: string): Address {
  const groups = readIPv6(address)
  if (groups === undefined) return { bits: BigInt(readIPv4(address)!), width: 32 }
  return { bits: groups.reduce((bits, group) => (bits << 16n) | BigInt(group), 0n), width: 128 }
}

function firstBits({ bits, width }: Address, prefix: number): bigint {
  return bits >> BigInt(width - prefix)
}

/** The options of clients that are not limited. */
export interface AllowOptions<Request> {
  /**
   * Addresses and networks of clients that are not limited: IPv4 or IPv6, such as `'192.0.2.7'`, `'10.0.0.0/8'` or `'2001:db8::/32'`.
   * Their requests are not counted and have no rate-limit headers. An IPv4-mapped address counts as its IPv4 address, and so does a NAT64 address
   * (`64:ff9b::/96`) of a public address. A client without a known address is limited. The address is the one that `byIP` uses, so it depends on the
   * proxies that the framework trusts: with the warning `SLUICE_PROXY_TRUSTS_ALL`, clients can forge an address of this list. Default: none.
   * @example rateLimit({ keyer: byIP, limits: perMinute(100), allow: ['127.0.0.1', '::1', '10.0.0.0/8'] })
   */
  readonly allow?: readonly string[]
  /**
   * Returns the client's address for `allow`, as the runtime or your own proxy reports it. It receives the arguments of a handler. Do not use a header that
   * the client can set. Default: the address that `byIP` uses. `sluice/fetch` needs this option, because its requests have no address. So does Hono outside
   * of Node.
   * @example rateLimit({ keyer, limits, allow: ['10.0.0.0/8'], address: (request) => request.headers.get('x-real-ip') ?? undefined })
   */
  readonly address?: (request: Request, ...rest: never[]) => string | undefined
}

type AddressAdapter<Request> = Pick<HttpAdapter<Request, never, never, never>, 'getAddress' | 'getRest'>

/**
 * Returns a function that returns true for the requests of `allow`, or `undefined` without this option. Throws `INVALID_OPTION` for anything but addresses
 * and networks, and if there is no way to get the address of a request.
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
  const given = (request: Request): string | undefined =>
    address!(request, ...((adapter.getRest?.(request) ?? []) as never[]))
  const addressOf = address === undefined ? adapter.getAddress : given
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
    if (isEveryAddress(each))
      refuse(`allow[${i}]`, 'a smaller network, because clients of `allow` are not limited', each)
    networks.of(each, () => true)
  }
  return networks
}
