import type { Decision } from '../limiter/decision.ts'

/**
 * Describes a framework for the request limiter: how to read a request, and how to answer it. An adapter is one literal object of this type.
 *
 * `Request` is the request object of the framework, which keyers receive. `Response` is the object on which headers are set. `Next` is an additional
 * argument of handlers of the framework, and `OnDenied` is the type of the `onDenied` option.
 *
 * If handlers return responses as values (`fetch`), `Response` is a draft that the adapter creates for each request. `setHeader` and `sendDenial` write to
 * the draft, and the adapter copies its headers to the response of the handler.
 *
 * @example
 * const adapter: HttpAdapter<IncomingMessage, ServerResponse, undefined, RequestListener> = {
 *   getMethod: (request) => request.method,
 *   getPath: (request) => request.url,
 *   getRequestHeader: (request, name) => request.headers[name] as string | undefined,
 *   getHeader: (response, name) => response.getHeader(name),
 *   setHeader: (response, name, value) => response.setHeader(name, value),
 *   headersSent: (response) => response.headersSent,
 *   getStatus: (response) => response.statusCode,
 *   sendDenial: (response, status, body) => { response.statusCode = status; response.end(body) },
 *   onEnd: (response, listener) => whenClosed(response, listener),
 *   getDecision: (request) => decisions.get(request),
 *   setDecision: (request, decision) => decisions.set(request, decision),
 *   callOnDenied: (onDenied, request, response) => onDenied(request, response),
 * }
 */
export interface HttpAdapter<Request, Response, Next, OnDenied> {
  /** Returns the method of the request, in capitals. */
  getMethod(request: Request): string | undefined
  /** Returns a header of the request. `name` is in lower case. */
  getRequestHeader(request: Request, name: string): string | undefined
  /**
   * Returns the path of the request with or without its query, or its URL. Rules need it. If a middleware may rewrite the path, return several paths: first
   * the path that the router matches, then the path that the client sent. A policy applies if one of them matches, and a policy with `allow` if all of
   * them match.
   * @example getPath: (request) => [request.url, request.originalUrl]
   */
  getPath?(request: Request): string | readonly string[] | undefined
  /** Returns the client's address as the framework reports it. `allow` and rules with `ip` need it, unless they have an `address`. */
  getAddress?(request: Request): string | undefined
  /**
   * Returns the app or the server of the request: the same object for all its requests. It is used to warn about limits that a handler creates for each
   * request. Default: none. The warning is not emitted in test runners then.
   */
  getApp?(request: Request): object | undefined
  /** Returns the other arguments of a handler, for the functions of rules and for `address`. Default: none. */
  getRest?(request: Request): readonly unknown[]
  /**
   * Called before a response that replaces the handler: for a denial, and when a function of the user throws. The body of the request may not have arrived
   * yet. For Node use `discardBody`. Default: nothing, for runtimes that handle connections themselves.
   */
  discardBody?(request: Request, response: Response): void
  /** Returns a header of the response if it is known. `undefined` and `''` mean that there is none. */
  getHeader(response: Response, name: string): string | number | readonly string[] | undefined
  /** Sets a header of the response and replaces an earlier value. */
  setHeader(response: Response, name: string, value: string): void
  /**
   * Removes a header of the response, if it exists. Some limits have no reset time, so the reset of an earlier limit must be removed. Default: nothing is
   * removed.
   */
  removeHeader?(response: Response, name: string): void
  /** Returns true once the headers of the response have been sent. */
  headersSent(response: Response): boolean
  /** Returns the status that was sent. It is only called when `headersSent` returns true. */
  getStatus(response: Response): number
  /**
   * Sets the status 499 on a response that was aborted before anything was sent. Functions of the user, such as `refundWhen`, read it. For Node use
   * `markAborted`. Omit it only if handlers return responses as values.
   */
  markAborted?(response: Response): void
  /**
   * Sends a denial with the headers that were set before. The body may have any characters. A response to HEAD has no body. Node omits it automatically.
   */
  sendDenial(response: Response, status: number, body: string): void
  /**
   * Calls `listener` once when the response has ended: it was sent completely or was aborted. Never calls it synchronously, even if the response has ended
   * already.
   * @returns a function that removes the listener
   */
  onEnd(response: Response, listener: () => void): () => void
  /**
   * Returns true when the client of a request has gone. No handler is called for it after a decision. For Node use `isClosed`.
   * Default: false.
   */
  isGone?(request: Request, response: Response): boolean
  /**
   * Calls `listener` when the handler has ended the response, even after the client has disconnected. The slots of `concurrent` are held until then. For Node use
   * `whenAnswered`. An adapter whose handlers return promises also calls `trackWork`. Default: a handler ends with its response.
   */
  onAnswer?(response: Response, listener: () => void): void
  /**
   * True if the end of the work for a request is unknown, as for messages. The slots of `concurrent` are then not renewed, and expire. Default false.
   */
  readonly hasNoEnd?: boolean
  /** Returns the decision that `setDecision` last stored for this request. */
  getDecision(request: Request): Decision | undefined
  /** Stores the decision in the place where users of the framework expect it. */
  setDecision(request: Request, decision: Decision): void
  /**
   * Calls the user's `onDenied` with the arguments of the framework's handlers, and handles its result. Before that, it sets the status
   * `denialStatus(decision)` and `Cache-Control: no-store`. Both are undone if the request continues.
   */
  callOnDenied(onDenied: OnDenied, request: Request, response: Response, next: Next, decision: Decision): unknown
}
