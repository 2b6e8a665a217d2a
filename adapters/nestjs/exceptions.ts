import { type ExecutionContext, HttpException } from '@nestjs/common'
import { denial } from '../../src/http/denial.ts'
import type { HeaderOptions } from '../../src/http/headers/options.ts'
import type { Decision } from '../../src/limiter/decision.ts'
import { retryAfter } from '../../src/http/headers/retry-after.ts'
import { type Exchange, kindOf } from './platform.ts'

/** The body of a denial that {@link RateLimitFilter} sends: problem details as JSON, as a page or as text, or the `message` of the options. */
export interface DenialBody {
  /** 429, the `statusCode` of the options, or 503. */
  readonly status: number
  /** The media type of the body. */
  readonly type: string
  /** The body as text. */
  readonly body: string
}

/** Fields of an error of GraphQL. */
export interface DenialExtensions {
  /** `SERVICE_UNAVAILABLE` if the store did not answer and the limiter is closed then. */
  readonly code: 'TOO_MANY_REQUESTS' | 'SERVICE_UNAVAILABLE'
  /** Seconds, at least 1. Absent if the same call is never admitted. */
  readonly retryAfter?: number | undefined
  /** The problem details, or the `message` of the options. */
  readonly problem: unknown
}

/**
 * A denied call. Its status is 429, or 503 when the store did not answer and the limiter is closed then. `getResponse()` returns the
 * problem details. The headers of the response are already set.
 * @example
 * @Catch(RateLimitException)
 * class DenialFilter implements ExceptionFilter<RateLimitException> {
 *   catch(exception: RateLimitException, host: ArgumentsHost) {
 *     const seconds = Math.ceil(exception.decision.retryAfter / 1000)
 *     host.switchToHttp().getResponse().status(429).json({ error: `Wait ${seconds} seconds` })
 *   }
 * }
 */
export class RateLimitException extends HttpException {
  /** The decision, with the verdicts of all limits. Its `retryAfter` is `Infinity` if the call is never admitted. */
  readonly decision: Decision
  /** The body that {@link RateLimitFilter} sends. */
  readonly denial: DenialBody

  /**
   * @param response the result of `getResponse()`. Default: the problem details
   * @param sent the body that the filter sends. Default: the problem details
   */
  constructor(decision: Decision, response?: string | object, sent: DenialBody = bodyOf(decision)) {
    const problem = problemOf(decision, sent.status)
    super(response ?? problem, sent.status)
    this.decision = decision
    this.denial = sent
    this.name = 'RateLimitException'
    this.message = textOf(response) ?? problem.detail
  }

  /** The extensions of an error of GraphQL. */
  get extensions(): DenialExtensions {
    const code = this.getStatus() === 503 ? 'SERVICE_UNAVAILABLE' : 'TOO_MANY_REQUESTS'
    return { code, retryAfter: retryAfter(this.decision), problem: this.getResponse() }
  }
}

/** Returns the sentence of a body, if it has one. */
function textOf(response: string | object | undefined): string | undefined {
  const text: unknown = typeof response === 'object' ? (response as Partial<Problem>).detail : response
  return typeof text === 'string' ? text : undefined
}

function bodyOf(decision: Decision, unit?: Unit): DenialBody {
  const { status, headers, body } = denial(decision, { unit })
  return { status, type: new Map(headers).get('Content-Type')!, body }
}

type Unit = HeaderOptions['unit']

interface Problem {
  readonly detail: string
}

function problemOf(decision: Decision, statusCode: number, unit?: Unit): Problem {
  return JSON.parse(denial(decision, { statusCode, unit }).body) as Problem
}

function messageIn({ type, body }: DenialBody): string | object {
  return type === 'application/json' ? (JSON.parse(body) as object) : body
}

/** Status 499: the client disconnected while its request waited. No client reads the response. */
const CLIENT_GONE = 499

/**
 * Returns the exception for a call that was not admitted.
 * @param hasMessage true if the options have a `message`. It is not used for the 503 of an outage
 * @param unit the unit of limits, as in the options of the headers
 */
export function exceptionOf(exchange: Exchange, hasMessage: boolean, unit: Unit): Error | Promise<Error> {
  const { answer, decision, context } = exchange
  if (answer instanceof Error) return answer
  if (decision === undefined || decision.allowed) return new HttpException('The client has hung up', CLIENT_GONE)
  const given = sentIn(exchange)
  const sent = given ?? bodyOf(decision, unit)
  const isMessage = hasMessage && given !== undefined && decision.degraded !== 'closed'
  const response = isMessage ? messageIn(sent) : problemOf(decision, sent.status, unit)
  const exception = new RateLimitException(decision, response, sent)
  if (kindOf(context) === 'ws') return socketException(exception, context)
  return kindOf(context) === 'rpc' ? rpcException(exception, context) : exception
}

function sentIn({ denial: sent, type }: Exchange): DenialBody | undefined {
  return sent === undefined || type === undefined ? undefined : { ...sent, type }
}

/**
 * Returns the exception for a gateway. Filters of gateways and microservices only accept exceptions of their packages, which are installed there. The
 * imports are in a `try`, so that bundlers only warn if a package is missing.
 */
async function socketException(exception: RateLimitException, context: ExecutionContext): Promise<Error> {
  const payload = { ...payloadOf(exception), event: context.switchToWs().getPattern() }
  acknowledge(context, payload)
  try {
    const { WsException } = await import('@nestjs/websockets')
    return Object.assign(new WsException(payload), aboutDenial(exception))
  } catch {
    return exception
  }
}

/** Answers a client of socket.io that waits for an acknowledgement. Filters of Nest send only the event `exception`. */
function acknowledge(context: ExecutionContext, payload: object): void {
  // The arguments of a message are the client, the data, and the function if there is one.
  const answer = context.getArgByIndex<unknown>(2)
  if (typeof answer === 'function') Reflect.apply(answer, undefined, [payload])
}

async function rpcException(exception: RateLimitException, context: ExecutionContext): Promise<Error> {
  const payload = isOfGrpc(context) ? { ...payloadOf(exception), ...statusOfGrpc(exception) } : payloadOf(exception)
  try {
    const { RpcException } = await import('@nestjs/microservices')
    return Object.assign(new RpcException(payload), aboutDenial(exception))
  } catch {
    return exception
  }
}

/** Returns true for a call of gRPC, whose context is its metadata. */
function isOfGrpc(context: ExecutionContext): boolean {
  return 'toHttp2Headers' in Object(context.switchToRpc().getContext())
}

/** Returns the parts of an error that become the status of a call of gRPC: `RESOURCE_EXHAUSTED`, or `UNAVAILABLE` in an outage. */
function statusOfGrpc({ extensions, message }: RateLimitException): object {
  return { code: extensions.code === 'SERVICE_UNAVAILABLE' ? 14 : 8, message }
}

/** Returns the problem details with `retryAfter`, because a message has no header for it. */
function payloadOf({ extensions }: RateLimitException): object {
  const { problem, retryAfter } = extensions
  return { ...(typeof problem === 'object' ? problem : { detail: problem }), retryAfter }
}

function aboutDenial({ decision, message }: RateLimitException): { decision: Decision; message: string } {
  return { decision, message }
}
