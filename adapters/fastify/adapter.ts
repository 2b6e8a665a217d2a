import type { FastifyReply, FastifyRequest } from 'fastify'
import { markAborted, whenAnswered, whenClosed } from '../../src/http/response/node.ts'
import { isClosed } from '../../src/util/closed.ts'
import { discardBody } from '../../src/http/response/unread-body.ts'
import { callStarted } from '../../src/http/response/on-denied.ts'
import { requestLimiterOf, whenAdmitted } from '../../src/http/request-limiter.ts'
import { type HttpOptions, type LimiterSource, validateHttpOptions } from '../../src/http/options.ts'
import type { HttpAdapter } from '../../src/http/adapter.ts'
import { nodeHeader } from '../../src/http/keys/request-keyers.ts'
import type { Decision } from '../../src/limiter/decision.ts'
import { chain } from '../../src/util/maybe-promise.ts'
import { oneOf, ownOptions, refuse } from '../../src/util/validate.ts'
import { addressOf, headOf, pathsOf } from './keyers.ts'
import { throwDenial } from './denial-error.ts'

/** The point in the life of a request at which a limit decides. */
export type Hook = 'onRequest' | 'preHandler'

/** Decides about a request, and calls `done` unless the request was answered. */
export type LimitHook = (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) => void

/** The options of {@link rateLimit}: the options of `createLimiter` or a `limiter`, and the options of HTTP responses. */
export type RateLimitOptions = LimiterSource<FastifyRequest> &
  HttpOptions<FastifyRequest, FastifyReply> & {
    /**
     * Answers a denied request instead of the 429. The status 429, `Cache-Control: no-store`, `Retry-After` and the rate-limit
     * headers are already set. Its return value is sent. Without a return value, it must send a reply. If it does not do so within ten seconds, the process
     * warning `SLUICE_NOT_ANSWERED` is emitted once. `'throw'`: the error handler of the scope receives a {@link DenialError}.
     * @example await app.register(rateLimit, { keyer: byIP, limits: perMinute(100), onDenied: 'throw' })
     */
    readonly onDenied?: OnDenied | 'throw'
    /** When to decide. Use `'preHandler'` if keys or costs need the body or an authenticated user. Default `'onRequest'`. */
    readonly hook?: Hook
  }

/** Called with denials: see the option `onDenied`. */
export type OnDenied = (request: FastifyRequest, reply: FastifyReply, decision: Decision) => unknown

const adapter: HttpAdapter<FastifyRequest, FastifyReply, undefined, OnDenied> = {
  getMethod: (request) => request.method,
  getRequestHeader: nodeHeader,
  getPath: pathsOf,
  getAddress: addressOf,
  getApp: (request) => request.server.server,
  discardBody: (request, reply) => discardBody(request.raw, reply.raw),
  getHeader: (reply, name) => reply.getHeader(name),
  setHeader: (reply, name, value) => void reply.header(name, value),
  removeHeader: (reply, name) => void reply.removeHeader(name),
  headersSent: (reply) => reply.raw.headersSent,
  getStatus: (reply) => reply.raw.statusCode,
  markAborted: ({ raw }) => markAborted(raw),
  // The body is sent as bytes, because Fastify adds a charset to a text with a JSON type.
  sendDenial: (reply, status, body) => void reply.code(status).send(Buffer.from(body)),
  onEnd: (reply, listener) => whenClosed(reply.raw, listener),
  isGone: (_request, { raw }) => isClosed(raw),
  onAnswer: whenReplied,
  getDecision: (request) => request.rateLimit,
  setDecision: (request, decision) => void (request.rateLimit = decision),
  callOnDenied: (onDenied, request, reply, _next, decision) =>
    callStarted({ request, onDenied, response: headOf(reply), decision }, () =>
      chain(
        onDenied(request, reply, decision),
        (answer) => void (answer === undefined || reply.sent || reply.code(reply.statusCode).send(answer)),
      ),
    ),
}

/** `reply.from` of `@fastify/reply-from` and `@fastify/http-proxy`. */
type From = (path?: string, options?: { readonly rewriteHeaders?: RewriteHeaders }) => unknown
type RewriteHeaders = (headers: object, request: FastifyRequest) => object

/**
 * Calls `listener` when a handler answers. If its client has disconnected, Fastify cancels web streams, and `reply.from` stops when the other server has
 * answered: both call no method of the response.
 */
function whenReplied(reply: FastifyReply & { from?: From }, listener: () => void): void {
  whenAnswered(reply.raw, listener)
  const { send, from } = reply
  reply.send = function answered(payload) {
    if (isWebStream(payload)) listener()
    return send.call(this, payload)
  }
  if (from === undefined) return
  reply.from = function forwarded(path, options) {
    const rewriteHeaders: RewriteHeaders = (headers, request) => {
      if (isClosed(reply.raw)) listener()
      return options?.rewriteHeaders?.(headers, request) ?? headers
    }
    return from.call(this, path, { ...options, rewriteHeaders })
  }
}

function isWebStream(payload: unknown): boolean {
  return ['[object Response]', '[object ReadableStream]'].includes(Object.prototype.toString.call(payload))
}

/** Replaces `onDenied: 'throw'` by a function. */
function withThrown(given: RateLimitOptions): RateLimitOptions {
  const { onDenied, unit } = ownOptions(given)
  if (onDenied === 'throw') return { ...given, onDenied: throwDenial(unit) }
  return typeof onDenied === 'string' ? refuse('onDenied', "a function or 'throw'", onDenied) : given
}

/** Creates the hook that limits requests. Throws `SluiceError` for wrong options. */
export function createHook(given: object): LimitHook {
  const { hook = 'onRequest', ...options } = validateHttpOptions(withThrown(given as RateLimitOptions), 'hook')
  oneOf('hook', hook, ['onRequest', 'preHandler'])
  const requestLimiter = requestLimiterOf(options as RateLimitOptions & { readonly onDenied?: OnDenied }, adapter)
  return function limitRate(request, reply, done) {
    whenAdmitted(requestLimiter, request, reply, undefined, done, done)
  }
}
