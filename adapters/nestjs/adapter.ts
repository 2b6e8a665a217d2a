import type { ExecutionContext } from '@nestjs/common'
import type { HttpAdapter } from '../../src/http/adapter.ts'
import { markAborted, whenAnswered, whenClosed } from '../../src/http/response/node.ts'
import { isClosed } from '../../src/util/closed.ts'
import { discardBody } from '../../src/http/response/unread-body.ts'
import { callStarted } from '../../src/http/response/on-denied.ts'
import type { Decision } from '../../src/limiter/decision.ts'
import { chain } from '../../src/util/maybe-promise.ts'
import { pathsOf as pathsOfExpress } from '../express/express.ts'
import { pathsOf as pathsOfFastify } from '../fastify/keyers.ts'
import {
  currentExchange,
  type Exchange,
  headOf,
  isOfExpress,
  isOfFastify,
  kindOf,
  type NestRequest,
  type NestResponse,
  rawRequestOf,
  rawResponseOf,
  whenDisconnected,
  within,
} from './platform.ts'
import { addressOf } from './keyers.ts'
import {
  type HttpOptions,
  limiterOf,
  type LimiterSource,
  validateHttpOptions,
  without,
} from '../../src/http/options.ts'
import { OUTCOME_OPTIONS, type ResponseReader } from '../../src/http/settlement.ts'
import { requestLimiterOf } from '../../src/http/request-limiter.ts'
import type { Limiter } from '../../src/limiter/limiter.ts'
import { LIMITER_OPTIONS } from '../../src/limiter/options.ts'
import { exceptionOf } from './exceptions.ts'

/** Called with denials: see the option `onDenied`. */
export type OnDenied = (context: ExecutionContext, decision: Decision) => unknown

type Limited = NestRequest & { rateLimit?: Decision }

/** The part of the adapters that reads a call, with or without an HTTP response. */
const requestAdapter = {
  getMethod: (request) => (request as { readonly method?: string }).method,
  getRequestHeader: (request, name) =>
    (request as { readonly headers?: Readonly<Record<string, string>> }).headers?.[name],
  getPath: pathsOf,
  getAddress: addressOf,
  getApp: appOf,
  getDecision: (request) => (isPartOfMany() ? partDecisionOf(request) : (request as Limited).rateLimit),
  setDecision(request, decision) {
    const exchange = currentExchange()
    if (exchange !== undefined) {
      exchange.decision = decision
      partDecisions.set(exchange.context, decision)
    }
    if (isPartOfMany() && !firstDecisions.has(request)) firstDecisions.set(request, (request as Limited).rateLimit)
    ;(request as { rateLimit?: Decision }).rateLimit = decision
  },
  sendDenial: (exchange, status, body) => void (exchange.denial = { status, body }),
} satisfies Partial<HttpAdapter<object, Exchange, undefined, OnDenied>>

function appOf(request: object): object | undefined {
  if (isOfExpress(request)) return (request as { readonly app: object }).app
  return isOfFastify(request) ? (request as { readonly server: { readonly server: object } }).server.server : undefined
}

/**
 * The decisions of middlewares about a request of GraphQL, or a client of a gateway, before its first field or message. Each field and each message counts,
 * even for one limit, because a client chooses how many there are. Each call of a user counts, too.
 */
const firstDecisions = new WeakMap<object, Decision | undefined>()

/** The decisions of the guards of a field or of a message. These guards share one context. */
const partDecisions = new WeakMap<ExecutionContext, Decision>()

function partDecisionOf(request: object): Decision | undefined {
  const own = partDecisions.get(currentExchange()!.context)
  return own ?? (firstDecisions.has(request) ? firstDecisions.get(request) : (request as Limited).rateLimit)
}

/** True where calls share what keyers receive: fields, messages, and a guard whose `getRequest` returns another object than the request, such as a user. */
function isPartOfMany(): boolean {
  const exchange = currentExchange()
  if (exchange === undefined) return false
  const { context, request } = exchange
  return kindOf(context) !== 'http' || request !== context.switchToHttp().getRequest()
}

function pathsOf(request: object): string | readonly string[] | undefined {
  if (isOfExpress(request)) return pathsOfExpress(request as never)
  if (isOfFastify(request)) return pathsOfFastify(request as never)
  return (request as { readonly url?: string }).url
}

