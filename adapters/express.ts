import type { NextFunction, Request, RequestHandler, Response } from 'express'
import type { Decision } from '../src/decision.ts'
import { type ClientSurface, clientKeyer, type IpKeyerOptions } from '../src/http/client-key.ts'
import { whenClosed } from '../src/http/ended.ts'
import { createGate } from '../src/http/gate.ts'
import type { Decider, GateOptions } from '../src/http/options.ts'
import type { ProxyTrust } from '../src/http/proxy.ts'
import { headerKeyer, routeKey, type RoutePattern } from '../src/http/route.ts'
import type { Surface } from '../src/http/surface.ts'
import type { SyncKeyer } from '../src/keyers.ts'

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
    /** Answers a denied request instead of the 429; `Retry-After` and the fields are set by then. */
    readonly onDenied?: OnDenied
  }

type OnDenied = (request: Request, response: Response, next: NextFunction, decision: Decision) => unknown

const surface: Surface<Request, Response, NextFunction, OnDenied> = {
  method: (request) => request.method,
  header: (request, name) => request.headers[name] as string | undefined,
  field: (response, name) => response.getHeader(name),
  set: (response, name, value) => void response.setHeader(name, value),
  sent: (response) => response.headersSent,
  status: (response) => response.statusCode,
  send: (response, status, body) => void response.status(status).end(body),
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
export function rateLimit(options: RateLimitOptions): RequestHandler {
  const gate = createGate(options, surface)
  return function limitRate(request, response, next) {
    const admitted = gate.enter(request, response, next)
    if (admitted === true) next()
    else if (admitted !== false) admitted.then((yes) => void (yes && next()), next)
  }
}

const client: ClientSurface<Request> = {
  address: (request) => request.ip,
  forwarded: (request) => request.headers['x-forwarded-for'] !== undefined,
  trust: trustOf,
  app: (request) => request.app,
}

/** Whoever trusts an address that documentation has to itself, further away than any proxy of his own, trusts everybody. */
function trustOf({ app }: Request): ProxyTrust {
  if (!app.get('trust proxy')) return 'nobody'
  const trusts = app.get('trust proxy fn') as (address: string, hops: number) => boolean
  return trusts('203.0.113.1', 99) ? 'everybody' : 'some'
}

/**
 * The client's address as `request.ip` has it, so under the app's `trust proxy`; IPv6 by its prefix.
 * Throws `INVALID_OPTION`, `UNKNOWN_OPTION`.
 */
export function ipKeyer(options?: IpKeyerOptions): SyncKeyer<Request> {
  return clientKeyer(client, options)
}

/** The client's address; IPv6 by its /56. */
export const byIP: SyncKeyer<Request> = ipKeyer()

/** A field of the request, such as an API key. */
export function byHeader(name: string): SyncKeyer<Request> {
  return headerKeyer(surface, name)
}

/** The method. */
export const byMethod: SyncKeyer<Request> = (request) => request.method

/** The pattern of the route, such as `GET /users/:id`, in a route's own middleware; elsewhere one bucket for all. */
export const byRoute: SyncKeyer<Request> = (request) => {
  const { path, methods } = (request.route ?? {}) as { path?: RoutePattern; methods?: Record<string, boolean> }
  return routeKey(methods?.['_all'] === true ? 'ALL' : request.method, path)
}
