import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2'
import type { Duplex } from 'node:stream'
import { trackWork } from '../../src/http/work.ts'
import type { HttpAdapter } from '../../src/http/adapter.ts'
import { rawResponse } from '../../src/http/denial.ts'
import {
  type HttpOptions,
  limiterOf,
  type LimiterSource,
  validateHttpOptions,
  without,
} from '../../src/http/options.ts'
import { requestLimiterOf, whenAdmitted } from '../../src/http/request-limiter.ts'
import { OUTCOME_OPTIONS } from '../../src/http/settlement.ts'
import { markAborted, sendBody, whenAnswered, whenClosed } from '../../src/http/response/node.ts'
import { isClosed } from '../../src/util/closed.ts'
import { discardBody } from '../../src/http/response/unread-body.ts'
import { callStarted } from '../../src/http/response/on-denied.ts'
import type { Decision } from '../../src/limiter/decision.ts'
import { LIMITER_OPTIONS } from '../../src/limiter/options.ts'
import { detached } from '../../src/util/maybe-promise.ts'
import { isStoreError, textOf } from '../../src/util/errors.ts'
import { needsCall, optionalFunction, refuse } from '../../src/util/validate.ts'
import { rareWarning } from '../../src/util/warn.ts'
import { shared } from '../../src/util/copies.ts'
import {
  type AddressOptions,
  addressReader,
  type ClientInfo,
  clientKeyer,
  givenAddressKeyer,
  type IpKeyerOptions as SubnetOptions,
  isSocketSet,
  proxyHeaderIn,
} from '../../src/http/keys/address.ts'
import { byHeaderOf, byMethodOf, nodeHeader } from '../../src/http/keys/request-keyers.ts'
import type { SyncKeyer } from '../../src/limiter/keyers.ts'

export type { HeaderStyle } from '../../src/http/headers/types.ts'

/** The options of {@link ipKeyer}. */
export type IpKeyerOptions = SubnetOptions & Partial<AddressOptions<[request: IncomingMessage]>>

function serverOf(request: IncomingMessage): object | undefined {
  return (request.socket as { server?: object }).server
}

const client: ClientInfo<IncomingMessage> = {
  address: (request) => request.socket.remoteAddress,
  proxyHeader: (request) => proxyHeaderIn(request.headers),
  trust: () => 'nobody',
  app: serverOf,
  isSet: (request) => isSocketSet(request.socket),
}

/** Returns the address of the socket, for rules. */
const addressOf: (request: IncomingMessage) => string | undefined = addressReader(client)

/**
 * Returns a keyer for the client's address: the address of the socket, or the result of `address`, which servers behind a proxy
 * need. IPv6 addresses are cut to a prefix.
 * Throws `INVALID_OPTION`, `UNKNOWN_OPTION`.
 * @example ipKeyer({ address: (request) => request.headers['x-real-ip'] as string }) // a header that the proxy overwrites
 */
export function ipKeyer(options: IpKeyerOptions = {}): SyncKeyer<IncomingMessage> {
  if (options.address === undefined) return clientKeyer(client, options)
  return givenAddressKeyer(options as AddressOptions<[request: IncomingMessage]>)
}

/**
 * The address of the socket. IPv6 addresses are cut to their /56.
 * @example rateLimit({ keyer: byIP, limits: perMinute(100) })
 */
export const byIP: SyncKeyer<IncomingMessage> = ipKeyer()

/**
 * Returns a keyer for a header of the request, such as an API key. Throws `INVALID_OPTION` for a text that is not the name of a
 * header.
 * @example rateLimit({ keyer: byHeader('x-api-key'), limits: perMinute(100) })
 */
export const byHeader: (name: string) => SyncKeyer<IncomingMessage> = byHeaderOf(nodeHeader)

/**
 * The method of the request.
 * @example keyers(byHeader('x-api-key'), byMethod)
 */
export const byMethod: SyncKeyer<IncomingMessage> = byMethodOf((request) => request.method)

needsCall(ipKeyer, 'ipKeyer()')

const decisions = shared('decisions of node', () => new WeakMap<IncomingMessage, Decision>())

/** The part of an adapter that is the same for requests and upgrades. */
const requestAdapter = {
  getMethod: (request) => request.method,
  getPath: pathsOf,
  getAddress: addressOf,
  getApp: serverOf,
  getRequestHeader: nodeHeader,
  getDecision: (request) => decisions.get(request),
  setDecision: (request, decision) => void decisions.set(request, decision),
} satisfies Partial<HttpAdapter<IncomingMessage, never, never, never>>

