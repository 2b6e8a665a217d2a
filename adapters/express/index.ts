export { byHeader, byIP, byMethod, byRoute, ipKeyer, rateLimit } from './express.ts'
export type { RateLimit, RateLimitOptions } from './express.ts'
export type { IpKeyerOptions } from '../../src/http/keys/address.ts'
