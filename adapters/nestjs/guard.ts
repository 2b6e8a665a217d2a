import {
  type ArgumentsHost,
  type CanActivate,
  Catch,
  type ExceptionFilter,
  type ExecutionContext,
  Inject,
} from '@nestjs/common'
import { RateLimitException } from './exceptions.ts'
import { type NestRequest, type NestResponse, requestOf, responseOf, send } from './platform.ts'
import type { MaybePromise } from '../../src/util/maybe-promise.ts'
import { isSkipped } from './decorators.ts'
import { RateLimits } from './rate-limits.ts'
import { createContextLimiter, type RateLimitOptions } from './context-limiter.ts'

/**
 * Sends the problem details of a denied HTTP request, as `application/problem+json`, or as plain text to a client that accepts no
 * JSON. `RateLimitModule` adds it after all filters of the application, so that each of them can send another body. Without it Nest
 * sends the problem details as `application/json`.
 * @example app.useGlobalFilters(new RateLimitFilter()) // for `rateLimit` guards without the module
 */
export class RateLimitFilter implements ExceptionFilter<RateLimitException> {
  /** Called by Nest for each denial. */
  catch(exception: RateLimitException, host: ArgumentsHost): void {
    // An error of GraphQL is sent by its driver.
    if (host.getType<string>() !== 'http') throw exception
    const { status, type, body } = exception.denial
    send(host.switchToHttp().getResponse<NestResponse>(), status, type, body)
  }
}

Catch(RateLimitException)(RateLimitFilter)

/**
 * Limits the calls of handlers by the options of `RateLimitModule` and by the decorators `RateLimit` and `SkipRateLimit`. Throws a
 * `RateLimitException` for a denied call; in gateways a `WsException`, in microservices an `RpcException`. The decision is on
 * `request.rateLimit`. Extend it to change how it reads a call.
 * @example
 * @Module({
 *   imports: [RateLimitModule.forRoot({ keyer: byIP, limits: perMinute(100) })],
 *   providers: [{ provide: APP_GUARD, useClass: RateLimitGuard }],
 * })
 * class AppModule {}
 */
export class RateLimitGuard implements CanActivate {
  readonly #limits: RateLimits

  constructor(limits: RateLimits) {
    this.#limits = limits
    limits.use()
  }

  /** Called by Nest for each call. Throws the exception of a denial. */
  async canActivate(context: ExecutionContext): Promise<boolean> {
    if (await this.shouldSkip(context)) return true
    const { limiter, own } = this.#limits.appliedTo(context)
    const request = this.getRequest(context)
    await limiter.admit({ context, request, response: this.getResponse(context), cost: own?.options.cost })
    return true
  }

  /** Returns true for calls that are neither counted nor given headers. Default: those with `SkipRateLimit`. */
  protected shouldSkip(context: ExecutionContext): MaybePromise<boolean> {
    return isSkipped(context)
  }

  /** Returns what keyers and other functions receive. Throws `NOT_APPLICABLE` for a context without a known request. */
  protected getRequest(context: ExecutionContext): object {
    return requestOf(context)
  }

  /** Returns the response that gets the headers, or `undefined` where there is none. */
  protected getResponse(context: ExecutionContext): NestResponse | undefined {
    return responseOf(context)
  }
}

// As `@Inject` before the parameter would do, without metadata from the compiler.
Inject(RateLimits)(RateLimitGuard, undefined, 0)

/**
 * Creates a guard with its own limits, without the module or in addition to it, such as one before the guard that authenticates
 * a request. It ignores `RateLimit` decorators, and obeys `SkipRateLimit`. Throws `SluiceError` for a wrong or unknown option.
 * @example
 * @UseGuards(rateLimit({ keyer: byIP, limits: perMinute(20) }), AuthGuard)
 * @Controller('account')
 * class AccountController {}
 */
export function rateLimit<Request = NestRequest, Response = NestResponse>(
  options: RateLimitOptions<Request, Response>,
): CanActivate {
  const limiter = createContextLimiter(options as unknown as RateLimitOptions)
  return {
    async canActivate(context) {
      if (!isSkipped(context))
        await limiter.admit({ context, request: requestOf(context), response: responseOf(context) })
      return true
    },
  }
}
