/**
 * For adapters to frameworks that this package has none for. An adapter says, as a `Surface`, how its framework reads a
 * request and answers it; `createGate` does all that is the same for every framework: skip, decide, delay, tell, deny,
 * refund. `adapterBehaviours` of `sluice/testing` says whether it does.
 *
 * @example
 * import { createGate, type Decider, type GateOptions, type Surface } from 'sluice/adapter'
 *
 * type RateLimitOptions = Decider<Incoming> & GateOptions<Incoming, Outgoing> & { readonly onDenied?: OnDenied }
 * const surface: Surface<Incoming, Outgoing, undefined, OnDenied> = { method: (incoming) => incoming.method, … }
 *
 * export function rateLimit(options: RateLimitOptions): Middleware {
 *   const gate = createGate(options, surface)
 *   return async function limitRate(incoming, outgoing, next) {
 *     if (await gate.enter(incoming, outgoing, undefined)) return next()
 *   }
 * }
 * @module
 */

export type { Decision } from './limiter/decision.ts'
export { clientAddress } from './http/keys/address.ts'
export {
  type AddressOptions,
  type ClientSurface,
  clientKeyer,
  givenAddressKeyer,
  type IpKeyerOptions,
} from './http/keys/ip-keyer.ts'
export { whenClosed } from './http/response/node-end.ts'
export { Ending } from './http/response/web-end.ts'
export { createGate, type Gate } from './http/request-limiter.ts'
export type { Decider, GateOptions } from './http/options.ts'
export { type Denial, denial, rawResponse } from './http/denial.ts'
export type { ProxyTrust } from './http/keys/proxy.ts'
export { headerKeyer, routeKey, type RoutePattern } from './http/keys/request-keyers.ts'
export type { Surface } from './http/adapter.ts'
