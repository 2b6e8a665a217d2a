import type { IncomingMessage } from 'node:http'
import { textOf } from '../util/errors.ts'
import { warn } from '../util/warn.ts'

/** Milliseconds between two warnings, at least. */
const WARN_EVERY = 60_000

/** Sent with every response to an authorized visitor. Scripts and styles come from the dashboard alone, and no other page can frame it. */
export const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " +
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
  // Some middlewares compress and hold back what may be transformed.
  'Cache-Control': 'no-store, no-transform',
}

/** Returns a function that is true for a request that `authorize` returns true for. An error means no, and is a warning. */
export function authorizer<Request>(
  authorize: (request: Request) => boolean | PromiseLike<boolean>,
): (request: Request) => Promise<boolean> {
  let nextWarning = -Infinity
  return async function isAuthorized(request) {
    try {
      const answer: unknown = await authorize(request)
      return answer === true
    } catch (error) {
      const now = performance.now()
      if (now >= nextWarning) warn('SLUICE_OUTCOME', `authorize of a dashboard failed. ${textOf(error)}`)
      nextWarning = Math.max(nextWarning, now + WARN_EVERY)
      return false
    }
  }
}

/**
 * True unless a page of another site made the browser send a request. Browsers send `Sec-Fetch-Site` over HTTPS and to localhost, and
 * `Origin` with a POST. Programs send neither.
 */
export function isSameSite({ headers }: IncomingMessage): boolean {
  const site = headers['sec-fetch-site']
  if (site !== undefined) return site === 'same-origin'
  const { origin, host = headers[':authority'] } = headers
  return origin === undefined || hostOf(origin) === host
}

/** Returns `null` for an origin without a host, which is not the same as a request without one. */
function hostOf(origin: string): string | null {
  return URL.canParse(origin) ? new URL(origin).host : null
}

/** Larger headers with a key are refused. */
const LARGEST_HEADER = 8192
/** No limiter has a longer name, and longer keys are not typed. */
const LONGEST = 1000

/**
 * Returns the limiter and the key of a request, or `undefined` if it names none. They are a header and not a body: no parser of the
 * application can take them away, an access log does not show them, and a page of another site cannot send the header.
 */
export function keyOf({ headers }: IncomingMessage): { readonly limiter: string; readonly key: string } | undefined {
  const given = headers['x-sluice-key']
  if (typeof given !== 'string' || given.length > LARGEST_HEADER) return undefined
  try {
    const { limiter, key } = Object(JSON.parse(decodeURIComponent(given))) as Record<string, unknown>
    return isText(limiter) && isText(key) ? { limiter, key } : undefined
  } catch {
    return undefined
  }
}

function isText(given: unknown): given is string {
  return typeof given === 'string' && given.length <= LONGEST
}
