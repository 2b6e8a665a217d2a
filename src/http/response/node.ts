import { background } from '../../util/clock.ts'
import { type Closing, connectionOf, isClosed, type NodeResponse } from '../../util/closed.ts'
import { byteLength } from '../denial.ts'
import { sharedListener } from '../../util/shared-listener.ts'

/** The status of a response that was aborted before anything was sent. No standard defines one; nginx logs this one. */
export const ABORTED = 499

/**
 * The `onEnd` of an `HttpAdapter` for Node responses. Such a response closes once, when it was sent or aborted. A response that
 * waits for others on its connection also ends with the connection.
 * @example const stop = whenClosed(response, () => console.log('sent or aborted'))
 */
export function whenClosed(response: NodeResponse, listener: () => void): () => void {
  if (isClosed(response)) {
    queueMicrotask(listener)
    return () => undefined
  }
  const connection = connectionOf(response)
  function closed(): void {
    stop()
    listener()
  }
  const stops = (connection === undefined ? [response] : [response, connection]).map((emitter) =>
    onClose(emitter, closed),
  )
  if (response.stream !== undefined) stops.push(whenFoundClosed(response, closed))
  function stop(): void {
    for (const each of stops) each()
  }
  return stop
}

/** Milliseconds between two looks at the open responses of HTTP/2. */
const LOOK = 1000
const looks = new Set<() => void>()
let isLooking = false

/**
 * Looks at a response of HTTP/2 once a second. Node emits no event if its client resets the stream without an error before the response was sent, such as a client
 * that sends a part of a body and lets no data through.
 */
function whenFoundClosed(response: NodeResponse, closed: () => void): () => void {
  const look = (): void => void (isClosed(response) && closed())
  looks.add(look)
  if (!isLooking) lookLater()
  return () => void looks.delete(look)
}

function lookLater(): void {
  isLooking = looks.size > 0
  if (!isLooking) return
  background(LOOK, () => {
    for (const look of looks) look()
    lookLater()
  })
}

/** A Node response whose methods are watched. */
interface Answering extends NodeResponse {
  end(...given: never[]): unknown
  on?(event: 'pipe', listener: (source: Pick<Closing, 'once'>) => void): unknown
}

/** What ends or begins a response. It stops at once if the client has disconnected. */
const ANSWERS = ['end', 'destroy', 'write', 'writeHead'] as const

/**
 * The `onAnswer` of an `HttpAdapter` for Node responses: calls `listener` when a handler ends the response, or begins it. It replaces methods, because a
 * response emits no event after its client has disconnected. A stream that is piped into such a response may write nothing: then it counts when it closes. For an
 * upgrade it calls `listener` at once: its handler works until the connection closes, and calls none of these methods.
 * @example whenAnswered(response, () => console.log('the handler is done'))
 */
export function whenAnswered(response: Answering, listener: () => void): void {
  // Node sets it when it emits `upgrade`. Plugins for WebSockets then make a response of their own.
  if ((response.req as { readonly upgrade?: unknown } | undefined)?.upgrade === true) return listener()
  const methods = response as Partial<Record<(typeof ANSWERS)[number], (...given: never[]) => unknown>>
  for (const name of ANSWERS) {
    const method = methods[name]
    if (method === undefined) continue
    methods[name] = function answered(this: unknown, ...given) {
      listener()
      return method.apply(this, given)
    }
  }
  response.on?.('pipe', (source) => source.once('close', () => void (isClosed(response) && listener())))
}

/**
 * The `markAborted` of an `HttpAdapter` for Node responses: sets the status 499.
 * @example markAborted(response) // response.statusCode is 499
 */
export function markAborted(response: { statusCode: number }): void {
  response.statusCode = ABORTED
}

/**
 * Sends a body as a whole. It uses only methods that every response of Node has, and nothing that they return: HTTP/2 and packages that replace methods
 * return nothing.
 */
export function sendBody(
  response: { statusCode: number; setHeader(name: string, value: number): unknown; end(body: string): unknown },
  status: number,
  body: string,
): void {
  response.statusCode = status
  response.setHeader('Content-Length', byteLength(body))
  response.end(body)
}

/** A shared listener: a response may pass many limits, and many responses may wait on a connection, of which Node emits `close` only on the first. */
const onClose = sharedListener<Closing>(
  (emitter, call) => endsOf(emitter).forEach((event) => emitter.once(event, call)),
  (emitter, call) => endsOf(emitter).forEach((event) => emitter.off(event, call)),
)

/** Returns the events of which the first ends a response, or a socket. A response without a server, such as in AWS Lambda, emits no `close`. */
function endsOf(emitter: Closing): readonly ('close' | 'finish')[] {
  return 'req' in emitter ? ['close', 'finish'] : ['close']
}
