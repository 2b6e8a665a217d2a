import type { Context, Env, MiddlewareHandler, Next } from 'hono'
import type { HttpAdapter } from '../../src/http/adapter.ts'
import { denialStatus } from '../../src/http/denial.ts'
import { headerConfig } from '../../src/http/headers/styles.ts'
import { type HttpOptions, type LimiterSource, validateHttpOptions } from '../../src/http/options.ts'
import { exposedAfter } from '../../src/http/passes.ts'
import { createRequestLimiter } from '../../src/http/request-limiter.ts'
import { hasUnreadBody, whenClosed } from '../../src/http/response/node.ts'
import { type Undo, undoneByError } from '../../src/http/response/on-denied.ts'
import { warnIfPending } from '../../src/http/checks.ts'
import { clientGone, denialFrom, lateHeaders, optionsForDrafts } from '../../src/http/response/web.ts'
import type { Decision } from '../../src/limiter/decision.ts'
import { chain, type MaybePromise } from '../../src/util/maybe-promise.ts'
import { addressOf, appOf } from './keyers.ts'
import { bindingsOf, getResponse, knownEndOf, responseEndOf, sentResponseOf } from './response-end.ts'

export { byHeader, byIP, byMethod, byRoute, ipKeyer, type IpKeyerOptions, routeKeyer } from './keyers.ts'

declare module 'hono' {
  interface ContextVariableMap {
    /** The decision of the latest rate limit. */
    rateLimit: Decision | undefined
  }
}

/** The environment of a `Context` without a type argument, in which every name has the type `any`. */
type AnyEnv = Context extends Context<infer E> ? E : never

/**
 * The options of {@link rateLimit}: those of `createLimiter` or a `limiter`, and those of the HTTP responses. A request is the
 * context of Hono. `E` is the environment of the app, as in `new Hono<E>()`.
 */
export type RateLimitOptions<E extends Env = AnyEnv> = LimiterSource<Context<E>> &
  HttpOptions<Context<E>, Response> & {
    /**
     * Answers a denied request instead of the 429: it returns a response, or calls `next`. `context.json` and the like start
     * with status 429. `Cache-Control: no-store`, `Retry-After` and the rate-limit headers are added to the response. A larger
     * `Retry-After` of that response stays. `next` undoes the status and `Cache-Control`, and an error that it throws undoes the status. If its promise is pending for ten seconds, the process
     * warning `SLUICE_NOT_ANSWERED` is emitted once.
     */
    readonly onDenied?: OnDenied<E>
  }

type OnDenied<E extends Env = AnyEnv> = (
  context: Context<E>,
  next: Next,
  decision: Decision,
) => MaybePromise<Response | void>

/** The headers that all rate limits of a request have set before there is a response. */
const drafts = new WeakMap<Context, Headers>()

function draftOf(context: Context): Headers {
  const draft = drafts.get(context) ?? new Headers()
  drafts.set(context, draft)
  return draft
}

/** Does not read `context.res`: that creates a response whose headers replace those of the handler. */
function headerOf(context: Context, name: string): string | undefined {
  return context.newResponse(null, 200).headers.get(name) ?? undefined
}