/** For calls with an HTTP response, of REST and GraphQL. */
const httpAdapter: HttpAdapter<object, Exchange, undefined, OnDenied> & ResponseReader<Exchange, NestResponse> = {
  ...requestAdapter,
  discardBody(request, { response }) {
    if ('headers' in request) discardBody(rawRequestOf(request), rawResponseOf(response!))
  },
  getHeader: ({ response }, name) => headOf(response!).getHeader(name),
  setHeader(exchange, name, value) {
    // The type is kept with this body, because an exception filter may send another body.
    if (name === 'Content-Type') exchange.type = value
    else headOf(exchange.response!).setHeader(name, value)
  },
  removeHeader: ({ response }, name) => headOf(response!).removeHeader(name),
  headersSent: ({ response }) => rawResponseOf(response!).headersSent || headOf(response!).headersSent,
  getStatus: ({ response }) => rawResponseOf(response!).statusCode,
  givenResponse: ({ response }) => response!,
  markAborted: ({ response }) => markAborted(rawResponseOf(response!)),
  onEnd: ({ response }, listener) => whenClosed(rawResponseOf(response!), listener),
  isGone: (_request, { response }) => isClosed(rawResponseOf(response!)),
  onAnswer: ({ response }, listener) => whenAnswered(rawResponseOf(response!), listener),
  callOnDenied: (onDenied, request, exchange, _next, decision) =>
    callStarted({ request, onDenied, response: headOf(exchange.response!), decision }, (undo) =>
      chain(onDenied(exchange.context, decision), (answer) => {
        exchange.answer = answer
        if (answer === true) undo()
      }),
    ),
}

/** For messages, which have no HTTP response. */
const messageAdapter: HttpAdapter<object, Exchange, undefined, OnDenied> = {
  ...requestAdapter,
  getHeader: () => undefined,
  setHeader: (exchange, name, value) => void (name === 'Content-Type' && (exchange.type = value)),
  headersSent: () => false,
  getStatus: () => 200,
  onEnd: ({ context }, listener) => whenDisconnected(context, listener),
  hasNoEnd: true,
  callOnDenied: (onDenied, _request, exchange, _next, decision) =>
    chain(onDenied(exchange.context, decision), (answer) => void (exchange.answer = answer)),
}

/** Options of the HTTP responses, and of denials. */
export type ResponseOptions<Request, Response> = HttpOptions<Request, Response> & {
  /**
   * Called with a denial, before the exception is thrown. The status 429, `Cache-Control: no-store`, `Retry-After` and the rate-limit headers are already
   * set. An error that it throws or returns replaces the `RateLimitException`. If it returns `true`, the call continues. It may also send a response
   * itself.
   * @example RateLimitModule.forRoot({ keyer: byIP, limits, onDenied: () => new ServiceUnavailableException() })
   */
  readonly onDenied?: OnDenied
}

/** The options of a guard: the options of `createLimiter` or a `limiter`, and the options of HTTP responses. */
export type RateLimitOptions<Request = NestRequest, Response = NestResponse> = LimiterSource<Request> &
  ResponseOptions<Request, Response>

/** Limits the calls of handlers. */
export interface ContextLimiter {
  readonly limiter: Limiter<never>
  /** Resolves if a call is admitted, and rejects with its exception if it is denied. */
  admit(exchange: Exchange): Promise<void>
}

/** Returns a promise that never settles, as a middleware does not call `next` for a client that has gone. An exception would be reported as an error. */
function never(): Promise<never> {
  return new Promise(() => undefined)
}

/** Creates the limiter of a guard. Throws `SluiceError` for a wrong or unknown option. */
export function createContextLimiter(options: RateLimitOptions): ContextLimiter {
  options = validateHttpOptions(options)
  const limiter = limiterOf(options as RateLimitOptions<object>, httpAdapter)
  const others = { ...without(options, LIMITER_OPTIONS), limiter } as RateLimitOptions<object>
  const responses = requestLimiterOf(others, httpAdapter)
  // A message has no response for these options.
  const messages = requestLimiterOf(without(others, OUTCOME_OPTIONS) as typeof others, messageAdapter)

  async function admit(exchange: Exchange): Promise<void> {
    const requestLimiter = exchange.response === undefined ? messages : responses
    const admitted = await within(exchange, async () => requestLimiter.admit(exchange.request, exchange, undefined))
    if (admitted || exchange.answer === true) return
    // The client of an HTTP request has disconnected while it waited.
    if (exchange.decision?.allowed === true && kindOf(exchange.context) === 'http') await never()
    throw await exceptionOf(exchange, options.message !== undefined, options.unit)
  }
  return { limiter, admit }
}
