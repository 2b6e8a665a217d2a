import type { Decision } from '../limiter/decision.ts'
import { chain, isPromise, type MaybePromise } from '../util/maybe-promise.ts'
import type { HttpAdapter } from './adapter.ts'
import { type Denial, denial } from './denial.ts'
import { withNames } from './headers/cors.ts'
import type { HeaderOptions } from './headers/options.ts'
import { mergeRetryAfter, retryAfter } from './headers/retry-after.ts'
import { type DenialOptions, messageReader, type SentMessage } from './message.ts'

/** Answers a denied request. Always returns false, as `admit` does for a denied request. */
export type DenialResponder<Request, Response, Next> = (
  decision: Decision,
  request: Request,
  response: Response,
  next: Next,
) => MaybePromise<boolean>

/** Creates the responder of a request limiter: the `onDenied` of its user with `Retry-After` already set, or a whole response. */
export function denialResponder<Request, Response, Next, OnDenied>(
  {
    onDenied,
    message,
    statusCode,
    unit,
  }: DenialOptions<Request> & Pick<HeaderOptions, 'unit'> & { readonly onDenied?: OnDenied },
  adapter: HttpAdapter<Request, Response, Next, OnDenied>,
): DenialResponder<Request, Response, Next> {
  const readMessage = messageReader(message)

  /** Keeps a larger `Retry-After` of the application. */
  function setRetryAfter(decision: Decision, response: Response): void {
    const seconds = mergeRetryAfter(adapter.getHeader(response, 'Retry-After'), retryAfter(decision), Date.now())
    if (seconds !== undefined) adapter.setHeader(response, 'Retry-After', String(seconds))
  }

  /** Otherwise a client could send a body of any size for each denial. */
  function stopReading(request: Request, response: Response): void {
    if (adapter.hasUnreadBody?.(request)) adapter.setHeader(response, 'Connection', 'close')
  }

  function setHeader(response: Response, name: string, value: string): void {
    const isList = name === 'Vary'
    const known = isList ? adapter.getHeader(response, name) : undefined
    adapter.setHeader(response, name, isList ? withNames(String(known ?? ''), [value]) : value)
  }

  function send({ status, headers, body }: Denial, decision: Decision, request: Request, response: Response): false {
    if (adapter.headersSent(response)) return false
    stopReading(request, response)
    for (const [name, value] of headers) if (name !== 'Retry-After') setHeader(response, name, value)
    setRetryAfter(decision, response)
    adapter.sendDenial(response, status, body)
    return false
  }

  if (onDenied === undefined) {
    return function sendDenial(decision, request, response) {
      if (readMessage !== undefined && decision.degraded !== 'closed') {
        return chain(readMessage(decision, request), (sent) =>
          send(messageDenial(sent, statusCode), decision, request, response),
        )
      }
      // Without the method: a response to HEAD has the headers of the whole body, which the framework then omits.
      const accept = adapter.getRequestHeader(request, 'accept')
      return send(denial(decision, { accept, statusCode, unit }), decision, request, response)
    }
  }
  return function callOnDenied(decision, request, response, next) {
    stopReading(request, response)
    setRetryAfter(decision, response)
    const answer = adapter.callOnDenied(onDenied, request, response, next, decision)
    return isPromise(answer) ? Promise.resolve(answer).then(() => false) : false
  }
}

function messageDenial({ type, text }: SentMessage, status = 429): Denial {
  return {
    status,
    headers: [
      ['Cache-Control', 'no-store'],
      ['Content-Type', type],
    ],
    body: text,
  }
}