const adapter: HttpAdapter<Context, Context, Next, OnDenied> = {
  getMethod: (context) => context.req.method,
  getRequestHeader: (context, name) => context.req.header(name),
  // The router matches `path`, which the option `getPath` of the app can change.
  getPath: ({ req: { path, url } }) => [path, url],
  getAddress: addressOf,
  getApp: appOf,
  hasUnreadBody(context) {
    const { incoming } = bindingsOf(context)
    return incoming?.httpVersionMajor !== undefined && hasUnreadBody(incoming)
  },
  getHeader: headerOf,
  setHeader(context, name, value) {
    draftOf(context).set(name, value)
    context.header(name, value)
  },
  removeHeader(context, name) {
    draftOf(context).delete(name)
    context.header(name, undefined)
  },
  headersSent: (context) => bindingsOf(context).outgoing?.headersSent ?? knownEndOf(context)?.response !== undefined,
  getStatus: (context) => sentResponseOf(context)!.status,
  sendDenial(context, status, body) {
    context.res = context.newResponse(body, status as 429)
    // These belong to this body, and not to one that replaces it.
    for (const name of ['Content-Type', 'Cache-Control', 'Vary']) draftOf(context).delete(name)
  },
  onEnd(context, listener) {
    const { outgoing } = bindingsOf(context)
    return outgoing === undefined ? responseEndOf(context).listen(listener) : whenClosed(outgoing, listener)
  },
  getDecision: (context) => context.get('rateLimit'),
  setDecision: (context, decision) => context.set('rateLimit', decision),
  callOnDenied(onDenied, context, _response, next, decision) {
    const undo = startDenial(context, denialStatus(decision))
    let hasGoneOn = false
    function goOn(): Promise<void> {
      hasGoneOn = true
      undo()
      return next()
    }
    const answered = undoneByError(
      () => void (hasGoneOn || undo(true)),
      () => warnIfPending(context, onDenied, onDenied(context, goOn, decision), () => hasGoneOn),
    )
    return chain(answered, (answer) => {
      // Hono takes an empty 200 for a response.
      if (context.finalized) return
      const denial = denialFrom(answer, 'a function that returns a Response or calls next')
      // After something has read `context.res`, as `cors` does, Hono would use them instead of the headers of the denial.
      for (const name of draftOf(context).keys()) context.header(name)
      context.res = denial
    })
  },
}

/** Sets the status and `Cache-Control` of a denial. Returns a function that undoes this. */
function startDenial(context: Context, status: number): Undo {
  const { status: before } = context.newResponse(null)
  const cacheControl = headerOf(context, 'Cache-Control')
  context.status(status as 429)
  adapter.setHeader(context, 'Cache-Control', 'no-store')
  return function undo(isError) {
    context.status(before as 200)
    if (isError === true) return
    draftOf(context).delete('Cache-Control')
    context.header('Cache-Control', cacheControl)
  }
}

/**
 * Creates a middleware for an app, a path or a route, in Hono 4. The decision is at `context.get('rateLimit')`. A header that the
 * handler sets on its response does not change, unless another middleware has read `context.res` before, as `cors` does: then Hono
 * uses the header of the limit. An error of a keyer or of the store goes to the `onError` of the app.
 * Throws `SluiceError` for a wrong or unknown option.
 * @example app.use(rateLimit({ keyer: byIP, limits: [perSecond(10), perMinute(100)] }))
 * @example
 * interface Env {
 *   Variables: { user: { id: string } }
 * }
 * const app = new Hono<Env>()
 * app.use(rateLimit<Env>({ keyer: (context) => context.get('user').id, limits: perMinute(100) }))
 */
export function rateLimit<E extends Env = AnyEnv>(options: RateLimitOptions<E>): MiddlewareHandler {
  validateHttpOptions(options)
  const requestLimiter = createRequestLimiter(optionsForDrafts(options, sentResponseOf), adapter)
  const config = headerConfig(options)

  return async function limitRate(context, next) {
    const admitted = await requestLimiter.admit(context, context, next)
    if (!admitted && !context.finalized) return clientGone()
    try {
      if (admitted) await next()
    } catch (error) {
      // Hono answers an Error. For any other value it leaves the answer to the runtime.
      if (!(error instanceof Error)) knownEndOf(context)?.deliver(new Response(null, { status: 500 }))
      throw error
    }
    addHeaders(context, () => exposedAfter(config, adapter.getDecision(context)))
    return undefined
  }
}

/** Adds the draft to the response. A response that Hono did not create itself does not have these headers. */
function addHeaders(context: Context, exposed: () => readonly string[]): void {
  const draft = drafts.get(context)
  if (draft === undefined || !context.finalized) return
  const { status, headers } = getResponse(context)
  // A protocol switch cannot be copied.
  if (status < 200) return
  for (const [name, value] of lateHeaders(headers, draft, exposed)) context.header(name, value)
}
