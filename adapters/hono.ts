import type { Context, MiddlewareHandler, Next } from 'hono'
import type { Decision } from '../src/decision.ts'
import { Ending } from '../src/http/ending.ts'
import { createGate } from '../src/http/gate.ts'
import { type Decider, type GateOptions, validateGate } from '../src/http/options.ts'
import { mergeRetryAfter, retryAfter } from '../src/http/retry-after.ts'
import type { Surface } from '../src/http/surface.ts'
import { chain, type MaybePromise } from '../src/maybe-promise.ts'
import { refuse } from '../src/validate.ts'

export { byHeader, byIP, byMethod, byRoute, ipKeyer, type IpKeyerOptions } from './hono-keyers.ts'

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
     * Answers a denied request instead of the 429; `Retry-After` and the fields are set by then, and of its own `Retry-After`
     * a larger one stays. It returns a response, or has called `next`.
     */
    readonly onDenied?: OnDenied
  }

type OnDenied = (context: Context, next: Next, decision: Decision) => MaybePromise<Response | void>

const endings = new WeakMap<Context, Ending>()

// On `context.res`, whose fields Hono adds to whatever response a handler returns; `context.header` would reach only some.
const surface: Surface<Context, Context, Next, OnDenied> = {
  method: (context) => context.req.method,
  header: (context, name) => context.req.header(name),
  field: (context, name) => context.res.headers.get(name) ?? undefined,
  set: (context, name, value) => context.res.headers.set(name, value),
  sent: (context) => endings.get(context)?.answer !== undefined,
  status: (context) => answerTo(context).status,
  send: (context, status, body) => void (context.res = context.newResponse(body, status as 429)),
  ended: (context, listener) => endingOf(context).listen(listener),
  known: (context) => context.get('rateLimit'),
  keep: (context, decision) => context.set('rateLimit', decision),
  deny: (onDenied, context, _response, next, decision) =>
    chain(onDenied(context, next, decision), (answer) => {
      if (context.finalized) return
      // Hono would take an empty 200 for the answer.
      const denial = answer ?? refuse('onDenied', 'a function that returns a Response or calls next', answer)
      setRetryAfter(context, denial, decision)
      context.res = denial
    }),
}

/** On `context.res`: what stands there comes before what the denial says by itself, which may ask for more. */
function setRetryAfter(context: Context, denial: Response, decision: Decision): void {
  const set = [context.res, denial].map(({ headers }) => headers.get('Retry-After'))
  const seconds = mergeRetryAfter(set, retryAfter(decision), Date.now())
  if (seconds !== undefined) context.res.headers.set('Retry-After', String(seconds))
}

/**
 * A middleware for an app, a path or a route, in Hono 4. The decision is at `context.get('rateLimit')`. A fault of a keyer or
 * of the store reaches the app's `onError`.
 * Throws `SluiceError` for a wrong or unknown option.
 * @example app.use(rateLimit({ keyer: byIP, limits: [perSecond(10), perMinute(100)] }))
 */
export function rateLimit(options: RateLimitOptions): MiddlewareHandler {
  validateGate(options)
  const gate = createGate(withAnswers(options), surface)
  return async function limitRate(context, next) {
    const admitted = await gate.enter(context, context, next)
    if (!admitted) return context.finalized ? undefined : abandoned()
    try {
      await next()
    } catch (error) {
      // Hono's error handling takes no more than an Error; the runtime will answer so.
      endings.get(context)?.deliver(new Response(null, { status: 500 }))
      throw error
    }
    return undefined
  }
}

/** The client has hung up while it was held: nobody reads this. */
function abandoned(): Response {
  return new Response(null, { status: 499 })
}

/** How the response to a request ends; one for all limits that it passes. */
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
  const hono = Object.getPrototypeOf(context) as Context
  function set(response: Response | undefined): void {
    ending.withdraw()
    Reflect.set(hono, 'res', response, context)
  }
  function get(): Response {
    const response = Reflect.get(hono, 'res', context) as Response
    if (!context.finalized || response === ending.answer) return response
    const answer = ending.deliver(response)
    if (answer === response) return response
    // First none, or Hono would make it anew, with the fields of the one before.
    Reflect.set(hono, 'res', undefined, context)
    Reflect.set(hono, 'res', answer, context)
    return answer
  }
  Object.defineProperty(context, 'res', { get, set })
}

function answerTo(context: Context): Response {
  return endings.get(context)!.answer!
}

/** To the gate a response is a context, to its user what came of it. */
function withAnswers({
  refundWhen,
  settleWith,
  ...others
}: RateLimitOptions): Decider<Context> & GateOptions<Context, Context> & { onDenied?: OnDenied } {
  return {
    ...others,
    ...(refundWhen !== undefined && {
      refundWhen: typeof refundWhen === 'string' ? refundWhen : (context) => refundWhen(context, answerTo(context)),
    }),
    ...(settleWith !== undefined && { settleWith: (context) => settleWith(context, answerTo(context)) }),
  }
}
