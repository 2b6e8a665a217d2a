import { background } from '../../util/clock.ts'
import type { NodeResponse } from '../../util/closed.ts'
import { whenClosed } from './node.ts'

/** The parts of a Node request that show whether its body has arrived. */
export interface NodeRequest {
  readonly httpVersionMajor: number
  readonly complete?: boolean
  /** True for an upgrade, such as to a WebSocket. */
  readonly upgrade?: boolean | null
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
}

/** The parts of a Node request of HTTP/1 whose body can be discarded. */
export interface DiscardableRequest extends NodeRequest {
  readonly socket: object
  readonly readableDidRead: boolean
  readonly readableLength: number
  resume(): unknown
  once(event: 'end' | 'close', listener: () => void): unknown
}

/** The parts of a Node response that decide about its connection. */
export interface ClosableResponse extends NodeResponse {
  /** False: the response has `Connection: close`, and the connection ends after it. */
  shouldKeepAlive?: boolean
  once(event: 'close' | 'finish', listener: () => void): unknown
}

/** The parts of the socket of an HTTP/1 server. */
interface Connection {
  readonly destroyed: boolean
  /** Ends the connection once everything is written. Node calls it after a response with `Connection: close`. */
  destroySoon(): void
  destroy(): unknown
  pause(): unknown
  resume(): unknown
  on(event: 'data', listener: (chunk: { readonly length: number }) => void): unknown
  once(event: 'end' | 'close', listener: () => void): unknown
  removeAllListeners(event: 'data' | 'end'): unknown
}

/** The most bytes of a body that is read to its end, so that its connection stays open. */
const SMALL = 2 ** 20
/** Milliseconds that such a body may take after the response. */
const DRAIN_MS = 30_000
/** The most milliseconds and the most bytes for which a connection lingers. */
const LINGER_MS = 1000
const LINGER_BYTES = 16 * 2 ** 20
/** The most connections whose bodies are discarded at a time. */
const MOST = 1000
/** The most bytes that all lingering connections read in a second. It takes about a tenth of a processor. */
const BYTES_PER_SECOND = 256 * 2 ** 20

/**
 * Returns true for an HTTP/1 request whose body has not arrived. Node reads it to its end after the response, unless the connection closes. In HTTP/2, Node
 * resets the stream itself.
 */
export function hasUnreadBody({ httpVersionMajor, complete, headers }: NodeRequest): boolean {
  if (httpVersionMajor >= 2 || complete === true) return false
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}

/** Returns the most bytes of a body that are left to read. `NaN` if the request has no `Content-Length`. */
function bytesLeft({ headers, readableDidRead, readableLength }: DiscardableRequest): number {
  return Number(headers['content-length']) - (readableDidRead ? 0 : readableLength)
}

/** Returns true if a body is too large to be read and discarded. Its response ends the connection. */
export function isLargeBody(request: DiscardableRequest): boolean {
  return !(bytesLeft(request) <= SMALL)
}

/**
 * The `discardBody` of an `HttpAdapter` for Node servers: prepares a response that is sent before the body of its request was read, such as a denial. If a
 * connection is closed while its client still writes, it is reset. The client, or a proxy in front, then gets an error instead of the response, and a
 * proxy may consider the whole server as broken.
 *
 * - If at most 1 MB of a body is left, it is read and discarded, for at most 30 seconds. The connection stays open.
 * - For a larger body, and one of unknown size, the response has `Connection: close`. Then the connection lingers, as in nginx: up to 16 MB are read, and
 *   it is closed when the client has closed it, when the body has ended, or after one second.
 *
 * At most 1,000 connections do this at a time. The oldest is closed for a new one. All of them together read at most 256 MB a second, and wait after that.
 * Data that arrives after a response with `Connection: close` is never parsed as a request. In HTTP/2, this function does nothing: Node resets the stream
 * after the response. Node does not close the connection of an upgrade, so this function does it after the response.
 * @example discardBody: (request, response) => discardBody(request, response)
 */
export function discardBody(request: NodeRequest, response: ClosableResponse): void {
  if (request.upgrade === true) {
    response.shouldKeepAlive = false
    response.once('finish', () => (request as unknown as { readonly socket: Connection }).socket.destroySoon())
  } else if (hasUnreadBody(request)) discard(request as DiscardableRequest, response)
}

/** The requests whose bodies are discarded. A request may pass several limits. */
const discarded = new WeakSet<DiscardableRequest>()

function discard(request: DiscardableRequest, response: ClosableResponse): void {
  if (isLargeBody(request)) response.shouldKeepAlive = false
  if (discarded.has(request)) return
  discarded.add(request)
  const connection = request.socket as Connection
  // The connection of `app.inject` in Fastify cannot be read.
  if (typeof connection.resume !== 'function') return

  /** Replaces `destroySoon` of the socket. */
  function lingerFirst(): void {
    restore()
    stopDraining()
    linger(connection, request)
  }
  function restore(): void {
    if (connection.destroySoon === lingerFirst) delete (connection as Partial<Connection>).destroySoon
  }
  let stopDraining = (): void => undefined

  connection.destroySoon = lingerFirst
  request.once('close', () => {
    restore()
    stopDraining()
  })
  whenClosed(response, () => {
    // The request has closed, or the connection lingers already.
    if (connection.destroySoon !== lingerFirst) return
    stopDraining = held(connection, DRAIN_MS, () => connection.destroySoon())
    request.resume()
  })
}

/** Reads and discards data of a client, and then closes the connection. The data is not parsed as a request. */
function linger(connection: Connection, request: DiscardableRequest): void {
  if (connection.destroyed) return
  const left = bytesLeft(request)
  let bytes = 0
  let isOver = false
  function end(): void {
    if (isOver) return
    isOver = true
    stop()
    connection.destroySoon()
  }
  const stop = held(connection, LINGER_MS, end)
  // The parser of Node listens for these events.
  connection.removeAllListeners('data')
  connection.removeAllListeners('end')
  connection.on('data', ({ length }) => {
    bytes += length
    if (bytes >= left) end()
    else if (bytes >= LINGER_BYTES || !mayRead(length)) connection.pause()
  })
  connection.once('end', end)
  connection.once('close', end)
  // The parser may still have data of the packet that it reads.
  request.once('end', end)
  if (left <= 0) end()
  else connection.resume()
}

/** The connections whose bodies are discarded, the oldest first. */
const connections = new Set<Connection>()

/** Adds a connection, and calls `end` after `ms` milliseconds. Returns a function that removes the connection. */
function held(connection: Connection, ms: number, end: () => void): () => void {
  if (connections.size >= MOST) {
    const [oldest] = connections
    connections.delete(oldest!)
    oldest!.destroy()
  }
  connections.add(connection)
  const cancel = background(ms, end)
  return () => {
    cancel()
    connections.delete(connection)
  }
}

let second = 0
let bytesRead = 0

/** Counts bytes that lingering connections have read. Returns false if there are too many in this second. */
function mayRead(bytes: number): boolean {
  const now = performance.now()
  if (now - second >= 1000) {
    second = now
    bytesRead = 0
  }
  bytesRead += bytes
  return bytesRead <= BYTES_PER_SECOND
}
