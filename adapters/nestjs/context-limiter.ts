import { type HttpOptions, limiterOf, type LimiterSource, validateHttpOptions } from '../../src/http/options.ts'
import { createRequestLimiter } from '../../src/http/request-limiter.ts'
import { optionsWithResponses } from '../../src/http/response/web.ts'
import type { Limiter } from '../../src/limiter/limiter.ts'
import { LIMITER_OPTIONS } from '../../src/limiter/options.ts'
import { httpAdapter, messageAdapter, type OnDenied } from './adapter.ts'
import { type Exchange, kindOf, type NestRequest, type NestResponse, within } from './platform.ts'
import { exceptionOf } from './exceptions.ts'

/** Options of the HTTP responses, and of denials. */
export type ResponseOptions<Request, Response> = HttpOptions<Request, Response> & {
  /**
   * Is called with a denial, before the exception is thrown. The status 429, `Cache-Control: no-store`, `Retry-After` and the
   * rate-limit headers are already set. What it throws, and an error that it returns, is thrown in place of a
   * `RateLimitException`. When it returns `true` the call continues. It may also send a response itself.
   * @example RateLimitModule.forRoot({ keyer: byIP, limits, onDenied: () => new ServiceUnavailableException() })
   */
  readonly onDenied?: OnDenied
}

/** The options of a guard: those of `createLimiter` or a `limiter`, and those of the HTTP responses. */
export type RateLimitOptions<Request = NestRequest, Response = NestResponse> = LimiterSource<Request> &
  ResponseOptions<Request, Response>

/** Limits the calls of handlers. */
export interface ContextLimiter {
  readonly limiter: Limiter<never>
  /** Resolves when a call is admitted, and rejects with its exception when it is not. */
  admit(exchange: Exchange): Promise<void>
}

/** The options that need an HTTP response. */
const RESPONSE_OPTIONS = ['refundWhen', 'settleWith', 'resetWhen']

/** Creates the limiter of a guard. Throws `SluiceError` for a wrong or unknown option. */
export function createContextLimiter(options: RateLimitOptions): ContextLimiter {
  validateHttpOptions(options)
  const limiter = limiterOf(options as RateLimitOptions<object>, httpAdapter)
  const others = { ...without(options, LIMITER_OPTIONS), limiter } as RateLimitOptions<object>
  const responses = createRequestLimiter(
    optionsWithResponses(others, (exchange: Exchange) => exchange.response!),
    httpAdapter,
  )
  const messages = createRequestLimiter<object, Exchange, undefined, OnDenied>(
    without(others, RESPONSE_OPTIONS) as typeof others & HttpOptions<object, Exchange>,
    messageAdapter,
  )

  async function admit(exchange: Exchange): Promise<void> {
    const requestLimiter = exchange.response === undefined ? messages : responses
    const admitted = await within(exchange, async () => requestLimiter.admit(exchange.request, exchange, undefined))
    if (admitted || exchange.answer === true) return
    if (hasClientGone(exchange)) await never()
    throw await exceptionOf(exchange, options.message !== undefined, options.unit)
  }
  return { limiter, admit }
}

/** An exception would be reported as an error. A middleware does not call `next` in this case. */
function never(): Promise<never> {
  return new Promise(() => undefined)
}

/** Returns true when the client of an HTTP request has hung up while the request waited. */
function hasClientGone({ context, decision }: Exchange): boolean {
  return decision?.allowed === true && kindOf(context) === 'http'
}

/** Returns options without these. */
export function without(options: object, names: readonly string[]): object {
  return Object.fromEntries(Object.entries(options).filter(([name]) => !names.includes(name)))
}
