import { copyText } from '../../util/bounded-key.ts'
import { define, type SyncKeyer } from '../../limiter/keyers.ts'
import { isPromise } from '../../util/maybe-promise.ts'
import { knownOptions, needsCall, refuse, refuseOwnCall } from '../../util/validate.ts'
import { shared } from '../../util/copies.ts'
import { isPublicIPv4, readIPv4, readIPv6, writeIPv6 } from './ip.ts'

/** Results for longer texts are not cached, so that clients cannot fill the memory with them. */
const MAX_TEXT_LENGTH = 64

/**
 * Caches the latest results of a pure function of a text: at least `size` and at most twice as many. It has two generations and drops the older one as a
 * whole, which is faster than keeping the texts in order. `undefined` is not cached.
 */
export function recentCache<Result>(size: number, compute: (text: string) => Result): (text: string) => Result {
  let young = new Map<string, Result>()
  let old = new Map<string, Result>()

  function keep(text: string, result: Result): Result {
    if (young.size >= size) {
      old = young
      young = new Map()
    }
    young.set(text, result)
    return result
  }

  return function cached(text) {
    const recent = young.get(text)
    if (recent !== undefined) return recent
    const older = old.get(text)
    if (older !== undefined) return keep(text, older)
    if (text.length > MAX_TEXT_LENGTH) return compute(text)
    const copy = copyText(text)
    const result = compute(copy)
    return result === undefined ? result : keep(copy, result)
  }
}

/** The longest text that is read as an address. Only a zone can make an address longer. */
const MAX_ADDRESS_LENGTH = 128
/** How many addresses a keyer caches, in each of two generations. */
const CACHE_SIZE = 1000
const MAPPED = '::ffff:'

/**
 * Returns the address in a text of a framework, a socket or a forwarded header: without port, brackets and zone. An IPv4-mapped
 * address becomes its IPv4 address, and so does an IPv4-translated or NAT64 address with a public one inside. IPv6 is written as in
 * RFC 5952. Returns `undefined` for any other text.
 *
 * @example
 * clientAddress('[2001:DB8::1%eth0]:443') // '2001:db8::1'
 * clientAddress('::ffff:203.0.113.7') // '203.0.113.7'
 */
export function clientAddress(raw: string | undefined): string | undefined {
  return keyOf(raw, undefined)
}

/**
 * Returns a function from an address to its key. The key of an IPv4 address is the address. The key of an IPv6 address is its
 * network of `ipv6Subnet` bits (32 to 128, default 56), because a client usually has the whole network. Any other text has the key
 * `undefined`: the bucket that unidentified clients share. Throws `INVALID_OPTION` for any other `ipv6Subnet`.
 *
 * @example
 * const key = addressKeyer(56)
 * key('2001:db8:1234:5678:9abc::1') // '2001:db8:1234:5600::/56'
 */
export function addressKeyer(ipv6Subnet = 56): (raw: string | undefined) => string | undefined {
  if (!Number.isInteger(ipv6Subnet) || ipv6Subnet < 32 || ipv6Subnet > 128) {
    refuse('ipv6Subnet', 'a whole number from 32 to 128', ipv6Subnet)
  }
  const cachedKey = recentCache(CACHE_SIZE, (raw) => keyOf(raw, ipv6Subnet))
  return define('addressKeyer', [ipv6Subnet], function addressKey(raw) {
    return typeof raw === 'string' ? cachedKey(raw) : noAddress(raw)
  })
}

/** Returns the key of a value that is not a text. Throws `INVALID_OPTION` for a promise, because all clients would share a bucket then. */
function noAddress(raw: unknown): undefined {
  if (isPromise(raw)) refuse('address', 'a function that returns a text or undefined', raw)
}

function keyOf(raw: string | undefined, ipv6Subnet: number | undefined): string | undefined {
  if (typeof raw !== 'string') return noAddress(raw)
  const text = withoutPort(raw.trim())
  // A socket that accepts both families reports nearly every address as '::ffff:…'.
  const tail = text.startsWith(MAPPED) ? text.slice(MAPPED.length) : text
  if (readIPv4(tail) !== undefined) return tail
  const groups = readIPv6(text)
  return groups && keyOfIPv6(groups, ipv6Subnet)
}

function keyOfIPv6(groups: readonly number[], subnet: number | undefined): string {
  if (isOfIPv4(groups)) return ipv4Of(groups)
  if (subnet === undefined) return writeIPv6(groups)
  const network = groups.map((group, i) => group & (0xffff << Math.min(16, Math.max(0, 16 * (i + 1) - subnet))))
  return `${writeIPv6(network)}/${subnet}`
}

