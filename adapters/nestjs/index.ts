export {
  type ModuleScope,
  type RateLimitAsyncOptions,
  RateLimitModule,
  type RateLimitOptionsFactory,
} from './module.ts'
export { type Decorator, type OwnRateLimitOptions, RateLimit, SkipRateLimit } from './decorators.ts'
export { rateLimit, RateLimitGuard } from './guard.ts'
export { RateLimitFilter } from './guard.ts'
export { type DenialBody, type DenialExtensions, RateLimitException } from './exceptions.ts'
export { executionContext } from './platform.ts'
export { byHandler, byHeader, byIP, byMethod, byRoute, ipKeyer, type IpKeyerOptions } from './keyers.ts'
export type { OnDenied } from './adapter.ts'
export type { RateLimitOptions, ResponseOptions } from './context-limiter.ts'
export type { NestRequest, NestResponse } from './platform.ts'
export { RateLimits } from './rate-limits.ts'
