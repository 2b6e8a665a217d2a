import type { IncomingMessage } from 'node:http'
import type { HttpAdapter } from '../../src/http/adapter.ts'
import type { Decision } from '../../src/limiter/decision.ts'
import { shared } from '../../src/util/copies.ts'
import { addressOf, serverOf } from './keyers.ts'
import type { Duplex } from 'node:stream'
import { rawResponse } from '../../src/http/denial.ts'
import { whenClosed } from '../../src/http/response/node.ts'

const decisions = shared('decisions of node', () => new WeakMap<IncomingMessage, Decision>())

type RequestMethods =
  'getMethod' | 'getPath' | 'getAddress' | 'getApp' | 'getRequestHeader' | 'getDecision' | 'setDecision'

/** The part of an adapter that is the same for requests and upgrades. */
export const requestAdapter: Pick<HttpAdapter<IncomingMessage, never, never, never>, RequestMethods> = {
  getMethod: (request) => request.method,
  getPath: pathsOf,
  getAddress: addressOf,
  getApp: serverOf,
  getRequestHeader: (request, name) => request.headers[name] as string | undefined,
  getDecision: (request) => decisions.get(request),
  setDecision: (request, decision) => void decisions.set(request, decision),
}

/** Frameworks like Connect keep the URL that the client sent before they rewrite it. */
function pathsOf({
  url,
  originalUrl = url,
}: IncomingMessage & { readonly originalUrl?: string }): string | readonly string[] {
  return url === originalUrl ? (url ?? '') : [url ?? '', originalUrl ?? '']
}

/**
 * Returns the decision of the latest rate limit of a request, or `undefined` if it passed none.
 * @example rateLimitOf(request)?.remaining
 */
export function rateLimitOf(request: IncomingMessage): Decision | undefined {
  return decisions.get(request)
}

/** A socket whose client asks to change the protocol, and the headers of a denial. */
interface Upgrade {
  readonly socket: Duplex
  readonly headers: Map<string, string>
}

export const upgradeAdapter: HttpAdapter<IncomingMessage, Upgrade, undefined, never> = {
  ...requestAdapter,
  getHeader: ({ headers }, name) => headers.get(name),
  setHeader: ({ headers }, name, value) => void headers.set(name, value),
  headersSent: ({ socket }) => socket.destroyed,
  getStatus: () => 101,
  sendDenial: ({ socket, headers }, status, body) =>
    closeWith(socket, rawResponse({ status, headers: [...headers], body })),
  onEnd: ({ socket }, listener) => whenClosed(socket, listener),
  callOnDenied: () => undefined,
}

/** Sends a 500 and closes the socket. */
export function closeWithFault(socket: Duplex): void {
  closeWith(socket, 'HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\nContent-Length: 0\r\n\r\n')
}

function closeWith(socket: Duplex, text: string): void {
  if (socket.destroyed) return
  socket.once('finish', () => socket.destroy())
  socket.end(text)
}
