import { define, type SyncKeyer } from '../../limiter/keyers.ts'
import { HEADER_NAME, needsCall, refuse, refuseOwnCall } from '../../util/validate.ts'

/** The path of a route, as it was declared. */
export type RoutePattern = string | RegExp | readonly (string | RegExp)[]

/** The key of all requests without a route. They share one bucket, because the client chooses the path. */
export const NO_ROUTE = 'no route'

/**
 * Returns the key of a route: its methods, and its pattern as it was declared. HEAD counts as GET.
 * @example routeKey(['GET', 'HEAD'], '/users/:id') // 'GET /users/:id'
 */
export function routeKey(methods: string | readonly string[], pattern: RoutePattern | undefined): string {
  if (pattern === undefined) return NO_ROUTE
  const counted = new Set([methods].flat().map((method) => (method === 'HEAD' ? 'GET' : method)))
  return `${[...counted].join()} ${String(pattern)}`
}

/** The methods that Node accepts in HTTP/1. */
const METHODS =
  /^(?:ACL|BIND|CHECKOUT|CONNECT|COPY|DELETE|GET|HEAD|LINK|LOCK|M-SEARCH|MERGE|MKACTIVITY|MKCALENDAR|MKCOL|MOVE|NOTIFY|OPTIONS|PATCH|POST|PROPFIND|PROPPATCH|PURGE|PUT|QUERY|REBIND|REPORT|SEARCH|SOURCE|SUBSCRIBE|TRACE|UNBIND|UNLINK|UNLOCK|UNSUBSCRIBE)$/

/**
 * Returns the key of a method. Letter case makes no difference. All unknown methods share one key: in HTTP/2, a client can use any text as a method, and
 * would get a new limit with each.
 */
export function methodKey(method: string | undefined): string | undefined {
  const name = method?.toUpperCase()
  return name === undefined || name === '' || METHODS.test(name) ? name : 'other'
}

/**
 * Creates the `byHeader` of an adapter. `getHeader` returns a header of the request by its lower-case name.
 * Throws `INVALID_OPTION` for a text that is not the name of a header.
 * @example const byHeader = (name: string) => headerKeyer((request: IncomingMessage, header) => request.headers[header] as string, name)
 */
export function headerKeyer<Request>(
  getHeader: (request: Request, name: string) => string | undefined,
  name: string,
): SyncKeyer<Request> {
  // Without types, `keyer: byHeader` would pass the request here.
  if (typeof name !== 'string' || !HEADER_NAME.test(name))
    refuse('byHeader', "the name of a header, such as byHeader('x-api-key')", name)
  const lowerCaseName = name.toLowerCase()
  return define('byHeader', [lowerCaseName], function byHeader(request: Request) {
    return getHeader(request, lowerCaseName)
  })
}

/** Returns the `byHeader` of an adapter, which keyer options refuse if it is not called. */
export function byHeaderOf<Request>(
  getHeader: (request: Request, name: string) => string | undefined,
): (name: string) => SyncKeyer<Request> {
  return needsCall(function byHeader(name: string) {
    return headerKeyer(getHeader, name)
  }, "byHeader('x-api-key')")
}

/** The `getRequestHeader` of an adapter whose requests have the headers of Node. */
export function nodeHeader({ headers }: { readonly headers: object }, name: string): string | undefined {
  return (headers as Readonly<Record<string, string | undefined>>)[name]
}

/** Returns the `byMethod` of an adapter. */
export function byMethodOf<Request>(getMethod: (request: Request) => string | undefined): SyncKeyer<Request> {
  return function byMethod(request) {
    refuseOwnCall('byMethod', request)
    return methodKey(getMethod(request))
  }
}
