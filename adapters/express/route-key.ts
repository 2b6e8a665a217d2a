import type { Application } from 'express'
import { type Layer, stackOf } from './stack.ts'
import { routeKey, type RoutePattern } from '../../src/http/keys/request-keyers.ts'

/** A route of Express 4 or 5. */
export interface Route {
  readonly path: RoutePattern
  readonly methods: Readonly<Record<string, boolean>>
}

const keys = new WeakMap<Application, WeakMap<Route, string>>()

/**
 * Returns the key of a route, such as `GET /:id of router 2`: all its methods, since the client can choose any of them; its
 * pattern as it was declared; and the number of its router, since a router does not know the path it is mounted at.
 */
export function keyOfRoute(app: Application, route: Route): string {
  const known = keys.get(app) ?? new WeakMap<Route, string>()
  keys.set(app, known)
  const key = known.get(route) ?? [methodsAndPattern(route), placeIn(app, route)].filter(Boolean).join(' of ')
  known.set(route, key)
  return key
}

function methodsAndPattern({ methods, path }: Route): string {
  return routeKey(
    Object.keys(methods).map((method) => method.toUpperCase()),
    path,
  )
}

/** Returns `''` for a route of the app itself. A router that was not mounted with `use` cannot be found. */
function placeIn(app: Application, route: Route): string {
  const place = routerNumbers(route, stackOf(app), new Set()) ?? 'out of sight'
  return [app.path(), place && `router ${place}`].filter(Boolean).join(', ')
}

/** Returns the numbers of the routers that lead to a route, such as `2.1`. They are the same in each process of a program. */
function routerNumbers(route: Route, stack: readonly Layer[], seen: Set<readonly Layer[]>): string | undefined {
  if (stack.some((layer) => (layer.route as unknown) === route)) return ''
  seen.add(stack)
  const within = stack.flatMap(({ handle }) => (handle.stack === undefined ? [] : [handle.stack]))
  for (const [index, inner] of within.entries()) {
    const place = seen.has(inner) ? undefined : routerNumbers(route, inner, seen)
    if (place !== undefined) return `${index + 1}${place && `.${place}`}`
  }
  return undefined
}
