import type { Context, Middleware, Next, Response } from 'koa'
import type { Decision } from '../../src/limiter/decision.ts'
import { whenClosed } from '../../src/http/response/node-end.ts'
import { fieldNames } from '../../src/http/headers/write-headers.ts'
import { createGate } from '../../src/http/request-limiter.ts'
import type { Decider, GateOptions } from '../../src/http/options.ts'
import type { Surface } from '../../src/http/adapter.ts'
import { keepFields } from './error-headers.ts'

export { byHeader, byIP, byMethod, byRoute, ipKeyer } from './keyers.ts'
export type { IpKeyerOptions } from '../../src/http/keys/ip-keyer.ts'

declare module 'koa' {
  interface DefaultState {
    /** What the rate limit that was passed last has decided. */
    rateLimit?: Decision
  }
}

/** Options of {@link rateLimit}: those of `createLimiter`, or a `limiter`; and how to answer. A request is Koa's context. */
export type RateLimitOptions = Decider<Context> &
  GateOptions<Context, Response> & {
    /** Answers a denied request instead of the 429: `Retry-After` and the fields are set by then, the status is not. */
    readonly onDenied?: OnDenied
  }

type OnDenied = (context: Context, next: Next, decision: Decision) => unknown

// Straight to Node's response where Koa's own does the same: Koa's looks at every field's name first.
const surface: Surface<Context, Response, Next, OnDenied> = {
  method: (context) => context.req.method,
  header: (context, name) => context.req.headers[name] as string | undefined,
  field: (response, name) => response.res.getHeader(name),
  set: (response, name, value) => void response.res.setHeader(name, value),
  sent: (response) => response.res.headersSent,
  status: (response) => response.res.statusCode,
  send(response, status, body) {
    response.status = status
    response.body = body
  },
  ended: (response, listener) => whenClosed(response.res, listener),
  known: (context) => context.state.rateLimit,
  keep: (context, decision) => void (context.state.rateLimit = decision),
  deny: (onDenied, context, _response, next, decision) => onDenied(context, next, decision),
}

/**
 * A middleware, in Koa 2 and 3. The decision is on `context.state.rateLimit`.
 * Throws `SluiceError` for a wrong or unknown option.
 * @example app.use(rateLimit({ keyer: byIP, limits: [perSecond(10), perMinute(100)] }))
 */
export function rateLimit(options: RateLimitOptions): Middleware {
  const gate = createGate(options, surface)
  const keep = keepFields(fieldNames(options.headers ?? 'standard', options))

  function goOn(context: Context, next: Next): Promise<void> {
    // At once, for whoever comes before the limit may fail, too, and so may a body that is read later.
    keep(context)
    return next()
  }

  return function limitRate(context, next) {
    const onwards = options.onDenied === undefined ? next : () => goOn(context, next)
    const admitted = gate.enter(context, context.response, onwards)
    if (typeof admitted !== 'boolean') return admitted.then((yes) => (yes ? goOn(context, next) : keep(context)))
    return admitted ? goOn(context, next) : keep(context)
  }
}
