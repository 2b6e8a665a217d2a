/**
 * For adapters to frameworks that this package does not support. An adapter describes, as an `HttpAdapter`, how its framework
 * reads a request and answers it. `createRequestLimiter` does everything that is the same for all frameworks: skip, decide,
 * write headers, deny, delay, refund. `adapterBehaviours` of `sluice/testing` checks the result.
 *
 * @example
 * import { createRequestLimiter, type HttpAdapter, type HttpOptions, type LimiterSource } from 'sluice/adapter'
 *
 * type RateLimitOptions = LimiterSource<Incoming> & HttpOptions<Incoming, Outgoing> & { readonly onDenied?: OnDenied }
 * const adapter: HttpAdapter<Incoming, Outgoing, undefined, OnDenied> = { getMethod: (incoming) => incoming.method, … }
 *
 * export function rateLimit(options: RateLimitOptions): Middleware {
 *   const requestLimiter = createRequestLimiter(options, adapter)
 *   return async function limitRate(incoming, outgoing, next) {
 *     if (await requestLimiter.admit(incoming, outgoing, undefined)) return next()
 *   }
 * }
 * @module
 */

export type { Decision } from '../limiter/decision.ts'
export type { HeaderOptions } from './headers/options.ts'
export type { HttpAdapter } from './adapter.ts'
export { type Denial, denial, rawResponse } from './denial.ts'
export { clientAddress } from './keys/address.ts'
export {
  type AddressOptions,
  type ClientInfo,
  clientKeyer,
  givenAddressKeyer,
  type IpKeyerOptions,
} from './keys/address.ts'
export { type ProxyHeader, proxyHeaderIn, type ProxyTrust } from './keys/address.ts'
export { unroutedKey } from './checks.ts'
export { headerKeyer, routeKey, type RoutePattern } from './keys/request-keyers.ts'
export type { HttpOptions, LimiterSource } from './options.ts'
export {
  type HeaderRecord,
  headersFor,
  problemFor,
  type ProblemOptions,
  type ProblemResponse,
} from './responses-for.ts'
export { createRequestLimiter, type RequestLimiter } from './request-limiter.ts'
export { markAborted, whenClosed } from './response/node.ts'
export { ResponseEnd } from './response/web.ts'
