import { trackWork } from '../../src/http/work.ts'
import type { HttpAdapter } from '../../src/http/adapter.ts'
import { type HttpOptions, type LimiterSource, validateHttpOptions } from '../../src/http/options.ts'
import { exposedAfter } from '../../src/http/headers/stacked.ts'
import type { ResponseReader } from '../../src/http/settlement.ts'
import { requestLimiterOf } from '../../src/http/request-limiter.ts'
import { callStarted, type ResponseHead } from '../../src/http/response/on-denied.ts'
import { type ClosableResponse, discardBody, type NodeRequest } from '../../src/http/response/unread-body.ts'
import { clientGone, isAborted, lateHeaders, ResponseEnd, responseFrom } from '../../src/http/response/web.ts'
import type { Decision } from '../../src/limiter/decision.ts'
import { shared } from '../../src/util/copies.ts'
import { chain, type MaybePromise } from '../../src/util/maybe-promise.ts'
import { needsCall, refuse } from '../../src/util/validate.ts'
import { type AddressOptions, givenAddressKey } from '../../src/http/keys/address.ts'
import { byHeaderOf, byMethodOf } from '../../src/http/keys/request-keyers.ts'
import { define, type SyncKeyer } from '../../src/limiter/keyers.ts'
import { refuseContinued, refuseStatic } from './next.ts'

export type { HeaderStyle } from '../../src/http/headers/types.ts'

/** The options of {@link rateLimit}: the options of `createLimiter` or a `limiter`, and the options of HTTP responses. */
export type RateLimitOptions = LimiterSource<Request> &
  HttpOptions<Request, Response> & {
    /**
     * Answers a denied request instead of the 429. `Cache-Control: no-store`, `Retry-After` and the rate-limit headers are added to its response. The status
     * is not set: use `status: 429`. A larger `Retry-After` of that response stays. If its promise is pending for ten seconds, the process warning
     * `SLUICE_NOT_ANSWERED` is emitted once.
     */
    readonly onDenied?: OnDenied
  }

/** Called with denials: see the option `onDenied`. */
export type OnDenied = (request: Request, decision: Decision) => MaybePromise<Response>

/** Limits a handler. The handler receives all arguments of the runtime, unchanged. */
export type RateLimit = <In extends Request, Rest extends readonly unknown[]>(
  handler: (request: In, ...rest: Rest) => MaybePromise<Response>,
) => (request: In, ...rest: Rest) => Promise<Response>

/** The headers and the denial of a request, before there is a response. */
interface Draft {
  readonly request: Request
  readonly headers: Headers
  readonly end: ResponseEnd
  denial: Response | undefined
}

const encoder = new TextEncoder()
const decisions = shared('decisions of fetch', () => new WeakMap<Request, Decision>())
/** The headers that an inner limit has removed. The drafts of outer limits, which are written later, may have them. */
const removals = shared('removed headers of fetch', () => new WeakMap<Request, Set<string>>())

const adapter: HttpAdapter<Request, Draft, undefined, OnDenied> & ResponseReader<Draft, Response> = {
  getMethod: (request) => request.method,
  getPath: (request) => request.url,
  getRest: restOf,
  getApp: (request) => bindingsOf(request).incoming?.socket?.server,
  getRequestHeader: (request, name) => request.headers.get(name) ?? undefined,
  /** `@hono/node-server` passes the request of Node to a handler. Other runtimes handle connections themselves. */
  discardBody(request) {
    const { incoming, outgoing } = bindingsOf(request)
    if (incoming?.httpVersionMajor !== undefined && outgoing !== undefined) discardBody(incoming, outgoing)
  },
  getHeader: ({ headers }, name) => headers.get(name) ?? undefined,
  setHeader({ request, headers }, name, value) {
    removals.get(request)?.delete(name)
    headers.set(name, value)
  },
  removeHeader: ({ request }, name) => void removals.set(request, (removals.get(request) ?? new Set()).add(name)),
  headersSent: ({ end }) => end.response !== undefined,
  getStatus: ({ end }) => end.response!.status,
  givenResponse: ({ end }) => end.response ?? clientGone(),
  // The body is sent as bytes: for a text, the platform would set a Content-Type.
  sendDenial: (draft, status, body) =>
    void (draft.denial = new Response(draft.request.method === 'HEAD' ? null : encoder.encode(body), { status })),
  onEnd: ({ end }, listener) => end.listen(listener),
  isGone: isAborted,
  getDecision: (request) => decisions.get(request),
  setDecision: (request, decision) => void decisions.set(request, decision),
  callOnDenied: (onDenied, request, draft, _next, decision) =>
    callStarted({ request, onDenied, response: headOf(draft), decision, isSentAtEnd: true }, () =>
      chain(onDenied(request, decision), (answer) => void (draft.denial = responseFrom('onDenied', answer))),
    ),
}

/** Returns the head of a denial. The response of `onDenied` has its own status. */
function headOf({ headers }: Draft): ResponseHead {
  return {
    statusCode: 200,
    headersSent: false,
    getHeader: (name) => headers.get(name) ?? undefined,
    setHeader: (name, value) => headers.set(name, String(value)),
    removeHeader: (name) => headers.delete(name),
  }
}

interface NodeBindings {
  readonly incoming?: NodeRequest & { readonly socket?: { readonly server?: object } | null }
  readonly outgoing?: ClosableResponse
}

