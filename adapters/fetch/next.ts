// Next.js answers some requests without their handler. A limit has no effect there, and would not show it.
import { SluiceError } from '../../src/util/errors.ts'

/** Headers of the responses of `proxy.ts` with which Next.js calls the route. */
const CONTINUED = ['x-middleware-next', 'x-middleware-rewrite']

/**
 * Makes Next.js call a handler for each request: to a handler that reads nothing of its request, it sends one response to all clients. Throws
 * `NOT_APPLICABLE` in a build, if the response is for all clients nevertheless.
 */
export function refuseStatic(request: Request): void {
  // Requests of most other runtimes have no such property. Next.js notes or throws when it is read.
  const { cookies } = request as { readonly cookies?: unknown }
  if (cookies === undefined || !isNextBuild()) return
  throw new SluiceError(
    'NOT_APPLICABLE',
    'rateLimit: Next.js calls this handler in the build, and sends its response to all clients, so nobody would be limited. Remove ' +
      "`dynamic = 'force-static'`, or limit the path in proxy.ts (middleware.ts).",
  )
}

function isNextBuild(): boolean {
  const { process } = globalThis as { readonly process?: { readonly env?: Readonly<Record<string, string>> } }
  return process?.env?.['NEXT_PHASE'] === 'phase-production-build'
}

/** Throws `NOT_APPLICABLE` if Next.js calls the route after a response. The limit must not depend on the end of the response, or on what it says. */
export function refuseContinued({ headers }: Response): void {
  if (!CONTINUED.some((name) => headers.has(name))) return
  throw new SluiceError(
    'NOT_APPLICABLE',
    'rateLimit: proxy.ts (middleware.ts) of Next.js ends before the route answers, so `concurrent`, `count`, `refundWhen`, `resetWhen` and ' +
      '`settleWith` have no effect there. Limit the route handler instead.',
  )
}
