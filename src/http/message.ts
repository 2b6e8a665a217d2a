import type { Decision } from '../limiter/decision.ts'
import { isPromise, type MaybePromise } from '../util/maybe-promise.ts'
import { refuse } from '../util/validate.ts'

/** A text, or an object that is sent as JSON. */
export type MessageBody = string | Readonly<Record<string, unknown>>

/** The body of a denial, or a function that returns it. */
export type Message<Request> = MessageBody | ((decision: Decision, request: Request) => MaybePromise<MessageBody>)

/** The options of the denial, for users without an `onDenied`. */
export interface DenialOptions<Request> {
  /**
   * The body of a denial, for all clients, or a function that returns it. A text is sent as `text/plain`, an object as `application/json`. If the function
   * throws, the error goes to the error handling of the framework. The status, `Retry-After`, `Cache-Control: no-store` and the rate-limit headers are
   * those of every denial. It is not used for the 503 of `onOutage: 'closed'`, nor with `onDenied`.
   *
   * Default: problem details as JSON. A client that accepts HTML and does not name JSON, such as a browser, gets a small page. A client that accepts
   * `text/plain` but no JSON gets text.
   * @example rateLimit({ keyer: byIP, limits: perMinute(100), message: { error: 'slow down' } })
   * @example rateLimit({ keyer: byIP, limits: perMinute(100), message: ({ retryAfter }) => `Wait ${Math.ceil(retryAfter / 1000)} s` })
   */
  readonly message?: Message<Request>
  /**
   * The status of a denial, 400 to 599. Many clients retry only after a 429. It is not used for the 503 of
   * `onOutage: 'closed'`, nor with `onDenied`. Default 429.
   */
  readonly statusCode?: number
}

export interface SentMessage {
  readonly type: string
  readonly text: string
}

/** Throws `INVALID_OPTION` for a wrong `message` or `statusCode`, and for one of them together with `onDenied`. */
export function validateDenialOptions(options: DenialOptions<never> & { readonly onDenied?: unknown }): void {
  const { message, statusCode, onDenied } = options
  for (const name of ['message', 'statusCode'] as const) {
    if (options[name] !== undefined && onDenied !== undefined)
      refuse(name, 'nothing together with `onDenied`, which sends the response', options[name])
  }
  if (message !== undefined && typeof message !== 'function') sentMessage(message)
  validateStatus(statusCode)
}

/** Throws `INVALID_OPTION` for a status that is not an error status. */
export function validateStatus(status: number | undefined): void {
  if (status === undefined || (Number.isInteger(status) && status >= 400 && status <= 599)) return
  refuse('statusCode', 'a whole number from 400 to 599', status)
}

/** Returns a function for the message of a denial, or `undefined` if there is none. A fixed message is converted once. */
export function messageReader<Request>(
  message: Message<Request> | undefined,
): ((decision: Decision, request: Request) => MaybePromise<SentMessage>) | undefined {
  if (message === undefined) return undefined
  if (typeof message !== 'function') {
    const sent = sentMessage(message)
    return () => sent
  }
  return function readMessage(decision, request) {
    const given = message(decision, request)
    return isPromise(given) ? Promise.resolve(given).then(sentMessage) : sentMessage(given)
  }
}

/** Returns the body and its type. Throws `INVALID_OPTION` for anything but a text or an object that can be written as JSON. */
function sentMessage(message: unknown): SentMessage {
  if (typeof message === 'string') return { type: 'text/plain; charset=utf-8', text: message }
  const text = typeof message === 'object' && message !== null && !isPromise(message) ? written(message) : undefined
  if (text === undefined)
    return refuse('message', 'a text, an object for JSON, or a function that returns one', message)
  return { type: 'application/json', text }
}

/** Returns `undefined` for an object that JSON cannot contain. */
function written(message: object): string | undefined {
  try {
    return JSON.stringify(message)
  } catch {
    return undefined
  }
}