/** Returns the path. Frameworks such as Connect keep the URL that the client sent before they rewrite it. */
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

/** The socket of an upgrade, and the headers of a denial. */
interface Upgrade {
  readonly socket: Duplex
  readonly headers: Map<string, string>
}

const upgradeAdapter: HttpAdapter<IncomingMessage, Upgrade, undefined, never> = {
  ...requestAdapter,
  getHeader: ({ headers }, name) => headers.get(name),
  setHeader: ({ headers }, name, value) => void headers.set(name, value),
  removeHeader: ({ headers }, name) => void headers.delete(name),
  // Nothing is sent before the listener has the socket.
  headersSent: () => false,
  getStatus: () => 101,
  sendDenial: ({ socket, headers }, status, body) =>
    closeWith(socket, rawResponse({ status, headers: [...headers], body })),
  onEnd: ({ socket }, listener) => whenClosed(socket, listener),
  isGone: (_request, { socket }) => socket.destroyed,
  callOnDenied: () => undefined,
}

function closeWith(socket: Duplex, text: string): void {
  if (socket.destroyed) return
  socket.once('finish', () => socket.destroy())
  socket.end(text)
}

/** The options of {@link rateLimit}: the options of `createLimiter` or a `limiter`, and the options of HTTP responses. */
export type RateLimitOptions = LimiterSource<IncomingMessage> &
  HttpOptions<IncomingMessage, ServerResponse> & {
    /**
     * Answers a denied request instead of the 429. The status 429, `Cache-Control: no-store`, `Retry-After` and the rate-limit
     * headers are already set. It must send a response. If it does not do so within ten seconds, the process warning `SLUICE_NOT_ANSWERED` is emitted once.
     * It is not called for upgrades.
     */
    readonly onDenied?: OnDenied
    /**
     * Answers a request if a keyer, an option or the store fails. An upgrade has no response, and its socket is closed after this call. If the function
     * throws or rejects itself, the default answers, and its warning has that error. Default: a 500, and the process warning `SLUICE_FAULT` at most once a
     * minute.
     */
    readonly onError?: OnError
  }

/** Called with denials: see the option `onDenied`. */
export type OnDenied = (request: IncomingMessage, response: ServerResponse, decision: Decision) => unknown
type OnError = (error: unknown, request: IncomingMessage, response: ServerResponse | undefined) => unknown

/** A listener of a server's `upgrade` event. */
export type UpgradeListener = (request: IncomingMessage, socket: Duplex, head: Buffer) => void

/** Limits listeners. All listeners of one `RateLimit` count together. */
export interface RateLimit {
  /**
   * Limits the requests of a server of HTTP/1 or HTTP/2. The slots of `concurrent` are held until the promise of the listener has settled. If the listener returns no promise,
   * they are held until it has called `end`.
   */
  (
    listener: (...given: Parameters<RequestListener>) => unknown,
  ): ((request: Http2ServerRequest, response: Http2ServerResponse) => void) & RequestListener
  /**
   * Limits the upgrades of a server, such as to WebSockets. A denied upgrade gets a plain `HTTP/1.1 429 Too Many Requests`, and its
   * socket is closed. An admitted upgrade is never refunded.
   * @example server.on('upgrade', limit.upgrade((request, socket, head) => sockets.handleUpgrade(request, socket, head, greet)))
   */
  upgrade(listener: UpgradeListener): UpgradeListener
}

const adapter: HttpAdapter<IncomingMessage, ServerResponse, undefined, OnDenied> = {
  ...requestAdapter,
  discardBody,
  getHeader: (response, name) => response.getHeader(name),
  setHeader: (response, name, value) => void response.setHeader(name, value),
  removeHeader: (response, name) => response.removeHeader(name),
  headersSent: (response) => response.headersSent,
  getStatus: (response) => response.statusCode,
  markAborted,
  sendDenial: sendBody,
  onEnd: (response, listener) => whenClosed(response, listener),
  isGone: (_request, response) => isClosed(response),
  onAnswer: whenAnswered,
  callOnDenied: (onDenied, request, response, _next, decision) =>
    callStarted({ request, onDenied, response, decision }, () => onDenied(request, response, decision)),
}

