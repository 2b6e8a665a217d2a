/** A response of Node's, of whichever HTTP, or a socket, as far as its end goes. */
export interface NodeResponse extends Closing {
  /** HTTP/1.1: `null` while it waits behind others of its connection, and when it has left it. */
  readonly socket?: object | null
  readonly req?: { readonly socket?: Closing }
  /** HTTP/2. */
  readonly stream?: { readonly destroyed: boolean }
}

interface Closing {
  readonly destroyed?: boolean
  once(event: 'close', listener: () => void): unknown
  off(event: 'close', listener: () => void): unknown
}

/**
 * What a `Surface` says as `ended` where responses are Node's: they close when they have been delivered and when they are
 * cut off, once. One that waits behind others of its connection is over with that, too.
 */
export function whenClosed(response: NodeResponse, listener: () => void): () => void {
  const connection = response.socket === null ? response.req?.socket : undefined
  if (response.destroyed || response.stream?.destroyed || connection?.destroyed) {
    queueMicrotask(listener)
    return () => undefined
  }
  const queue = connection && queueOf(connection)
  function over(): void {
    stop()
    listener()
  }
  function stop(): void {
    response.off('close', over)
    queue?.delete(over)
  }
  response.once('close', over)
  queue?.add(over)
  return stop
}

const queues = new WeakMap<Closing, Set<() => void>>()

/** Node tells only the first response of a connection that this has closed. One listener for all, for there may be many. */
function queueOf(connection: Closing): Set<() => void> {
  const known = queues.get(connection)
  if (known !== undefined) return known
  const made = new Set<() => void>()
  connection.once('close', () => {
    for (const over of made) over()
  })
  queues.set(connection, made)
  return made
}
