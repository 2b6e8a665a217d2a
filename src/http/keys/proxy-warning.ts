import { warn } from '../../util/warn.ts'

/** Which proxies the framework trusts to report the client's address. */
export type ProxyTrust = 'nobody' | 'everybody' | 'some'

/** A warning: what is wrong, and what to do. */
export interface ProxyWarning {
  readonly code: 'SLUICE_PROXY_UNTRUSTED' | 'SLUICE_PROXY_TRUSTS_ALL'
  readonly message: string
}

const HOW_TO =
  "Tell the framework which proxies are yours: app.set('trust proxy', 1) in Express, trustProxy: '10.0.0.0/8' in Fastify, where " +
  'a number trusts nobody, app.proxy = true with maxIpsCount: 1 in Koa, with your own numbers; ipKeyer({ address }) where the ' +
  'adapter has this option. See README.md#behind-a-proxy'

const untrusted: ProxyWarning = {
  code: 'SLUICE_PROXY_UNTRUSTED',
  message:
    'Requests have an X-Forwarded-For header, but the framework trusts no proxy: all clients behind the proxy share one address ' +
    `and one limit. ${HOW_TO}`,
}

const trustsAll: ProxyWarning = {
  code: 'SLUICE_PROXY_TRUSTS_ALL',
  message:
    'The framework trusts an X-Forwarded-For header from anybody: a client that writes its own gets a new limit with each ' +
    `request. ${HOW_TO}`,
}

/**
 * Returns what is wrong with the address of a request, if anything.
 * @example proxyWarning(true, 'nobody')?.code // 'SLUICE_PROXY_UNTRUSTED'
 */
export function proxyWarning(forwarded: boolean, trust: ProxyTrust): ProxyWarning | undefined {
  if (trust === 'everybody') return trustsAll
  return trust === 'nobody' && forwarded ? untrusted : undefined
}

/**
 * Returns a function that checks a request and writes each warning once.
 * @example
 * const warnOfProxy = proxyWarner()
 * warnOfProxy(request.headers['x-forwarded-for'] !== undefined, 'nobody')
 */
export function proxyWarner(
  emit: (code: string, message: string) => void = warn,
): (forwarded: boolean, trust: ProxyTrust) => void {
  const emitted = new Set<ProxyWarning>()
  return function warnOfProxy(forwarded, trust) {
    const warning = proxyWarning(forwarded, trust)
    if (warning === undefined || emitted.has(warning)) return
    emitted.add(warning)
    emit(warning.code, warning.message)
  }
}
