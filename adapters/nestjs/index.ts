export {
  type ModuleScope,
  createRateLimitGuard,
  type RateLimitAsyncOptions,
  RateLimitFilter,
  RateLimitGuard,
  RateLimitModule,
  type RateLimitOptionsFactory,
} from './module.ts'
export { type Decorator, type OwnRateLimitOptions, RateLimit, SkipRateLimit } from './decorators.ts'
export { type DenialBody, type DenialExtensions, RateLimitException } from './exceptions.ts'
export { executionContext } from './platform.ts'
export { byHandler, byHeader, byIP, byMethod, byRoute, ipKeyer, type IpKeyerOptions } from './keyers.ts'
export type { OnDenied, RateLimitOptions, ResponseOptions } from './adapter.ts'
export type { NestRequest, NestResponse } from './platform.ts'
export { RateLimitService } from './service.ts'
export type { HeaderStyle } from '../../src/http/headers/types.ts'