/**
 * Returns how an IPv6 address contains the IPv4 address of a client in its last 32 bits: addresses in `::ffff:0:0/96` are mapped, those in
 * `::ffff:0:0:0/96` and `64:ff9b::/96` (NAT64) are translated.
 */
export function carrierOf([a, b, c, d, e, f]: readonly number[]): 'mapped' | 'translated' | undefined {
  if (c !== 0 || d !== 0) return undefined
  if (a === 0 && b === 0 && e === 0 && f === 0xffff) return 'mapped'
  if (a === 0 && b === 0 && e === 0xffff && f === 0) return 'translated'
  return a === 0x64 && b === 0xff9b && e === 0 && f === 0 ? 'translated' : undefined
}

/**
 * Returns true if an IPv6 address counts as the IPv4 address in it. A socket reports mapped addresses for any client. A translator only has public addresses
 * (RFC 6052, section 3.1). A translated private address could be forged to appear in an allowed network, so it stays IPv6.
 */
function isOfIPv4(groups: readonly number[]): boolean {
  const carrier = carrierOf(groups)
  return carrier === 'mapped' || (carrier === 'translated' && isPublicIPv4(groups[6]! * 0x1_0000 + groups[7]!))
}

function ipv4Of(groups: readonly number[]): string {
  const [high, low] = [groups[6]!, groups[7]!]
  return `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`
}

/** Removes port, brackets and zone. Returns `''` for a text that cannot be an address. */
function withoutPort(text: string): string {
  if (text.length > MAX_ADDRESS_LENGTH) return ''
  if (text.startsWith('[')) return withoutZone(withoutBrackets(text))
  const colon = text.indexOf(':')
  // Two colons or more: IPv6 without brackets, which has no port.
  if (colon === -1 || text.includes(':', colon + 1)) return withoutZone(text)
  return isPort(text.slice(colon)) ? text.slice(0, colon) : ''
}

function withoutBrackets(text: string): string {
  const end = text.indexOf(']')
  const rest = text.slice(end + 1)
  return end !== -1 && (rest === '' || isPort(rest)) ? text.slice(1, end) : ''
}

function isPort(text: string): boolean {
  return /^:\d{1,5}$/.test(text)
}

/** Returns the part of an IPv6 address before its zone, such as `%eth0`. */
export function withoutZone(text: string): string {
  const zone = text.indexOf('%')
  return zone !== -1 && text.includes(':') ? text.slice(0, zone) : text
}

/** Functions of a framework that return data about the client of a request. */
export interface ClientInfo<Request> {
  /** Returns the client's address, as the framework reports it under its own proxy settings. */
  address(request: Request): string | undefined
  /** Returns which header of a proxy the request has: see `proxyHeaderIn`. */
  proxyHeader(request: Request): ProxyHeader | undefined
  /** Returns which proxies the framework trusts. */
  trust(request: Request): ProxyTrust
  /** Returns the app of the request. Each app has its own warnings. `undefined` for a request outside of any app. */
  app(request: Request): object | undefined
  /**
   * Returns true if the app has set the address of this request itself, so that the proxies that the framework trusts do not matter, and there is no
   * warning about them. Default: the app never does this.
   */
  isSet?(request: Request): boolean
}

/** The part of a socket that has the address of the sender. */
interface PeerSocket {
  readonly remoteAddress?: string | undefined
}

/**
 * Returns true for an address that the app has set, such as from a header of its proxy. The framework itself only takes addresses from the socket and from
 * the headers in `ips`. Also returns true if the app has set the address of the socket.
 * @param request an object that has its own property `ip` only if the app has set it
 * @example isSetByApp(request, request.socket, request.ips)
 */
export function isSetByApp(
  request: { readonly ip?: string | undefined },
  socket: PeerSocket | undefined,
  ips: readonly string[] = [],
): boolean {
  if (Object.hasOwn(request, 'ip') || isSocketSet(socket)) return true
  const { ip } = request
  return Boolean(ip) && ip !== socket?.remoteAddress && !ips.includes(ip!)
}

/** Returns true if the app has set the address of a socket. Node's sockets inherit it. */
export function isSocketSet(socket: PeerSocket | undefined): boolean {
  if (socket === undefined || !Object.hasOwn(socket, 'remoteAddress')) return false
  return 'remoteAddress' in (Object.getPrototypeOf(socket) as object)
}

