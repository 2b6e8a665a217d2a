import type { IncomingMessage, ServerResponse } from 'node:http'
import type { NodeHead } from '../../src/http/response/on-denied.ts'
import { headOf as headOfReply } from '../fastify/keyers.ts'

/**
 * What keyers and other functions receive: the request of Express or Fastify, also for GraphQL; the client of a WebSocket gateway;
 * `{ data, context }` for a microservice. Give the parameter the type that your platform has, such as Express's `Request`.
 */
export interface NestRequest {
  readonly [name: string]: unknown
}

/** What responses of Express and replies of Fastify have in common. */
export interface NestResponse {
  /** The status of the response. */
  readonly statusCode: number
  /** Returns a header of the response. */
  getHeader(name: string): number | string | string[] | undefined
}

/** Returns true for a request of Fastify. */
export function isOfFastify(request: object): boolean {
  return 'raw' in request && 'server' in request
}

/** Returns true for a request of Express. */
export function isOfExpress(request: object): boolean {
  return 'baseUrl' in request && 'app' in request
}

/** Returns Node's request. */
export function rawRequestOf(request: object): IncomingMessage {
  return isOfFastify(request) ? (request as { readonly raw: IncomingMessage }).raw : (request as IncomingMessage)
}

type Reply = Parameters<typeof headOfReply>[0]

function isReply(response: object): response is Reply {
  return 'raw' in response && 'code' in response
}

/** Returns true for an object on which headers can be set. */
export function isResponse(value: unknown): value is NestResponse {
  return typeof value === 'object' && value !== null && (isReply(value) || 'setHeader' in value)
}

/** Returns Node's response. */
export function rawResponseOf(response: NestResponse): ServerResponse {
  return isReply(response) ? response.raw : (response as unknown as ServerResponse)
}

/** Returns the status and the headers of a response. */
export function headOf(response: NestResponse): NodeHead {
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
  plain.setHeader('Content-Type', type).setHeader('Content-Length', bytes.length).end(bytes)
}