/**
 * Limits the requests and upgrades of a server of `node:http`. `rateLimitOf(request)` returns the decision.
 * Throws `SluiceError` for a wrong or unknown option.
 * @example
 * const limit = rateLimit({ keyer: byIP, limits: [perSecond(10), perMinute(100)] })
 * createServer(limit((request, response) => response.end('hello')))
 */
export function rateLimit(given: RateLimitOptions): RateLimit {
  given = validateHttpOptions(given, 'onError')
  const { onError, ...options } = given
  optionalFunction('onError', onError)
  const answer = faultHandler(onError)
  const limiter = limiterOf(options, requestAdapter)
  const requestLimiter = requestLimiterOf<IncomingMessage, ServerResponse, undefined, OnDenied>(
    { ...without(options, LIMITER_OPTIONS), limiter },
    adapter,
  )
  // An upgrade has no response for these options.
  const upgradeLimiter = requestLimiterOf(
    { ...without(options, [...LIMITER_OPTIONS, ...OUTCOME_OPTIONS, 'onDenied']), limiter },
    upgradeAdapter,
  )

  function limit(listener: (...given: Parameters<RequestListener>) => unknown): ReturnType<RateLimit> {
    if (typeof listener !== 'function')
      refuse('rateLimit', 'a listener: createServer(limit((request, response) => …))', listener)
    const limited: RequestListener = function limitRate(request, response) {
      const failed = (error: unknown): void => void answer(error, request, response)
      const admitted = (): void => void trackWork(request, listener(request, response))
      whenAdmitted(requestLimiter, request, response, undefined, admitted, failed)
    }
    // Requests and responses of HTTP/2 have all members that are used here.
    return limited as ReturnType<RateLimit>
  }

  function upgrade(listener: UpgradeListener): UpgradeListener {
    if (typeof listener !== 'function') refuse('upgrade', 'a listener, (request, socket, head) => …', listener)
    return function limitUpgrade(request, socket, head) {
      // Without a listener, a connection reset would end the process.
      socket.on('error', ignore)
      let stopReading = ignore
      const admitted = (): void => {
        stopReading()
        socket.off('error', ignore)
        listener(request, socket, head)
      }
      const failed = (error: unknown): void => {
        answer(error, request, undefined)
        closeWith(socket, 'HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\nContent-Length: 0\r\n\r\n')
      }
      const upgraded: Upgrade = { socket, headers: new Map() }
      const isPending = whenAdmitted(upgradeLimiter, request, upgraded, undefined, admitted, failed)
      if (isPending) stopReading = readAhead(socket)
    }
  }

  return Object.assign(limit, { upgrade })
}

/** The most bytes of an upgrade that are read before it is admitted. One more chunk can be read. */
const READ_AHEAD = 65_536

/**
 * Reads a socket, and destroys it if its client disconnects: Node only detects this while the socket is read. Returns a function that stops reading, and puts
 * the data back.
 */
function readAhead(socket: Duplex): () => void {
  const chunks: Buffer[] = []
  let size = 0
  const left = (): void => void socket.destroy()
  function read(): void {
    for (let chunk: unknown; size < READ_AHEAD && (chunk = socket.read()) !== null;) {
      chunks.push(chunk as Buffer)
      size += (chunk as Buffer).length
    }
    if (size >= READ_AHEAD) socket.off('readable', read)
  }
  socket.on('readable', read)
  socket.once('end', left)
  return function stop() {
    socket.off('readable', read)
    socket.off('end', left)
    if (size > 0 && !socket.destroyed) socket.unshift(Buffer.concat(chunks))
  }
}

/** Returns a function that calls `onError`. If there is none, or if it fails itself, the default answers. */
function faultHandler(onError: OnError | undefined): OnError {
  const warn = rareWarning('SLUICE_FAULT')
  function answerFault(error: unknown, response: ServerResponse | undefined): void {
    warn(() => `A rate limit failed, and the client got a response with status 500. ${textOf(causeOf(error))}`)
    if (response === undefined) return
    if (response.headersSent) return void response.destroy()
    response.statusCode = 500
    response.end()
  }
  return function callOnError(error, request, response) {
    if (onError === undefined) return answerFault(error, response)
    detached(
      () => onError(error, request, response),
      (failure) => answerFault(failure, response),
    )
  }
}

/** Returns the cause of an error of the store, because it says what to do: the error itself has a message for clients. */
function causeOf(error: unknown): unknown {
  return isStoreError(error) ? (error.cause ?? error) : error
}

function ignore(): void {}