/** Returns the request and response of Node that `@hono/node-server` passes to a handler. */
function bindingsOf(request: Request): NodeBindings {
  const [bindings] = restOf(request) as readonly [NodeBindings | null | undefined]
  return bindings ?? {}
}

/**
 * Returns the decision of the latest rate limit of a request, or `undefined` if it passed none.
 * @example rateLimitOf(request)?.remaining
 */
export function rateLimitOf(request: Request): Decision | undefined {
  return decisions.get(request)
}

/**
 * Limits web-standard handlers, `(request, …) => Response`: of Bun, Deno, workers, and route handlers of Next.js. `rateLimitOf(request)` returns the
 * decision. A header that the handler sets itself does not change. Throws `SluiceError` for a wrong or unknown option. If a keyer or the store fails, the
 * handler rejects with the error.
 * @example
 * const limit = rateLimit({ keyer: byHeader('x-api-key'), limits: [perSecond(10), perMinute(100)] })
 * export const GET = limit((request) => Response.json({ left: rateLimitOf(request)?.remaining }))
 */
export function rateLimit(options: RateLimitOptions): RateLimit {
  options = validateHttpOptions(options)
  const requestLimiter = requestLimiterOf(options, adapter)

  function finished(response: Response, { request, headers, end }: Draft): Response {
    for (const name of removals.get(request) ?? []) headers.delete(name)
    return end.deliver(withHeaders(response, headers, () => exposedAfter(adapter, request)))
  }

  return function limit(handler) {
    if (typeof handler !== 'function') refuse('rateLimit', 'a handler: limit((request) => new Response(…))', handler)
    return async function limitRate(request, ...rest) {
      refuseStatic(request)
      if (rest.length > 0) rests.set(request, rest)
      const end = new ResponseEnd(request)
      const draft: Draft = { request, headers: new Headers(), end, denial: undefined }
      const admitted = await requestLimiter.admit(request, draft, undefined)
      if (!admitted) return finished(draft.denial ?? clientGone(), draft)
      try {
        const response = responseFrom('handler', await trackWork(request, handler(request, ...rest)))
        if (end.isAwaited) refuseContinued(response)
        return finished(response, draft)
      } catch (error) {
        // The runtime answers an error with a 500.
        if (end.response === undefined) end.deliver(new Response(null, { status: 500 }))
        throw error
      }
    }
  }
}

/** Returns a new response: the headers of a response may be immutable, and a handler may return the same response again. */
function withHeaders(response: Response, headers: Headers, exposed: () => readonly string[]): Response {
  // A protocol switch and a network error cannot be copied.
  if (response.status < 200) return response
  const answer = new Response(response.body, response)
  for (const [name, value] of lateHeaders(response.headers, headers, exposed)) answer.headers.set(name, value)
  return answer
}

/** The other arguments of a handler: the server, the connection, or the environment, depending on the runtime. */
type Rest = readonly unknown[]

const rests = shared('rests', () => new WeakMap<Request, Rest>())

function restOf(request: Request): Rest {
  return rests.get(request) ?? []
}

/** The options of {@link ipKeyer}. `Arguments` are the arguments of the limited handlers. */
export type IpKeyerOptions<Arguments extends readonly [Request, ...Rest] = readonly [Request]> =
  AddressOptions<Arguments>

/**
 * Returns a keyer for the client's address. A web-standard request has no address, so `address` receives the arguments of the handler and returns it. Use a
 * header such as `X-Forwarded-For` only if your own proxy overwrites it. Otherwise the client can set it. IPv6 addresses are cut to a prefix.
 * Throws `INVALID_OPTION`, `UNKNOWN_OPTION`.
 *
 * @example
 * ipKeyer({ address: (request, server: Bun.Server<unknown>) => server.requestIP(request)?.address }) // Bun
 * ipKeyer({ address: (_request, info: Deno.ServeHandlerInfo<Deno.NetAddr>) => info.remoteAddr.hostname }) // Deno
 * ipKeyer({ address: (request) => request.headers.get('cf-connecting-ip') ?? undefined }) // Cloudflare
 * ipKeyer({ address: (request) => request.headers.get('x-real-ip') ?? undefined }) // Next.js, behind a proxy that sets it
 */
export const ipKeyer: <Arguments extends readonly [Request, ...Rest] = readonly [Request]>(
  options: IpKeyerOptions<Arguments>,
) => SyncKeyer<Request> = needsCall(function ipKeyer<Arguments extends readonly [Request, ...Rest]>(
  options: IpKeyerOptions<Arguments>,
) {
  const key = givenAddressKey(options as AddressOptions<never>)
  const address = options.address as unknown as (request: Request, ...rest: Rest) => string | undefined
  return define('ipKeyer', [address, key], function ipKeyer(request: Request) {
    return key(address(request, ...restOf(request)))
  })
}, 'ipKeyer({ address })')

/**
 * Returns a keyer for a header of the request, such as an API key. Throws `INVALID_OPTION` for a text that is not the name of a
 * header.
 * @example rateLimit({ keyer: byHeader('x-api-key'), limits: perMinute(100) })
 */
export const byHeader: (name: string) => SyncKeyer<Request> = byHeaderOf(
  ({ headers }, name) => headers.get(name) ?? undefined,
)

/**
 * The method of the request.
 * @example keyers(byHeader('x-api-key'), byMethod)
 */
export const byMethod: SyncKeyer<Request> = byMethodOf((request) => request.method)
