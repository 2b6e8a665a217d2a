import type { SyncKeyer } from '../../limiter/keyers.ts'
import { HEADER_NAME, refuse } from '../../util/validate.ts'

/** A route's path as it was declared. */
export type RoutePattern = string | RegExp | readonly (string | RegExp)[]

/** The bucket of requests that no route has claimed: one, since the client chooses the path. */
const NO_ROUTE = 'no route'

/** The key of a route: its methods and its pattern as it was declared. HEAD counts as the GET that answers it. */
export function routeKey(methods: string | readonly string[], pattern: RoutePattern | undefined): string {
  if (pattern === undefined) return NO_ROUTE
  const counted = new Set([methods].flat().map((method) => (method === 'HEAD' ? 'GET' : method)))
  return `${[...counted].join()} ${String(pattern)}`
}

/**
 * Makes an adapter's `byHeader`; `field` reads a field of the request by its lower-case name.
 * Throws `INVALID_OPTION` for a name that is none.
 */
export function headerKeyer<Request>(
  field: (request: Request, name: string) => string | undefined,
  name: string,
): SyncKeyer<Request> {
  // Without types, `keyer: byHeader` would give it the request.
  if (typeof name !== 'string' || !HEADER_NAME.test(name))
    refuse('byHeader', "the name of a field, such as byHeader('x-api-key')", name)
  const lower = name.toLowerCase()
  return function headerKey(request) {
    return field(request, lower)
  }
}
