import type { SyncKeyer } from '../keyers.ts'

/** A route's path as it was declared. */
export type RoutePattern = string | RegExp | readonly (string | RegExp)[]

/** The bucket of requests that no route has claimed: one, since the client chooses the path. */
const NO_ROUTE = 'no route'

/** The key of a route: its pattern as it was declared. HEAD counts as the GET that answers it. */
export function routeKey(method: string, pattern: RoutePattern | undefined): string {
  if (pattern === undefined) return NO_ROUTE
  return `${method === 'HEAD' ? 'GET' : method} ${String(pattern)}`
}

/** Makes an adapter's `byHeader`; `field` reads a field of the request by its lower-case name. */
export function headerKeyer<Request>(
  field: (request: Request, name: string) => string | undefined,
  name: string,
): SyncKeyer<Request> {
  const lower = name.toLowerCase()
  return function headerKey(request) {
    return field(request, lower)
  }
}
