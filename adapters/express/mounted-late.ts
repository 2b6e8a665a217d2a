import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { Application } from 'express'
import { withChecks } from '../../src/http/checking.ts'

/** An entry of a router of Express 4 or 5. */
export interface Layer {
  readonly route?: Route | undefined
  /** The middleware. If it is a router, `stack` has its entries. */
  readonly handle: ((...given: never[]) => unknown) & { readonly stack?: readonly Layer[] }
}

interface Route {
  /** An entry of `all` has no method. */
  readonly stack: readonly (Layer & { readonly method?: string | undefined })[]
}

/** Returns the entries of an app, in order. */
export function stackOf(app: Application): readonly Layer[] {
  // In Express 4, reading `router` throws.
  const own = app as unknown as { readonly _router?: Router; readonly router: Router }
  const { _router: router = own.router } = own
  return router.stack
}

interface Router {
  readonly stack: readonly Layer[]
}

/** Returns true for a route, and for what contains routes: a router, and a mounted app, whose routes cannot be seen. */
function hasRoutes(layer: Layer): boolean {
  if (layer.route !== undefined || layer.handle.stack?.some(hasRoutes) === true) return true
  return (middlewareOf(layer) as { readonly name?: string }).name === 'mounted_app'
}

function isErrorHandler({ handle }: Layer): boolean {
  return handle.length === 4
}

/**
 * Returns the middleware of an entry. A tracer, such as OpenTelemetry, puts its own function in its place, with `__original`. express-async-errors does, too, and
 * copies the properties of the middleware.
 */
export function middlewareOf({ handle }: Layer): object {
  const { __original: original = handle } = handle as { readonly __original?: object }
  return original
}

/** The middlewares that are checked. A middleware with a warning is removed. */
const watched = new WeakSet<object>()

/** Warns about each middleware of an app that is mounted after all routes, because the routes answer before it is called. May throw for an app of a test. */
export function checkMounts(app: Application): void {
  for (const [middleware, isLate] of placesIn(stackOf(app))) {
    if (!isLate) continue
    watched.delete(middleware)
    withChecks(true, (checks) => checks.warnOfLateMount())
  }
}

/** Returns the watched middlewares. The value is true if the first place of a middleware is after routes, at the end of its app or router. */
function placesIn(stack: readonly Layer[], places = new Map<object, boolean>()): Map<object, boolean> {
  // Routers can contain each other.
  places.set(stack, false)
  for (const [i, layer] of stack.entries()) {
    const { handle, route } = layer
    const middleware = middlewareOf(layer)
    for (const each of route?.stack ?? []) if (!places.has(middlewareOf(each))) places.set(middlewareOf(each), false)
    if (watched.has(middleware) && !places.has(middleware))
      places.set(middleware, stack.slice(0, i).some(hasRoutes) && stack.slice(i + 1).every(isErrorHandler))
    if (handle.stack !== undefined && !places.has(handle.stack)) placesIn(handle.stack, places)
  }
  return places
}

/** The channel of Node for responses that were sent completely. */
const CHANNEL = 'http.server.response.finish'
/** How many responses are watched after a middleware was created. A response takes less than a microsecond. */
const WATCHED_RESPONSES = 1000

let responsesLeft = 0
/** The apps whose middlewares were checked after a response of a route. */
const checkedApps = new WeakSet<Application>()

/**
 * Checks where a middleware is mounted when a route of its app has responded. A middleware after all routes cannot check this itself, because it is only
 * called for requests without a response.
 */
export function watchMounts(middleware: object): void {
  watched.add(Object.assign(middleware, { __original: middleware }))
  if (responsesLeft === 0) subscribe(CHANNEL, checkResponse)
  responsesLeft = WATCHED_RESPONSES
}

interface Exchange {
  readonly request: { readonly app: Application; readonly method: string; readonly route?: Route }
  readonly response: { readonly statusCode: number }
}

function checkResponse(message: unknown): void {
  if (--responsesLeft === 0) unsubscribe(CHANNEL, checkResponse)
  try {
    const { request, response } = message as Exchange
    if (request.route !== undefined) checkApps(request.app)
    if (request.route !== undefined && response.statusCode < 300) checkRoute(request.route, request.method)
  } catch {
    // The request does not belong to Express, or its app is one of a test. An error in a subscriber would end the process.
  }
}

/** Warns about a middleware at the end of a route that has responded: a handler before it has responded, because the middleware would have left the route. */
function checkRoute({ stack }: Route, method: string): void {
  const handlers = stack.filter((each) => each.method === undefined || each.method === method.toLowerCase())
  const last = handlers.findLast((each) => !isErrorHandler(each))
  if (handlers.length < 2 || !watched.delete(middlewareOf(last!))) return
  withChecks(true, (checks) => checks.warnOfLateMount())
}

/** Checks the middlewares of an app, and of the apps in which it is mounted. */
function checkApps(app: Application): void {
  if (checkedApps.has(app)) return
  checkedApps.add(app)
  checkMounts(app)
  const { parent } = app as { readonly parent?: Application }
  if (parent !== undefined) checkApps(parent)
}
