import { warn } from '../../util/warn.ts'

/** Whose word the framework takes for the client's address. */
export type ProxyTrust = 'nobody' | 'everybody' | 'some'

/** A warning: what is wrong, and what to do. */
export interface ProxyWarning {
  readonly code: 'SLUICE_PROXY_UNTRUSTED' | 'SLUICE_PROXY_TRUSTS_ALL'
  readonly message: string
}

const HOW_TO =
  "Say which proxies are yours: app.set('trust proxy', 1) in Express, trustProxy: '10.0.0.0/8' in Fastify, where a number trusts nobody, " +
  'app.proxy = true with maxIpsCount: 1 in Koa, with your own numbers; ipKeyer({ address }) where the adapter takes one. ' +
  'See README.md#behind-a-proxy'

const untrusted: ProxyWarning = {
  code: 'SLUICE_PROXY_UNTRUSTED',
  message:
    'Requests carry X-Forwarded-For, but the framework trusts no proxy: all clients behind the proxy share one address ' +
    `and one limit. ${HOW_TO}`,
}

const trustsAll: ProxyWarning = {
  code: 'SLUICE_PROXY_TRUSTS_ALL',
  message:
    'The framework trusts X-Forwarded-For whoever sends it: a client that writes its own gets a fresh limit with every ' +
    `request. ${HOW_TO}`,
}

/**
 * What is wrong with how a request's address came about, if anything.
 * @example proxyWarning(true, 'nobody')?.code // 'SLUICE_PROXY_UNTRUSTED'
 */
export function proxyWarning(forwarded: boolean, trust: ProxyTrust): ProxyWarning | undefined {
  if (trust === 'everybody') return trustsAll
  return trust === 'nobody' && forwarded ? untrusted : undefined
}

/**
 * Watches requests and warns of each mistake once. Make one per gate.
 * @example
 * const watch = proxyWatch()
 * watch(request.headers['x-forwarded-for'] !== undefined, 'nobody')
 */
export function proxyWatch(
  emit: (code: string, message: string) => void = warn,
): (forwarded: boolean, trust: ProxyTrust) => void {
  const told = new Set<ProxyWarning>()
  return function watchProxy(forwarded, trust) {
    const warning = proxyWarning(forwarded, trust)
    if (warning === undefined || told.has(warning)) return
    told.add(warning)
    emit(warning.code, warning.message)
  }
}
