import type { ContextType, ExecutionContext } from '@nestjs/common'
import { SluiceError } from '../../src/util/errors.ts'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ResponseHead } from '../../src/http/response/on-denied.ts'
import { headOf as headOfReply } from '../fastify/keyers.ts'
import { AsyncLocalStorage } from 'node:async_hooks'
import type { CostFunc } from '../../src/limiter/options.ts'
import type { Decision } from '../../src/limiter/decision.ts'

/** The context of an operation of GraphQL that the drivers for Apollo and Mercurius create. */
interface GraphqlContext {
  /** For a subscription, the context of `graphql-ws`, whose `extra.request` is the request that opened the connection. */
  readonly req?: { readonly extra?: { readonly request?: object } }
  readonly request?: object
  readonly res?: unknown
  readonly reply?: { readonly request?: object }
}

/** The kind of a call: `'http'`, `'graphql'`, `'ws'` or `'rpc'`. */
export function kindOf(context: ExecutionContext): string {
  return context.getType<ContextType | 'graphql'>()
}

/** Returns the context of GraphQL, which is the third argument of a resolver. */
function graphqlContextOf(context: ExecutionContext): GraphqlContext {
  return (context.getArgByIndex(2) as GraphqlContext | undefined) ?? {}
}

/** Returns the object that keyers receive. Throws `NOT_APPLICABLE` if it is not found. */
export function requestOf(context: ExecutionContext): object {
  const found = findRequest(context)
  if (typeof found === 'object' && found !== null) return found
  const advice = 'Extend RateLimitGuard and override `getRequest`.'
  throw new SluiceError(
    'NOT_APPLICABLE',
    `RateLimitGuard found no request in a "${kindOf(context)}" context. ${advice}`,
  )
}

function findRequest(context: ExecutionContext): unknown {
  switch (kindOf(context)) {
    case 'http':
      return context.switchToHttp().getRequest()
    case 'ws':
      return context.switchToWs().getClient()
    case 'rpc':
      return { data: context.switchToRpc().getData<unknown>(), context: context.switchToRpc().getContext<unknown>() }
    case 'graphql': {
      const { req, request, reply } = graphqlContextOf(context)
      return req?.extra?.request ?? req ?? request ?? reply?.request
    }
    default:
      return undefined
  }
}

export function responseOf(context: ExecutionContext): NestResponse | undefined {
  const found = findResponse(context)
  return isResponse(found) ? found : undefined
}

function findResponse(context: ExecutionContext): unknown {
  if (kindOf(context) === 'http') return context.switchToHttp().getResponse()
  if (kindOf(context) !== 'graphql') return undefined
  const { req, res, reply } = graphqlContextOf(context)
  return res ?? reply ?? (req as { readonly res?: unknown } | undefined)?.res
}

/**
 * The object that keyers and other functions receive: the request of Express or Fastify, also for GraphQL; the client of a WebSocket gateway;
 * `{ data, context }` for a microservice. Use the type of your platform for the parameter, such as Express's `Request`.
 */
export interface NestRequest {
  readonly [name: string]: unknown
}

/** The common members of responses of Express and replies of Fastify. */
export interface NestResponse {
  /** The status of the response. */
  readonly statusCode: number
  /** Returns a header of the response. */
  getHeader(name: string): number | string | string[] | undefined
}

export function isOfFastify(request: object): boolean {
  return 'raw' in request && 'server' in request
}

export function isOfExpress(request: object): boolean {
  return 'baseUrl' in request && 'app' in request
}

export function rawRequestOf(request: object): IncomingMessage {
  return isOfFastify(request) ? (request as { readonly raw: IncomingMessage }).raw : (request as IncomingMessage)
}

type Reply = Parameters<typeof headOfReply>[0]

function isReply(response: object): response is Reply {
  return 'raw' in response && 'code' in response
}

/** Returns true for an object on which headers can be set. */
function isResponse(value: unknown): value is NestResponse {
  return typeof value === 'object' && value !== null && (isReply(value) || 'setHeader' in value)
}

