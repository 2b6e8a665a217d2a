import type { Context, MiddlewareHandler, Next } from 'hono'
import type { Decision } from '../../src/limiter/decision.ts'
import { whenClosed } from '../../src/http/response/node-end.ts'
import { Ending } from '../../src/http/response/web-end.ts'
import { fieldNames } from '../../src/http/headers/write-headers.ts'
import { createGate } from '../../src/http/request-limiter.ts'
import { type Decider, type GateOptions, validateGate } from '../../src/http/options.ts'
import type { Surface } from '../../src/http/adapter.ts'
import { abandoned, denialFrom, forDrafts, lateFields } from '../../src/http/response/web-response.ts'
import { chain, type MaybePromise } from '../../src/util/maybe-promise.ts'
import { bindingsOf } from './node.ts'

export { byHeader, byIP, byMethod, byRoute, ipKeyer, type IpKeyerOptions } from './keyers.ts'

declare module 'hono' {
  interface ContextVariableMap {
    /** What the rate limit that was passed last has decided. */
    rateLimit: Decision | undefined
  }
}

/** Options of {@link rateLimit}: those of `createLimiter`, or a `limiter`; and how to answer. A request is Hono's context. */
export type RateLimitOptions = Decider<Context> &
  GateOptions<Context, Response> & {
    /**
     * Answers a denied request instead of the 429; `Retry-After` and the fields are added to the response that it returns,
     * where a larger `Retry-After` stays. Or it has called `next`.
     */
    readonly onDenied?: OnDenied
  }

type OnDenied = (context: Context, next: Next, decision: Decision) => MaybePromise<Response | void>

/** What has been said of the response to a request before there was one, by all limits that it passes. */
const drafts = new WeakMap<Context, Headers>()
const endings = new WeakMap<Context, Ending>()

const surface: Surface<Context, Context, Next, OnDenied> = {
  method: (context) => context.req.method,
  header: (context, name) => context.req.header(name),
  // Not by `context.res`: Hono would take that for a response whose fields come before those of the handler's.
  field: (context, name) => context.newResponse(null, 200).headers.get(name) ?? undefined,
  set(context, name, value) {
    draftOf(context).set(name, value)
    context.header(name, value)
  },
  sent: (context) => bindingsOf(context).outgoing?.headersSent ?? endings.get(context)?.answer !== undefined,
  status: (context) => answerTo(context).status,
  send(context, status, body) {
    context.res = context.newResponse(body, status as 429)
    // Of this body alone, not of one that comes in its place.
    for (const name of ['Content-Type', 'Cache-Control']) draftOf(context).delete(name)
  },
  ended(context, listener) {
    const { outgoing } = bindingsOf(context)
    return outgoing === undefined ? endingOf(context).listen(listener) : whenClosed(outgoing, listener)
  },
  known: (context) => context.get('rateLimit'),
  keep: (context, decision) => context.set('rateLimit', decision),
  deny: (onDenied, context, _response, next, decision) =>
    chain(onDenied(context, next, decision), (answer) => {
      // Hono would take an empty 200 for the answer.
      if (context.finalized) return
      const denial = denialFrom(answer, 'a function that returns a Response or calls next')
      // Where something has looked at `context.res`, as `cors` does, Hono would put them in place of the answer's own.
      for (const name of draftOf(context).keys()) context.header(name)
      context.res = denial
    }),
}

/** Marks what a handler returns that has answered by `context.env.outgoing` itself. */
const ALREADY_SENT = 'x-hono-already-sent'

function draftOf(context: Context): Headers {
  const draft = drafts.get(context) ?? new Headers()
  drafts.set(context, draft)
  return draft
}

/**
 * A middleware for an app, a path or a route, in Hono 4. The decision is at `context.get('rateLimit')`. A field that a
 * response of the handler's has itself stays, unless something has looked at `context.res` before, as `cors` does: then Hono
 * puts ours in its place. A fault of a keyer or of the store reaches the app's `onError`.
 * Throws `SluiceError` for a wrong or unknown option.
 * @example app.use(rateLimit({ keyer: byIP, limits: [perSecond(10), perMinute(100)] }))
 */
export function rateLimit(options: RateLimitOptions): MiddlewareHandler {
  validateGate(options)
  const gate = createGate(forDrafts(options, answerTo), surface)
  const exposed = ['Retry-After', ...fieldNames(options.headers ?? 'standard', options)]

  /** A response that Hono has not made itself lacks what was said before. */
  function addFields(context: Context): void {
    const draft = drafts.get(context)
    if (draft === undefined || !context.finalized) return
    const { status, headers } = responseOf(context)
    // A switch of protocols cannot be made anew.
    if (status < 200) return
    for (const [name, value] of lateFields(headers, draft, exposed)) context.header(name, value)
  }

  return async function limitRate(context, next) {
    const admitted = await gate.enter(context, context, next)
    if (!admitted && !context.finalized) return abandoned()
    try {
      if (admitted) await next()
    } catch (error) {
      // Hono answers an Error. With another one it leaves the runtime to answer.
      if (!(error instanceof Error)) endings.get(context)?.deliver(new Response(null, { status: 500 }))
      throw error
    }
    addFields(context)
    return undefined
  }
}

/** How the response to a request ends where Node does not tell; one for all limits that the request passes. */
function endingOf(context: Context): Ending {
  const known = endings.get(context)
  if (known !== undefined) return known
  const ending = new Ending(context.req.raw)
  endings.set(context, ending)
  deliverFrom(context, ending)
  return ending
}

/** Delivers `context.res` whenever it is looked at: the last who does is Hono, when no middleware can replace it any more. */
function deliverFrom(context: Context, ending: Ending): void {
  // Another version of this package may do the same.
  const before = Object.getOwnPropertyDescriptor(context, 'res')
  function set(response: Response): void {
    ending.withdraw()
    if (before === undefined) putResponse(context, response)
    else before.set!.call(context, response)
  }
  function get(): Response {
    const response = before === undefined ? responseOf(context) : (before.get!.call(context) as Response)
    if (!context.finalized || response === ending.answer) return response
    const answer = ending.deliver(response)
    if (answer === response) return response
    // First none, or Hono would make it anew, with the fields of the one before.
    putResponse(context, undefined)
    putResponse(context, answer)
    return answer
  }
  Object.defineProperty(context, 'res', { get, set, configurable: true })
}

/** `context.res`, without delivering it. */
function responseOf(context: Context): Response {
  return Reflect.get(Object.getPrototypeOf(context) as Context, 'res', context) as Response
}

function putResponse(context: Context, response: Response | undefined): void {
  Reflect.set(Object.getPrototypeOf(context) as Context, 'res', response, context)
}

function answerTo(context: Context): Response {
  const { outgoing } = bindingsOf(context)
  if (outgoing === undefined) return endings.get(context)!.answer!
  // Where nobody has handled an error but Hono, its answer does not come by `context.res`.
  const { statusCode: status } = outgoing
  const known = context.finalized && context.res.status === status && !context.res.headers.has(ALREADY_SENT)
  return known ? context.res : new Response(null, { status, headers: outgoing.getHeaders() as Record<string, string> })
}
