export { byHeader, byIP, byMethod, byRoute, ipKeyer, rateLimit } from './express.ts'
export type { OnDenied, RateLimit, RateLimitOptions } from './express.ts'
export type { IpKeyerOptions } from '../../src/http/keys/address.ts'
export type { HeaderStyle } from '../../src/http/headers/types.ts'
