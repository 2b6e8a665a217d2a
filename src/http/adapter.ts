import type { Decision } from '../limiter/decision.ts'

/**
 * What a framework looks like from the gate: all that an adapter has to say, as one literal object. `Request` is what the
 * framework's users call a request, and what keyers are given; `Response` is wherever fields can be set until it is sent;
 * `Next` is what handlers get besides, and `OnDenied` a handler of theirs that is given the decision last.
 *
 * Where a response is a value that a handler returns (`fetch`), `Response` is a draft that the adapter makes for each
 * request: `set` and `send` write into it, and once the handler has answered the adapter copies its fields over.
 *
 * @example
 * const surface: Surface<IncomingMessage, ServerResponse, undefined, RequestListener> = {
 *   method: (request) => request.method!,
 *   header: (request, name) => request.headers[name] as string | undefined,
 *   field: (response, name) => response.getHeader(name),
 *   set: (response, name, value) => response.setHeader(name, value),
 *   sent: (response) => response.headersSent,
 *   status: (response) => response.statusCode,
 *   send: (response, status, body) => { response.statusCode = status; response.end(body) },
 *   ended: (response, listener) => finished(response, listener),
 *   known: (request) => decisions.get(request),
 *   keep: (request, decision) => decisions.set(request, decision),
 *   deny: (onDenied, request, response) => onDenied(request, response),
 * }
 */
export interface Surface<Request, Response, Next, OnDenied> {
  /** The method, in capitals. */
  method(request: Request): string | undefined
  /** A field of the request; `name` is in lower case. */
  header(request: Request, name: string): string | undefined
  /** A field of the response as far as it is known; absent is `undefined` or `''`. */
  field(response: Response, name: string): string | number | readonly string[] | undefined
  /** Sets a field of the response, in place of one of that name. */
  set(response: Response, name: string, value: string): void
  /** True once the head of the response is on its way. */
  sent(response: Response): boolean
  /** The status that was sent. Asked only when `sent`. */
  status(response: Response): number
  /** Answers, with the fields set before; a HEAD request without the body, which Node leaves out by itself. */
  send(response: Response, status: number, body: string): void
  /**
   * Calls `listener` once, later, when the response is over: delivered whole or cut off. Also when it is over already.
   * @returns what stops listening
   */
  ended(response: Response, listener: () => void): () => void
  /** The decision that `keep` was last given for this request. */
  known(request: Request): Decision | undefined
  /** Puts the decision where the framework's users look for it. */
  keep(request: Request, decision: Decision): void
  /** Calls the user's `onDenied` the way that the framework calls handlers, and sees to what it returns. */
  deny(onDenied: OnDenied, request: Request, response: Response, next: Next, decision: Decision): unknown
}
