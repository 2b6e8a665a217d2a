import type { ClientInfo, ProxyHeader, ProxyTrust } from '../keys/address.ts'
import { tools } from './tools.ts'

/** The proxy settings of an app, and the warnings about them so far. */
interface ProxySettings {
  readonly trust: ProxyTrust
  readonly warned: Set<ProxyWarning>
}

/** The settings by framework and app, so that all keyers of an app share its warnings. */
const knownApps = new WeakMap<object, WeakMap<object, ProxySettings>>()

/** Warns, once for each app, if its proxy settings make the addresses of its clients useless, unless the app has set the address of this request. */
export function checkProxies<Request>(client: ClientInfo<Request>, request: Request): void {
  const app = client.app(request)
  if (app === undefined) return
  const ofFramework = knownApps.get(client) ?? new WeakMap<object, ProxySettings>()
  knownApps.set(client, ofFramework)
  const known = ofFramework.get(app)
  const settings = known ?? { trust: client.trust(request), warned: new Set() }
  ofFramework.set(app, settings)
  // An app that trusts everybody may set the address of most requests itself, so only its first request is checked.
  if (known !== undefined && settings.trust === 'everybody') return
  const warning = proxyWarning(client.proxyHeader(request), settings.trust)
  if (warning === undefined || settings.warned.has(warning) || client.isSet?.(request) === true) return
  settings.warned.add(warning)
  tools.warn(warning.code, warning.message)
}

interface ProxyWarning {
  readonly code: 'SLUICE_PROXY_UNTRUSTED' | 'SLUICE_PROXY_TRUSTS_ALL'
  readonly message: string
}

const HOW_TO =
  "Tell the framework which proxies are yours: app.set('trust proxy', 1) in Express, trustProxy: '10.0.0.0/8' in Fastify, where " +
  'a number trusts no proxy, app.proxy = true with maxIpsCount: 1 in Koa, with your own numbers; ipKeyer({ address }) where the ' +
  'adapter has this option.'

const untrusted: ProxyWarning = {
  code: 'SLUICE_PROXY_UNTRUSTED',
  message:
    'Requests have an X-Forwarded-For header, but the framework trusts no proxy. All clients behind the proxy share one address ' +
    `and one limit. ${HOW_TO}`,
}

const unread = (header: string): ProxyWarning => ({
  code: 'SLUICE_PROXY_UNTRUSTED',
  message:
    `Requests have the header ${header}, but the framework does not read it. All clients behind ` +
    `the proxy share one address and one limit. Configure the proxy to send X-Forwarded-For. ${HOW_TO}`,
})

const unreadWarnings = { forwarded: unread('Forwarded'), 'x-real-ip': unread('X-Real-IP') } as const

const trustsAll: ProxyWarning = {
  code: 'SLUICE_PROXY_TRUSTS_ALL',
  message:
    'The framework trusts the X-Forwarded-For header of every sender. A client that forges the header gets a new limit with each ' +
    `request. ${HOW_TO}`,
}

/**
 * Returns the warning about the address of a request, if there is one.
 * @example proxyWarning('x-forwarded-for', 'nobody')?.code // 'SLUICE_PROXY_UNTRUSTED'
 */
export function proxyWarning(header: ProxyHeader | undefined, trust: ProxyTrust): ProxyWarning | undefined {
  if (trust === 'everybody') return trustsAll
  if (header === 'forwarded' || header === 'x-real-ip') return unreadWarnings[header]
  return trust === 'nobody' && header !== undefined ? untrusted : undefined
}
