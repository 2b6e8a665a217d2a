import { warn } from '../../util/warn.ts'

/** Which proxies the framework trusts to report the client's address. */
export type ProxyTrust = 'nobody' | 'everybody' | 'some'

/** A header that a proxy adds: one that the framework can read, or one that it does not read. */
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

/** A warning: what is wrong, and what to do. */
export interface ProxyWarning {
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
 * Returns what is wrong with the address of a request, if anything.
 * @example proxyWarning('x-forwarded-for', 'nobody')?.code // 'SLUICE_PROXY_UNTRUSTED'
 */
export function proxyWarning(header: ProxyHeader | undefined, trust: ProxyTrust): ProxyWarning | undefined {
  if (trust === 'everybody') return trustsAll
  if (header === 'forwarded' || header === 'x-real-ip') return unreadWarnings[header]
  return trust === 'nobody' && header !== undefined ? untrusted : undefined
}

/**
 * Returns a function that checks a request and writes each warning once, unless `isSet` returns true: the app has set the address itself.
 * @example
 * const warnOfProxy = proxyWarner()
 * warnOfProxy(proxyHeaderIn(request.headers), 'nobody')
 */
export function proxyWarner(
  emit: (code: string, message: string) => void = warn,
): (header: ProxyHeader | undefined, trust: ProxyTrust, isSet?: () => boolean) => void {
  const emitted = new Set<ProxyWarning>()
  return function warnOfProxy(header, trust, isSet) {
    const warning = proxyWarning(header, trust)
    if (warning === undefined || emitted.has(warning) || isSet?.() === true) return
    emitted.add(warning)
    emit(warning.code, warning.message)
  }
}
