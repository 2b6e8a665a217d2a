import type { SyncKeyer } from '../../limiter/keyers.ts'
import { knownOptions, refuse } from '../../util/validate.ts'
import { addressKeyer } from './address.ts'
import { type ProxyTrust, proxyWatch } from './proxy.ts'

/** How a framework tells where a request comes from. */
export interface ClientSurface<Request> {
  /** The client's address as the framework has it, proxies seen through as far as it trusts them. */
  address(request: Request): string | undefined
  /** True when some proxy says that it has passed the request on. */
  forwarded(request: Request): boolean
  /** Whose word the framework takes for the address. */
  trust(request: Request): ProxyTrust
  /** What is one per app, each of which is warned of on its own; `undefined` for a request outside of any. */
  app(request: Request): object | undefined
}

/** Options of every adapter's `ipKeyer`. */
export interface IpKeyerOptions {
  /** The bits of an IPv6 address that make a client, 32 to 128. Default 56: whoever has one address has many. */
  readonly ipv6Subnet?: number
}

/** Where an adapter cannot know the address by itself: how to find it. */
export interface AddressOptions<Arguments extends readonly unknown[]> extends IpKeyerOptions {
  /**
   * The client's address, by what the runtime or a proxy of your own says; `undefined` when there is none. Take no header
   * that the client can write.
   */
  readonly address: (...of: Arguments) => string | undefined
}

/** Checks options with an `address`, and makes what turns such an address into a key. */
export function givenAddressKey(options: AddressOptions<never>): (address: string | undefined) => string | undefined {
  if (typeof options !== 'object' || options === null) refuse('ipKeyer', 'options such as { address }', options)
  knownOptions('ipKeyer', options, ['address', 'ipv6Subnet'])
  if (typeof options.address !== 'function') refuse('address', 'a function to the address of a client', options.address)
  return addressKeyer(options.ipv6Subnet)
}

/** Makes the `ipKeyer` of an adapter whose user says where a request comes from. */
export function givenAddressKeyer<Request>(options: AddressOptions<[request: Request]>): SyncKeyer<Request> {
  const key = givenAddressKey(options)
  const { address } = options
  return function ipKey(request) {
    return key(address(request))
  }
}

/** Makes an adapter's `ipKeyer`. It warns, once per app, where the app's trust in proxies makes addresses worthless. */
export function clientKeyer<Request>(
  surface: ClientSurface<Request>,
  options: IpKeyerOptions = {},
): SyncKeyer<Request> {
  knownOptions('ipKeyer', options, ['ipv6Subnet'])
  const key = addressKeyer(options.ipv6Subnet)
  const watches = watchesOf(surface)
  let latest: object | undefined
  let watch: Watch | undefined

  function watchApp(app: object | undefined, request: Request): void {
    latest = app
    watch = app && (watches.get(app) ?? { trust: surface.trust(request), warn: proxyWatch() })
    if (app === undefined || watch === undefined) return
    watches.set(app, watch)
    watch.warn(false, watch.trust)
  }

  return function ipKey(request) {
    const app = surface.app(request)
    if (app !== latest) watchApp(app, request)
    if (watch?.trust === 'nobody' && surface.forwarded(request)) watch.warn(true, 'nobody')
    return key(surface.address(request))
  }
}

/** By framework and app, however many keyers there are. */
const watched = new WeakMap<object, WeakMap<object, Watch>>()

function watchesOf(surface: object): WeakMap<object, Watch> {
  const watches = watched.get(surface) ?? new WeakMap<object, Watch>()
  watched.set(surface, watches)
  return watches
}

interface Watch {
  readonly trust: ProxyTrust
  readonly warn: ReturnType<typeof proxyWatch>
}
