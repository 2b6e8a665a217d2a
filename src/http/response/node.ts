import { sharedListener } from '../../util/shared-listener.ts'

/** The status of a response that was aborted before anything was sent. No standard defines one; nginx logs this one. */
export const ABORTED = 499

/** The parts of a Node response, of HTTP/1.1 or HTTP/2, or of a socket, that tell when it ends. */
export interface NodeResponse extends Closing {
  /** In HTTP/1.1: `null` while the response waits for others on its connection, and once it is sent. */
  readonly socket?: object | null
  readonly req?: { readonly socket?: Closing }
  /** In HTTP/2. */
  readonly stream?: { readonly destroyed: boolean }
}

interface Closing {
  readonly destroyed?: boolean
  once(event: 'close', listener: () => void): unknown
  off(event: 'close', listener: () => void): unknown
}

/**
 * The `onEnd` of an `HttpAdapter` for Node responses. Such a response closes once, when it was sent or aborted. A response that
 * waits for others on its connection also ends with the connection.
 * @example const stop = whenClosed(response, () => console.log('sent or aborted'))
 */
export function whenClosed(response: NodeResponse, listener: () => void): () => void {
  const connection = response.socket === null ? response.req?.socket : undefined
  if (response.destroyed || response.stream?.destroyed || connection?.destroyed) {
    queueMicrotask(listener)
    return () => undefined
  }
  function closed(): void {
    stop()
    listener()
  }
  const stops = (connection === undefined ? [response] : [response, connection]).map((emitter) =>
    onClose(emitter, closed),
  )
  function stop(): void {
    for (const each of stops) each()
  }
  return stop
}

/**
 * The `markAborted` of an `HttpAdapter` for Node responses: sets the status 499.
 * @example markAborted(response) // response.statusCode is 499
 */
export function markAborted(response: { statusCode: number }): void {
  response.statusCode = ABORTED
}

/** A response may pass many limits, and many responses may wait on a connection. Node emits `close` only on the first of those. */
const onClose = sharedListener<Closing>(
  (emitter, call) => emitter.once('close', call),
  (emitter, call) => emitter.off('close', call),
)

/** The parts of a Node request that tell whether its body has arrived. */
export interface NodeRequest {
  readonly httpVersionMajor: number
  readonly complete?: boolean
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
}

/**
 * Returns true for an HTTP/1 request whose body has not arrived. Node reads it to its end after the response, unless the
 * connection closes. In HTTP/2 Node resets the stream by itself.
 */
export function hasUnreadBody({ httpVersionMajor, complete, headers }: NodeRequest): boolean {
  if (httpVersionMajor >= 2 || complete === true) return false
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}
