import { define, refuseOwnCall, type SyncKeyer } from '../../limiter/keyers.ts'
import { knownOptions, refuse } from '../../util/validate.ts'
import { addressKeyer } from './address.ts'
import { type ProxyHeader, type ProxyTrust, proxyWarner } from './proxy-warning.ts'

/** What a framework knows about the client of a request. */
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
   * Returns true if the app has set the address of this request itself, so that the framework's trust in proxies does not matter and
   * nothing warns of it. Default: it never does.
   */
  isSet?(request: Request): boolean
}

/** The part of a socket that has the address of the sender. */
interface PeerSocket {
  readonly remoteAddress?: string | undefined
}

/**
 * Returns true for an address that the app has set, such as from a header of its proxy: the framework takes addresses only from the socket
 * and from the headers that `ips` are read from. Also returns true if the app has set the address of the socket.
 * @param request an object with a property `ip` of its own only if the app has set it
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
  /** The bits of an IPv6 address that identify a client, 32 to 128. Default 56, since a client has many addresses. */
  readonly ipv6Subnet?: number
}

/** The options of an `ipKeyer` whose user says where to find the address. */
export interface AddressOptions<Arguments extends readonly unknown[]> extends IpKeyerOptions {
  /**
   * Returns the client's address, as the runtime or your own proxy reports it; `undefined` when there is none. Do not use a
   * header that the client can write.
   */
  readonly address: (...of: Arguments) => string | undefined
}

/** Checks options with an `address`, and returns a function from such an address to its key. */
export function givenAddressKey(options: AddressOptions<never>): (address: string | undefined) => string | undefined {
  if (typeof options !== 'object' || options === null) refuse('ipKeyer', 'options such as { address }', options)
  knownOptions('ipKeyer', options, ['address', 'ipv6Subnet'])
  if (typeof options.address !== 'function')
    refuse('address', 'a function that returns the address of a client', options.address)
  return addressKeyer(options.ipv6Subnet)
}

/**
 * Creates the `ipKeyer` of an adapter whose user says where to find the address.
 * @example export const ipKeyer = (options: AddressOptions<[request: IncomingMessage]>) => givenAddressKeyer(options)
 */
export function givenAddressKeyer<Request>(options: AddressOptions<[request: Request]>): SyncKeyer<Request> {
  const key = givenAddressKey(options)
  const { address } = options
  return define('ipKeyer', [address, key], function ipKey(request: Request) {
    return key(address(request))
  })
}

/**
 * Creates the `ipKeyer` of an adapter. It warns, once for each app, if the proxy settings make the addresses useless. Throws
 * `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example const byIP = clientKeyer({
 *   address: (request: IncomingMessage) => request.socket.remoteAddress,
 *   proxyHeader: (request) => proxyHeaderIn(request.headers),
 *   trust: () => 'nobody',
 *   app: () => undefined,
 * })
 */
export function clientKeyer<Request>(client: ClientInfo<Request>, options: IpKeyerOptions = {}): SyncKeyer<Request> {
  knownOptions('ipKeyer', options, ['ipv6Subnet'])
  const key = addressKeyer(options.ipv6Subnet)
  const address = addressReader(client)
  return define('ipKeyer', [client, key], function ipKey(request: Request) {
    refuseOwnCall('byIP', request)
    return key(address(request))
  })
}

/** Returns a function for the client's address. It warns as `clientKeyer` does. */
export function addressReader<Request>(client: ClientInfo<Request>): (request: Request) => string | undefined {
  const known = knownAppsOf(client)
  let latestApp: object | undefined
  let settings: ProxySettings | undefined

  function readSettings(app: object | undefined, request: Request): void {
    latestApp = app
    settings = app && (known.get(app) ?? { trust: client.trust(request), warn: proxyWarner() })
    if (app === undefined || settings === undefined) return
    known.set(app, settings)
    if (client.isSet?.(request) !== true) settings.warn(undefined, settings.trust)
  }

  function warnOfHeader({ trust, warn }: ProxySettings, request: Request): void {
    const header = client.proxyHeader(request)
    if (header !== undefined) warn(header, trust, () => client.isSet?.(request) === true)
  }

  return function addressOf(request) {
    const app = client.app(request)
    if (app !== latestApp) readSettings(app, request)
    if (settings !== undefined && settings.trust !== 'everybody') warnOfHeader(settings, request)
    return client.address(request)
  }
}

/** The proxy settings of an app, and the function that warns of them. */
interface ProxySettings {
  readonly trust: ProxyTrust
  readonly warn: ReturnType<typeof proxyWarner>
}

/** By framework and app, so that all keyers of an app share its warnings. */
const knownApps = new WeakMap<object, WeakMap<object, ProxySettings>>()

function knownAppsOf(framework: object): WeakMap<object, ProxySettings> {
  const known = knownApps.get(framework) ?? new WeakMap<object, ProxySettings>()
  knownApps.set(framework, known)
  return known
}
