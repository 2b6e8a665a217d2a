import type { Application } from 'express'
import { routeKey, type RoutePattern } from '../../src/http/keys/request-keyers.ts'

/** A route as Express 4 and 5 know it. */
export interface Route {
  readonly path: RoutePattern
  readonly methods: Readonly<Record<string, boolean>>
}

interface Router {
  readonly stack: readonly { readonly route?: unknown; readonly handle: Partial<Router> }[]
}

const keys = new WeakMap<Application, WeakMap<Route, string>>()

/**
 * The key of an app's route: all its methods together, for of those the client may choose any, its pattern as it was
 * declared, and which router it is in, such as `GET /:id of router 2`, for a router does not know where it is mounted.
 */
export function keyOfRoute(app: Application, route: Route): string {
  const known = keys.get(app) ?? new WeakMap<Route, string>()
  keys.set(app, known)
  const key = known.get(route) ?? [describe(route), whereabouts(app, route)].filter(Boolean).join(' of ')
  known.set(route, key)
  return key
}

function describe({ methods, path }: Route): string {
  return routeKey(
    Object.keys(methods).map((method) => method.toUpperCase()),
    path,
  )
}

/** Nothing in a route of the app itself. A router that a function calls, in place of `use`, is not to be found. */
function whereabouts(app: Application, route: Route): string {
  // Express 4 throws at the sight of `router`.
  const own = app as unknown as { readonly _router?: Router; readonly router: Router }
  const { _router: router = own.router } = own
  const place = placeOf(route, router.stack, new Set()) ?? 'out of sight'
  return [app.path(), place && `router ${place}`].filter(Boolean).join(', ')
}

/** The numbers of the routers that lead to a route, such as `2.1`: the same in each process of a program. */
function placeOf(route: Route, stack: Router['stack'], seen: Set<Router['stack']>): string | undefined {
  if (stack.some((layer) => layer.route === route)) return ''
  seen.add(stack)
  const within = stack.flatMap(({ handle }) => (Array.isArray(handle.stack) ? [handle.stack] : []))
  for (const [index, inner] of within.entries()) {
    const place = seen.has(inner) ? undefined : placeOf(route, inner, seen)
    if (place !== undefined) return `${index + 1}${place && `.${place}`}`
  }
  return undefined
}
