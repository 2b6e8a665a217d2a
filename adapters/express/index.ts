import type { Application, NextFunction, Request, Response } from 'express'
import type { Decision } from '../../src/limiter/decision.ts'
import { byteLength, denialStatus } from '../../src/http/denial.ts'
import { hasUnreadBody, markAborted, whenClosed } from '../../src/http/response/node.ts'
import { callStarted } from '../../src/http/response/on-denied.ts'
import { onceForEachApp, warnOfLateMount } from '../../src/http/checks.ts'
import { createRequestLimiter } from '../../src/http/request-limiter.ts'
import type { HttpOptions, LimiterSource } from '../../src/http/options.ts'
import type { HttpAdapter } from '../../src/http/adapter.ts'
import { readsRoute, unroutedKey } from '../../src/http/keys/request-keyers.ts'
import { addressOf, isMountedLate, isMountedWithUse, pathsOf, skipUnreadBody } from './keyers.ts'

export { byHeader, byIP, byMethod, byRoute, ipKeyer } from './keyers.ts'
export type { IpKeyerOptions } from '../../src/http/keys/address.ts'

declare global {
  namespace Express {
    interface Request {
      /** The decision of the latest rate limit. */
      rateLimit?: Decision
    }
  }
}

/** The options of {@link rateLimit}: those of `createLimiter` or a `limiter`, and those of the HTTP responses. */
export type RateLimitOptions = LimiterSource<Request> &
  HttpOptions<Request, Response> & {
    /**
     * Answers a denied request instead of the 429. The status 429, `Cache-Control: no-store`, `Retry-After` and the rate-limit
     * headers are already set. It must send a response or call `next`, which undoes the first two. An error that it throws or
     * passes to `next` undoes only the status. Its return value is not sent. If it does neither within ten seconds, the process
     * warning `SLUICE_NOT_ANSWERED` is emitted once.
     */
    readonly onDenied?: OnDenied
  }

/** A middleware for any types of requests and responses, so that the handlers after it keep their types. */
export type RateLimit = <Params, ResBody, ReqBody, Query, Locals extends Record<string, unknown>>(
  request: Request<Params, ResBody, ReqBody, Query, Locals>,
  response: Response<ResBody, Locals>,
  next: NextFunction,
) => void

type OnDenied = (request: Request, response: Response, next: NextFunction, decision: Decision) => unknown

const adapter: HttpAdapter<Request, Response, NextFunction, OnDenied> = {
  getMethod: (request) => request.method,
  getRequestHeader: (request, name) => request.headers[name] as string | undefined,
  getPath: pathsOf,
  getAddress: addressOf,
  getApp: (request) => request.app,
  hasUnreadBody,
  getHeader: (response, name) => response.getHeader(name),
  setHeader: (response, name, value) => void response.setHeader(name, value),
  headersSent: (response) => response.headersSent,
  getStatus: (response) => response.statusCode,
  markAborted,
  sendDenial: (response, status, body) =>
    void response.status(status).setHeader('Content-Length', byteLength(body)).end(body),
  onEnd: (response, listener) => whenClosed(response, listener),
  getDecision: (request) => request.rateLimit,
  setDecision: (request, decision) => void (request.rateLimit = decision),
  callOnDenied: (onDenied, request, response, next, decision) =>
    callStarted(
      { onDenied, response, status: denialStatus(decision), beforeError: () => skipUnreadBody(request) },
      (undo) => {
        const goOn = (...reason: [unknown?]): void => {
          undo(isError(reason[0]))
          ;(next as (...reason: [unknown?]) => void)(...reason)
        }
        return onDenied(request, response, goOn, decision)
      },
    ),
}

/** Express takes `'route'` and `'router'` for the end of a route or router. */
function isError(reason: unknown): boolean {
  return Boolean(reason) && reason !== 'route' && reason !== 'router'
}

/**
 * Creates a middleware for an app, a router or a route, in Express 4 and 5. The decision is on `request.rateLimit`.
 * Throws `SluiceError` for a wrong or unknown option.
 * @example app.use(rateLimit({ keyer: byIP, limits: [perSecond(10), perMinute(100)] }))
 */
export function rateLimit(options: RateLimitOptions): RateLimit {
  const requestLimiter = createRequestLimiter(options, adapter)
  const needsRoute = readsRoute(options.keyer)
  const checkApp = onceForEachApp<Application>((app) => {
    if (isMountedLate(app, limitRate)) warnOfLateMount()
    if (needsRoute && isMountedWithUse(app, limitRate)) unroutedKey(app)
  })
  const limitRate: RateLimit = function limitRate(request, response, next) {
    checkApp(request.app)
    const admitted = requestLimiter.admit(request as unknown as Request, response as Response, next)
    if (admitted === true) next()
    else if (admitted !== false) admitted.then((yes) => void (yes && next()), next)
  }
  return limitRate
}
