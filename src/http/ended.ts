/** A response of Node's, of whichever HTTP, as far as its end goes. */
interface NodeResponse {
  readonly destroyed?: boolean
  once(event: 'close', listener: () => void): unknown
  off(event: 'close', listener: () => void): unknown
}

/**
 * What a `Surface` says as `ended` where responses are Node's: they close when they have been delivered and when they are
 * cut off, once.
 */
export function whenClosed(response: NodeResponse, listener: () => void): () => void {
  if (response.destroyed === true) queueMicrotask(listener)
  else response.once('close', listener)
  return () => void response.off('close', listener)
}
