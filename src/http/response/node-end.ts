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
 */
export function whenClosed(response: NodeResponse, listener: () => void): () => void {
  const connection = response.socket === null ? response.req?.socket : undefined
  if (response.destroyed || response.stream?.destroyed || connection?.destroyed) {
    queueMicrotask(listener)
    return () => undefined
  }
  const waiting = connection && waitingOn(connection)
  function closed(): void {
    stop()
    listener()
  }
  function stop(): void {
    response.off('close', closed)
    waiting?.delete(closed)
  }
  response.once('close', closed)
  waiting?.add(closed)
  return stop
}

const waitingByConnection = new WeakMap<Closing, Set<() => void>>()

/**
 * Returns the listeners of the responses that wait on a connection. Node emits `close` only on the first response when the
 * connection closes. There is one listener for all of them, since there may be many.
 */
function waitingOn(connection: Closing): Set<() => void> {
  const known = waitingByConnection.get(connection)
  if (known !== undefined) return known
  const waiting = new Set<() => void>()
  connection.once('close', () => {
    for (const closed of waiting) closed()
  })
  waitingByConnection.set(connection, waiting)
  return waiting
}
