import type { NextFunction, Request, Response } from 'express'
import type { Decision } from '../../src/limiter/decision.ts'
import { whenClosed } from '../../src/http/response/node-end.ts'
import { createGate } from '../../src/http/request-limiter.ts'
import type { Decider, GateOptions } from '../../src/http/options.ts'
import type { Surface } from '../../src/http/adapter.ts'

export { byHeader, byIP, byMethod, byRoute, ipKeyer } from './keyers.ts'
export type { IpKeyerOptions } from '../../src/http/keys/ip-keyer.ts'

declare global {
  namespace Express {
    interface Request {
      /** What the rate limit that was passed last has decided. */
      rateLimit?: Decision
    }
  }
}

/** Options of {@link rateLimit}: those of `createLimiter`, or a `limiter`; and how to answer. */
export type RateLimitOptions = Decider<Request> &
  GateOptions<Request, Response> & {
    /**
     * Answers a denied request instead of the 429: `Retry-After` and the fields are set by then, the status is not. It has to
     * answer, or call `next`; what it returns is not sent.
     */
    readonly onDenied?: OnDenied
  }

/** A middleware that takes whatever requests and responses a route has, so that the handlers after it keep their types. */
export type RateLimit = <Params, ResBody, ReqBody, Query, Locals extends Record<string, unknown>>(
  request: Request<Params, ResBody, ReqBody, Query, Locals>,
  response: Response<ResBody, Locals>,
  next: NextFunction,
) => void

type OnDenied = (request: Request, response: Response, next: NextFunction, decision: Decision) => unknown

const surface: Surface<Request, Response, NextFunction, OnDenied> = {
  method: (request) => request.method,
  header: (request, name) => request.headers[name] as string | undefined,
  field: (response, name) => response.getHeader(name),
  set: (response, name, value) => void response.setHeader(name, value),
  sent: (response) => response.headersSent,
  status: (response) => response.statusCode,
  send: (response, status, body) => void response.status(status).setHeader('Content-Length', body.length).end(body),
  ended: (response, listener) => whenClosed(response, listener),
  known: (request) => request.rateLimit,
  keep: (request, decision) => void (request.rateLimit = decision),
  deny: (onDenied, request, response, next, decision) => onDenied(request, response, next, decision),
}

/**
 * A middleware for an app, a router or a route, in Express 4 and 5. The decision is on `request.rateLimit`.
 * Throws `SluiceError` for a wrong or unknown option.
 * @example app.use(rateLimit({ keyer: byIP, limits: [perSecond(10), perMinute(100)] }))
 */
export function rateLimit(options: RateLimitOptions): RateLimit {
  const gate = createGate(options, surface)
  return function limitRate(request, response, next) {
    const admitted = gate.enter(request as unknown as Request, response as Response, next)
    if (admitted === true) next()
    else if (admitted !== false) admitted.then((yes) => void (yes && next()), next)
  }
}
