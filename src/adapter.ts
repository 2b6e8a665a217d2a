export type { Decision } from './decision.ts'
export { clientAddress } from './http/address.ts'
export {
  type AddressOptions,
  type ClientSurface,
  clientKeyer,
  givenAddressKeyer,
  type IpKeyerOptions,
} from './http/client-key.ts'
export { whenClosed } from './http/ended.ts'
export { Ending } from './http/ending.ts'
export { createGate, type Gate } from './http/gate.ts'
export type { Decider, GateOptions } from './http/options.ts'
export { type Denial, denial, rawResponse } from './http/problem.ts'
export type { ProxyTrust } from './http/proxy.ts'
export { headerKeyer, routeKey, type RoutePattern } from './http/route.ts'
export type { Surface } from './http/surface.ts'
