/**
 * For adapters to frameworks that this package does not support. An adapter is an `HttpAdapter`, which describes how its framework reads a request and
 * answers it. `createRequestLimiter` does the part that is the same for all frameworks: skip, decide, write headers, deny, delay, refund.
 * `adapterBehaviours` of `sluice/testing` checks the result.
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

import type { Decision } from '../limiter/decision.ts'
import { SluiceError } from '../util/errors.ts'
import { knownOptions } from '../util/validate.ts'
import type { DeniedRequest } from './denial.ts'
import { HEADER_OPTIONS, type HeaderOptions } from './headers/options.ts'
import { headerConfig } from './headers/styles.ts'
import { validateStatus } from './message.ts'
import { NAMES_ELSEWHERE } from './names-elsewhere.ts'
import { type HeaderRecord, plainDenial, plainHeaders, type ProblemResponse } from './plain.ts'

export type { Decision } from '../limiter/decision.ts'
export type { HeaderOptions } from './headers/options.ts'
export type { HttpAdapter } from './adapter.ts'
export { type Denial, denial, rawResponse } from './denial.ts'
export type { AddressOptions, ClientInfo, IpKeyerOptions, ProxyHeader, ProxyTrust } from './keys/address.ts'
export { clientAddress, clientKeyer, givenAddressKeyer, proxyHeaderIn } from './keys/address.ts'
export { unroutedKey } from './checking.ts'
export { headerKeyer, routeKey, type RoutePattern } from './keys/request-keyers.ts'
export type { HttpOptions, LimiterSource } from './options.ts'
export type { HeaderRecord, ProblemResponse } from './plain.ts'
export { createRequestLimiter, type RequestLimiter } from './request-limiter.ts'
export { isClosed } from '../util/closed.ts'
export { markAborted, whenAnswered, whenClosed } from './response/node.ts'
export { trackWork } from './work.ts'
export { discardBody } from './response/unread-body.ts'
export { ResponseEnd } from './response/web.ts'

/** The options of {@link problemFor}: the options of the headers, the method and the `Accept` header of the request, and `statusCode`. */
export type ProblemOptions = HeaderOptions & DeniedRequest

/**
 * Returns the rate-limit headers of a decision, for code that calls a limiter itself, such as a middleware of tRPC. The default style is
 * `'standard'`. Returns no headers for `headers: false`, and if the store did not answer. With the styles `'openai'` and
 * `'anthropic'`, a denial also has `retry-after-ms`. Throws `INVALID_OPTION`, `UNKNOWN_OPTION`.
 * @example
 * const decision = await limiter.consume(user)
 * for (const [name, value] of Object.entries(headersFor(decision))) response.setHeader(name, value)
 */
export function headersFor(decision: Decision, options: HeaderOptions = {}): HeaderRecord {
  options = knownOptions('headersFor', options, HEADER_OPTIONS, NAMES_ELSEWHERE)
  return plainHeaders(decision, headerConfig(options))
}

/**
 * Returns the response to a denied request: the status, headers and body that every adapter sends. The status is 429, or 503 if the store did not answer
 * and the limiter is closed then. Throws `INVALID_OPTION` for the decision of an admitted request, and
 * `INVALID_OPTION` or `UNKNOWN_OPTION` for wrong options.
 * @example
 * const decision = await limiter.consume(user)
 * if (!decision.allowed) {
 *   const { status, headers, body } = problemFor(decision)
 *   return new Response(body, { status, headers })
 * }
 */
export function problemFor(decision: Decision, options: ProblemOptions = {}): ProblemResponse {
  const known = [...HEADER_OPTIONS, 'method', 'accept', 'statusCode']
  options = knownOptions('problemFor', options, known, NAMES_ELSEWHERE)
  validateStatus(options.statusCode)
  if (decision.allowed)
    throw new SluiceError(
      'INVALID_OPTION',
      'problemFor: expected the decision of a denied request, got the decision of an admitted request',
    )
  return plainDenial(decision, headerConfig(options), options)
}
