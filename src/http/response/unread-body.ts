import { background } from '../../util/clock.ts'
import { whenClosed, type NodeResponse } from './node.ts'

/** The parts of a Node request that tell whether its body has arrived. */
export interface NodeRequest {
  readonly httpVersionMajor: number
  readonly complete?: boolean
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
}

/** The parts of a Node request whose body can be discarded. In HTTP/2 there is no more to it. */
export interface DiscardableRequest extends NodeRequest {
  readonly socket: object
  readonly readableDidRead: boolean
  readonly readableLength: number
  resume(): unknown
  once(event: 'close', listener: () => void): unknown
}

/** The parts of a Node response that say what becomes of its connection. */
export interface ClosableResponse extends NodeResponse {
  /** False: the response has `Connection: close`, and the connection ends after it. */
  shouldKeepAlive?: boolean
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

/** Bytes of a body that is read to its end, so that its connection can stay. */
const SMALL = 2 ** 20
/** Milliseconds for which such a body may take, after the response. */
const DRAIN_MS = 30_000
/** Milliseconds, and bytes, for which a connection lingers. */
const LINGER_MS = 1000
const LINGER_BYTES = 16 * 2 ** 20
/** The most connections whose bodies are discarded at a time. */
const MOST = 1000
/** The most bytes that all lingering connections read in a second. It takes about a tenth of a processor. */
const BYTES_PER_SECOND = 256 * 2 ** 20

/**
 * Returns true for an HTTP/1 request whose body has not arrived. Node reads it to its end after the response, unless the
 * connection closes. In HTTP/2 Node resets the stream by itself.
 */
export function hasUnreadBody({ httpVersionMajor, complete, headers }: NodeRequest): boolean {
  if (httpVersionMajor >= 2 || complete === true) return false
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}

/** Returns how much of a body is left to read, at most. `NaN` if the request does not say. */
function bytesLeft({ headers, readableDidRead, readableLength }: DiscardableRequest): number {
  return Number(headers['content-length']) - (readableDidRead ? 0 : readableLength)
}

/** Returns true if a body is too large to be read for nothing. Its response ends the connection. */
export function isLargeBody(request: DiscardableRequest): boolean {
  return !(bytesLeft(request) <= SMALL)
}

/**
 * The `discardBody` of an `HttpAdapter` for Node servers: prepares a response that is sent before the body of its request was read, such as a
 * denial. A connection that is closed while its client still writes is reset: the client, or a proxy in front, then sees an error in place of the
 * response, and a proxy may take the whole server for broken.
 *
 * - A body of which at most 1 MB is left is read and thrown away, for at most 30 seconds. The connection stays.
 * - For a larger one, and one of unknown size, the response has `Connection: close`. Then the connection lingers, as nginx does it: up to 16 MB are
 *   read, and it is closed when the client has closed it, when the body is over, or after one second.
 *
 * At most 1,000 connections do so at a time: the oldest makes room for a new one. All together read at most 256 MB a second; then they wait. Nothing
 * that comes after a response with `Connection: close` is taken for a request. In HTTP/2 it does nothing: Node resets the stream after the response.
 * @example discardBody: (request, response) => discardBody(request, response)
 */
export function discardBody(request: NodeRequest, response: ClosableResponse): void {
  if (hasUnreadBody(request)) discard(request as DiscardableRequest, response)
}

/** The requests whose bodies are discarded: a request may pass several limits. */
const discarded = new WeakSet<DiscardableRequest>()

function discard(request: DiscardableRequest, response: ClosableResponse): void {
  if (isLargeBody(request)) response.shouldKeepAlive = false
  if (discarded.has(request)) return
  discarded.add(request)
  const connection = request.socket as Connection
  // The connection of `app.inject` in Fastify cannot be read.
  if (typeof connection.resume !== 'function') return
  let isOver = false

  /** In place of the method of the socket. */
  function lingerFirst(): void {
    restore()
    stopDraining()
    linger(connection, bytesLeft(request))
  }
  function restore(): void {
    if (connection.destroySoon === lingerFirst) delete (connection as Partial<Connection>).destroySoon
  }
  let stopDraining = (): void => undefined

  connection.destroySoon = lingerFirst
  request.once('close', () => {
    isOver = true
    restore()
    stopDraining()
  })
  whenClosed(response, () => {
    // The connection stays, or lingers already.
    if (isOver || connection.destroySoon !== lingerFirst) return
    stopDraining = held(connection, DRAIN_MS, () => connection.destroySoon())
    request.resume()
  })
}

/** Reads what a client still sends, without taking it for a request, and closes the connection in the end. */
function linger(connection: Connection, left: number): void {
  if (connection.destroyed) return
  let bytes = 0
  let isOver = false
  function end(): void {
    if (isOver) return
    isOver = true
    stop()
    connection.destroySoon()
  }
  const stop = held(connection, LINGER_MS, end)
  // The parser of Node listens to these.
  connection.removeAllListeners('data')
  connection.removeAllListeners('end')
  connection.on('data', ({ length }) => {
    bytes += length
    if (bytes >= left) end()
    else if (bytes >= LINGER_BYTES || !mayRead(length)) connection.pause()
  })
  connection.once('end', end)
  connection.once('close', end)
  if (left <= 0) end()
  else connection.resume()
}

/** The connections whose bodies are discarded, the oldest first. */
const connections = new Set<Connection>()

/** Keeps a connection for a time, after which `end` is called. Returns a function that gives up its place. */
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

/** Counts bytes that lingering connections have read. Returns false when there are too many in this second. */
function mayRead(bytes: number): boolean {
  const now = performance.now()
  if (now - second >= 1000) {
    second = now
    bytesRead = 0
  }
  bytesRead += bytes
  return bytesRead <= BYTES_PER_SECOND
}