export function rawResponseOf(response: NestResponse): ServerResponse {
  return isReply(response) ? response.raw : (response as unknown as ServerResponse)
}

export function headOf(response: NestResponse): ResponseHead {
  return isReply(response) ? headOfReply(response) : (response as unknown as ServerResponse)
}

/** Sends a whole response. Has no effect if another one was sent. */
export function send(response: NestResponse, status: number, type: string, body: string): void {
  const bytes = Buffer.from(body)
  if (isReply(response)) {
    if (!response.sent && !response.raw.headersSent) response.code(status).header('Content-Type', type).send(bytes)
    return
  }
  const plain = rawResponseOf(response)
  if (plain.headersSent) return
  plain.statusCode = status
  plain.setHeader('Content-Type', type)
  plain.setHeader('Content-Length', bytes.length)
  plain.end(bytes)
}

/** The parts of a client of a gateway, of socket.io or ws. */
interface SocketClient {
  /** In socket.io. */
  readonly connected?: boolean
  readonly handshake?: { readonly address?: string; readonly headers?: Readonly<Record<string, string | undefined>> }
  /** In ws: the TCP socket. */
  readonly _socket?: { readonly remoteAddress?: string }
  /** In ws: 1 for an open connection. */
  readonly readyState?: number
  once?(event: string, listener: () => void): unknown
  off?(event: string, listener: () => void): unknown
}

export function socketAddressOf(client: object): string | undefined {
  const { handshake, _socket } = client as SocketClient
  return handshake?.address ?? _socket?.remoteAddress
}

/** Returns a header of the request that opened a connection of socket.io. A client of ws does not keep it. */
export function handshakeHeaderOf(client: object, name: string): string | undefined {
  return (client as SocketClient).handshake?.headers?.[name]
}

/**
 * Calls `listener` once, and never synchronously, when the client of a message has gone. In a microservice, this is unknown.
 * @returns a function that removes the listener
 */
export function whenDisconnected(context: ExecutionContext, listener: () => void): () => void {
  if (kindOf(context) !== 'ws') return () => undefined
  const client = context.switchToWs().getClient<SocketClient>()
  if (client.connected === false || (client.readyState !== undefined && client.readyState !== 1)) {
    queueMicrotask(listener)
    return () => undefined
  }
  const event = client.connected === undefined ? 'close' : 'disconnect'
  client.once?.(event, listener)
  return () => void client.off?.(event, listener)
}

/** A call of a handler about which a guard decides. */
export interface Exchange {
  readonly context: ExecutionContext
  /** The object that keyers receive. */
  readonly request: object
  /** Absent if there are no headers: in gateways and microservices, and in subscriptions of GraphQL. */
  readonly response: NestResponse | undefined
  /** The `cost` of the handler or its class. */
  readonly cost?: CostFunc<never> | undefined
  decision?: Decision
  /** The media type of the denial. */
  type?: string
  /** The denial, which an exception filter sends. */
  denial?: { readonly status: number; readonly body: string }
  /** The result of `onDenied`. `true` admits the request. */
  answer?: unknown
}

const exchanges = new AsyncLocalStorage<Exchange>()

/** Calls a function. `executionContext` returns the context of this exchange until its promise resolves. */
export function within<Result>(exchange: Exchange, call: () => Result): Result {
  return exchanges.run(exchange, call)
}

export function currentExchange(): Exchange | undefined {
  return exchanges.getStore()
}

/**
 * Returns the context of the call that is being decided, for keyers, limits, costs, `skip`, `onDenied` and `onDecision`. The context has the class and the
 * handler, the arguments of a GraphQL field, or the data of a message. Returns `undefined` outside of these functions.
 * @example
 * const byEvent = () => executionContext()?.switchToWs().getPattern()
 */
export function executionContext(): ExecutionContext | undefined {
  return exchanges.getStore()?.context
}
