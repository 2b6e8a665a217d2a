import { type ArgumentsHost, Catch, type ExceptionFilter } from '@nestjs/common'
import { RateLimitException } from './exceptions.ts'
import { type NestResponse, send } from './platform.ts'

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
