import { ABORTED } from './aborted.ts'

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
  function stop(): void {
    remove(response, closed)
    if (connection !== undefined) remove(connection, closed)
  }
  add(response, closed)
  if (connection !== undefined) add(connection, closed)
  return stop
}

/**
 * The `markAborted` of an `HttpAdapter` for Node responses: sets the status 499.
 * @example markAborted(response) // response.statusCode is 499
 */
export function markAborted(response: { statusCode: number }): void {
  response.statusCode = ABORTED
}

/** What is called when a response or a connection closes. */
class Listeners {
  readonly all = new Set<() => void>()
  readonly call = (): void => {
    for (const closed of this.all) closed()
  }
}

const listenersByEmitter = new WeakMap<Closing, Listeners>()

/**
 * Adds to the one listener of a response or connection: a response may pass many limits, and many responses may wait on a
 * connection. Node emits `close` only on the first of those.
 */
function add(emitter: Closing, closed: () => void): void {
  const listeners = listenersByEmitter.get(emitter) ?? new Listeners()
  listenersByEmitter.set(emitter, listeners)
  if (listeners.all.size === 0) emitter.once('close', listeners.call)
  listeners.all.add(closed)
}

function remove(emitter: Closing, closed: () => void): void {
  const listeners = listenersByEmitter.get(emitter)
  if (listeners?.all.delete(closed) && listeners.all.size === 0) emitter.off('close', listeners.call)
}
