/** The parts of a Node response of HTTP/1.1 or HTTP/2, or of a socket, that show when it ends. */
export interface NodeResponse extends Closing {
  /** In HTTP/1.1: `null` while the response waits for others on its connection, and after it is sent. */
  readonly socket?: object | null
  readonly req?: { readonly socket?: Closing }
  /** In HTTP/2. A stream that its client has reset without an error may never be destroyed. */
  readonly stream?: { readonly closed: boolean }
}

/** What emits `close`, a response or a socket. A response also emits `finish`. */
export interface Closing {
  readonly destroyed?: boolean
  once(event: 'close' | 'finish', listener: () => void): unknown
  off(event: 'close' | 'finish', listener: () => void): unknown
}

/**
 * The `isGone` of an `HttpAdapter` for Node responses: returns true once the response has closed.
 * @example isClosed(response) // true after the client has disconnected
 */
export function isClosed(response: NodeResponse): boolean {
  return Boolean(response.destroyed || response.stream?.closed || connectionOf(response)?.destroyed)
}

/** Returns the connection of a response that waits for others on it. */
export function connectionOf({ socket, req }: NodeResponse): Closing | undefined {
  return socket === null ? req?.socket : undefined
}
