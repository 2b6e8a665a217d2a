import type { Context, MiddlewareHandler, Next } from 'hono'
import type { Decision } from '../src/decision.ts'
import { Ending } from '../src/http/ending.ts'
import { createGate } from '../src/http/gate.ts'
import { type Decider, type GateOptions, validateGate } from '../src/http/options.ts'
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
     * Answers a denied request instead of the 429; `Retry-After` and the fields are set by then. It returns a response, or
     * has called `next`.
     */
    readonly onDenied?: OnDenied
  }

type OnDenied = (context: Context, next: Next, decision: Decision) => MaybePromise<Response | void>

/** A response that is not there yet. */
interface Draft {
  readonly context: Context
  readonly ending: Ending
  denial: Response | undefined
}

// On `context.res`, whose fields Hono adds to whatever response a handler returns; `context.header` would reach only some.
const surface: Surface<Context, Draft, Next, OnDenied> = {
  method: (context) => context.req.method,
  header: (context, name) => context.req.header(name),
  field: ({ context }, name) => context.res.headers.get(name) ?? undefined,
  set: ({ context }, name, value) => context.res.headers.set(name, value),
  sent: ({ ending }) => ending.answer !== undefined,
  status: ({ ending }) => ending.answer!.status,
  send: (draft, status, body) => void (draft.denial = draft.context.newResponse(body, status as 429)),
  ended: ({ ending }, listener) => ending.listen(listener),
  known: (context) => context.get('rateLimit'),
  keep: (context, decision) => context.set('rateLimit', decision),
  deny: (onDenied, context, draft, next, decision) =>
    chain(onDenied(context, next, decision), (answer) => {
      // Hono would take an empty 200 for the answer.
      if (!answer && !context.finalized) refuse('onDenied', 'a function that returns a Response or calls next', answer)
      draft.denial = answer ?? context.res
    }),
}

/**
 * A middleware for an app, a path or a route, in Hono 4. The decision is at `context.get('rateLimit')`. A fault of a keyer or
 * of the store reaches the app's `onError`.
 * Throws `SluiceError` for a wrong or unknown option.
 * @example app.use(rateLimit({ keyer: byIP, limits: [perSecond(10), perMinute(100)] }))
 */
export function rateLimit(options: RateLimitOptions): MiddlewareHandler {
  validateGate(options)
  const gate = createGate(forDrafts(options), surface)
  return async function limitRate(context, next) {
    const ending = new Ending(context.req.raw)
    const draft: Draft = { context, ending, denial: undefined }
    const admitted = await gate.enter(context, draft, next)
    if (!admitted) return draft.denial ?? abandoned()
    await next()
    const answer = ending.deliver(context.res)
    if (answer === context.res) return undefined
    // First none, for Hono adds the fields of the one before.
    context.res = undefined
    context.res = answer
    return undefined
  }
}

/** The client has hung up while it was held: nobody reads this. */
function abandoned(): Response {
  return new Response(null, { status: 499 })
}

/** To the gate a response is a draft, to its user what came of it. */
function forDrafts(
  options: RateLimitOptions,
): Decider<Context> & GateOptions<Context, Draft> & { onDenied?: OnDenied } {
  const { refundWhen, settleWith, ...others } = options
  return {
    ...others,
    ...(refundWhen !== undefined && {
      refundWhen:
        typeof refundWhen === 'string' ? refundWhen : (context, { ending }) => refundWhen(context, ending.answer!),
    }),
    ...(settleWith !== undefined && { settleWith: (context, { ending }) => settleWith(context, ending.answer!) }),
  }
}
