import type { ExecutionContext } from '@nestjs/common'
import { denialStatus } from '../../src/http/denial.ts'
import type { HttpAdapter } from '../../src/http/adapter.ts'
import { hasUnreadBody, markAborted, whenClosed } from '../../src/http/response/node.ts'
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
  rawRequestOf,
  rawResponseOf,
  whenDisconnected,
} from './platform.ts'
import { addressOf } from './keyers.ts'

/** Is called with denials: see the option `onDenied`. */
export type OnDenied = (context: ExecutionContext, decision: Decision) => unknown

type Limited = NestRequest & { rateLimit?: Decision }

/** How a call is read, with or without an HTTP response. */
const requestAdapter: Pick<
  HttpAdapter<object, Exchange, undefined, OnDenied>,
  'getMethod' | 'getRequestHeader' | 'getPath' | 'getAddress' | 'getApp' | 'getDecision' | 'setDecision' | 'sendDenial'
> = {
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
}

function appOf(request: object): object | undefined {
  if (isOfExpress(request)) return (request as { readonly app: object }).app
  return isOfFastify(request) ? (request as { readonly server: { readonly server: object } }).server.server : undefined
}

/**
 * What a middleware decided about a request of GraphQL, or a client of a gateway, before its first field or message. Each field and
 * each message counts, also of one limit: a client chooses how many there are.
 */
const firstDecisions = new WeakMap<object, Decision | undefined>()

/** What the guards of a field or of a message decided. They receive one context. */
const partDecisions = new WeakMap<ExecutionContext, Decision>()

function partDecisionOf(request: object): Decision | undefined {
  const own = partDecisions.get(currentExchange()!.context)
  return own ?? (firstDecisions.has(request) ? firstDecisions.get(request) : (request as Limited).rateLimit)
}

function isPartOfMany(): boolean {
  const exchange = currentExchange()
  return exchange !== undefined && kindOf(exchange.context) !== 'http'
}

/** The headers of a response to GraphQL show the latest decision, or the latest denial if there is one. */
const shown = new WeakMap<object, Decision>()

function isShown({ response, decision }: Exchange): boolean {
  const before = shown.get(response!)
  if (!isPartOfMany() || decision === undefined || decision === before) return true
  if (before?.allowed === false && decision.allowed) return false
  shown.set(response!, decision)
  return true
}

function pathsOf(request: object): string | readonly string[] | undefined {
  if (isOfExpress(request)) return pathsOfExpress(request as Parameters<typeof pathsOfExpress>[0])
  if (isOfFastify(request)) return pathsOfFastify(request as unknown as Parameters<typeof pathsOfFastify>[0])
  return (request as { readonly url?: string }).url
}

/** For calls with an HTTP response, of REST and GraphQL. */
export const httpAdapter: HttpAdapter<object, Exchange, undefined, OnDenied> = {
  ...requestAdapter,
  hasUnreadBody: (request) => 'headers' in request && hasUnreadBody(rawRequestOf(request)),
  getHeader: ({ response }, name) => headOf(response!).getHeader(name),
  setHeader(exchange, name, value) {
    // Only for this body: an exception filter may send another one.
    if (name === 'Content-Type') exchange.type = value
    else if (isShown(exchange)) headOf(exchange.response!).setHeader(name, value)
  },
  headersSent: ({ response }) => rawResponseOf(response!).headersSent || headOf(response!).headersSent,
  getStatus: ({ response }) => rawResponseOf(response!).statusCode,
  markAborted: ({ response }) => markAborted(rawResponseOf(response!)),
  onEnd: ({ response }, listener) => whenClosed(rawResponseOf(response!), listener),
  callOnDenied: (onDenied, request, exchange, _next, decision) =>
    callStarted({ request, onDenied, response: headOf(exchange.response!), status: denialStatus(decision) }, (undo) =>
      chain(onDenied(exchange.context, decision), (answer) => {
        exchange.answer = answer
        if (answer === true) undo()
      }),
    ),
}

/** For messages, which have no HTTP response. */
export const messageAdapter: HttpAdapter<object, Exchange, undefined, OnDenied> = {
  ...requestAdapter,
  getHeader: () => undefined,
  setHeader: (exchange, name, value) => void (name === 'Content-Type' && (exchange.type = value)),
  headersSent: () => false,
  getStatus: () => 200,
  onEnd: ({ context }, listener) => whenDisconnected(context, listener),
  callOnDenied: (onDenied, _request, exchange, _next, decision) =>
    chain(onDenied(exchange.context, decision), (answer) => void (exchange.answer = answer)),
}
