import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { Application } from 'express'
import { withChecks } from '../../src/http/checking.ts'

/** An entry of a router of Express 4 or 5. */
export interface Layer {
  readonly route?: { readonly stack: readonly Layer[] } | undefined
  /** The middleware. That of a router has its entries. */
  readonly handle: ((...given: never[]) => unknown) & { readonly stack?: readonly Layer[] }
}

/** Returns the entries of an app, in order. */
export function stackOf(app: Application): readonly Layer[] {
  // In Express 4 reading `router` throws.
  const own = app as unknown as { readonly _router?: Router; readonly router: Router }
  const { _router: router = own.router } = own
  return router.stack
}

interface Router {
  readonly stack: readonly Layer[]
}

function hasRoutes({ route, handle }: Layer): boolean {
  return route !== undefined || handle.stack?.some(hasRoutes) === true
}

function isErrorHandler({ handle }: Layer): boolean {
  return handle.length === 4
}

/** The middlewares that are checked, until a warning was written for them. */
const watched = new WeakSet<object>()

/** Warns of each middleware of an app that is mounted after all routes: these have answered before it is called. Throws for an app that was made by hand. */
export function checkMounts(app: Application): void {
  for (const [middleware, isLate] of placesIn(stackOf(app))) {
    if (!isLate) continue
    watched.delete(middleware)
    withChecks(true, (checks) => checks.warnOfLateMount())
  }
}

/** Returns the watched middlewares, and whether the first place of each is the last one of its app or router, after routes. */
function placesIn(stack: readonly Layer[], places = new Map<object, boolean>()): Map<object, boolean> {
  // Routers can contain each other.
  places.set(stack, false)
  for (const [i, { handle, route }] of stack.entries()) {
    for (const layer of route?.stack ?? []) if (!places.has(layer.handle)) places.set(layer.handle, false)
    if (watched.has(handle) && !places.has(handle))
      places.set(handle, stack.slice(0, i).some(hasRoutes) && stack.slice(i + 1).every(isErrorHandler))
    if (handle.stack !== undefined && !places.has(handle.stack)) placesIn(handle.stack, places)
  }
  return places
}

/** The channel of Node on which each response is published that was sent completely. */
const CHANNEL = 'http.server.response.finish'
/** So many responses are watched after a middleware was created. Each takes less than a microsecond. */
const WATCHED_RESPONSES = 1000

let responsesLeft = 0
/** The apps that a route has responded for. */
const checkedApps = new WeakSet<Application>()

/**
 * Checks where a middleware is mounted once a route of its app has responded: a middleware after all routes is not called then. It would
 * only notice a request that no route responds to.
 */
export function watchMounts(middleware: object): void {
  watched.add(middleware)
  if (responsesLeft === 0) subscribe(CHANNEL, checkResponse)
  responsesLeft = WATCHED_RESPONSES
}

function checkResponse(message: unknown): void {
  if (--responsesLeft === 0) unsubscribe(CHANNEL, checkResponse)
  try {
    const { app, route } = (message as { readonly request: { readonly app: Application; readonly route?: unknown } })
      .request
    if (route !== undefined) checkApps(app)
  } catch {
    // The request is none of Express, or its app was made by hand. An error of a subscriber would end the process.
  }
}

/** Checks the middlewares of an app, and of the apps that it is mounted in. */
function checkApps(app: Application): void {
  if (checkedApps.has(app)) return
  checkedApps.add(app)
  checkMounts(app)
  const { parent } = app as { readonly parent?: Application }
  if (parent !== undefined) checkApps(parent)
}