/** The options of every adapter's `ipKeyer`. */
export interface IpKeyerOptions {
  /** The bits of an IPv6 address that identify a client, 32 to 128. Default 56, because a client has many addresses. */
  readonly ipv6Subnet?: number
}

/** The options of an `ipKeyer` with a function that returns the address. */
export interface AddressOptions<Arguments extends readonly unknown[]> extends IpKeyerOptions {
  /**
   * Returns the client's address, as the runtime or your own proxy reports it; `undefined` if there is none. Do not use a header that the client can set.
   */
  readonly address: (...of: Arguments) => string | undefined
}

/** Checks options with an `address`, and returns a function from such an address to its key. */
export function givenAddressKey(options: AddressOptions<never>): (address: string | undefined) => string | undefined {
  if (typeof options !== 'object' || options === null) refuse('ipKeyer', 'options such as { address }', options)
  options = knownOptions('ipKeyer', options, ['address', 'ipv6Subnet'])
  if (typeof options.address !== 'function')
    refuse('address', 'a function that returns the address of a client', options.address)
  return addressKeyer(options.ipv6Subnet)
}

/**
 * Creates the `ipKeyer` of an adapter whose options have a function that returns the address.
 * @example export const ipKeyer = (options: AddressOptions<[request: IncomingMessage]>) => givenAddressKeyer(options)
 */
export function givenAddressKeyer<Request>(options: AddressOptions<[request: Request]>): SyncKeyer<Request> {
  const key = givenAddressKey(options)
  const { address } = options
  return define('ipKeyer', [address, key], function ipKeyer(request: Request) {
    return key(address(request))
  })
}

/**
 * Creates the `ipKeyer` of an adapter. A rate limit with it warns, once for each app, if the proxy settings make the addresses
 * useless. Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example const byIP = clientKeyer({
 *   address: (request: IncomingMessage) => request.socket.remoteAddress,
 *   proxyHeader: (request) => proxyHeaderIn(request.headers),
 *   trust: () => 'nobody',
 *   app: () => undefined,
 * })
 */
export function clientKeyer<Request>(client: ClientInfo<Request>, options: IpKeyerOptions = {}): SyncKeyer<Request> {
  options = knownOptions('ipKeyer', options, ['ipv6Subnet'])
  const key = addressKeyer(options.ipv6Subnet)
  const address = addressReader(client)
  return define('ipKeyer', [client, key], function byIP(request: Request) {
    refuseOwnCall('byIP', request)
    return key(address(request))
  })
}

/** Returns the `ipKeyer` of an adapter, which keyer options refuse if it is not called. */
export function ipKeyerOf<Request>(client: ClientInfo<Request>): (options?: IpKeyerOptions) => SyncKeyer<Request> {
  return needsCall(function ipKeyer(options?: IpKeyerOptions) {
    return clientKeyer(client, options)
  }, 'ipKeyer()')
}

/**
 * For each request that `src/http/checks/` checks, the `ClientInfo` objects that have read its address: only limits that read addresses warn about
 * proxies. Most requests are not in it.
 */
export const readsOfChecked: WeakMap<object, Set<ClientInfo<never>>> = shared(
  'reads of checked requests',
  () => new WeakMap(),
)

/** Returns a function for the client's address. */
export function addressReader<Request>(client: ClientInfo<Request>): (request: Request) => string | undefined {
  return function addressOf(request) {
    readsOfChecked.get(request as object)?.add(client as ClientInfo<never>)
    return client.address(request)
  }
}

/** Which proxies the framework trusts to report the client's address. */
export type ProxyTrust = 'nobody' | 'everybody' | 'some'

/** A header that a proxy adds. The framework can read `x-forwarded-for`, and does not read the other two. */
export type ProxyHeader = 'x-forwarded-for' | 'forwarded' | 'x-real-ip'

/**
 * Returns which header of a proxy a request has, if any.
 * @param readable the header that the framework can read, in lower case
 * @example proxyHeaderIn(request.headers)
 */
export function proxyHeaderIn(
  headers: Readonly<Record<string, unknown>>,
  readable = 'x-forwarded-for',
): ProxyHeader | undefined {
  if (headers[readable] !== undefined) return 'x-forwarded-for'
  if (headers['forwarded'] !== undefined) return 'forwarded'
  return headers['x-real-ip'] === undefined ? undefined : 'x-real-ip'
}
