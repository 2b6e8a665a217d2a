import type { IncomingMessage, ServerResponse } from 'node:http'
import { SluiceError, textOf } from '../util/errors.ts'
import { rareWarning } from '../util/warn.ts'
import type { Keys } from './keys.ts'
import type { Live } from './live.ts'
import type { KeyAnswer } from './state.ts'
import icon from './page/icon.svg?raw'
import html from './page/index.html?raw'
// oxlint-disable-next-line import/default
import script from './page/main.ts?script'
import style from './page/style.css?raw'

/** The files of the page by path: the type and the text of each file. */
export const files: ReadonlyMap<string, { readonly type: string; readonly text: string }> = new Map([
  ['/', { type: 'text/html', text: html }],
  ['/style.css', { type: 'text/css', text: style }],
  ['/icon.svg', { type: 'image/svg+xml', text: icon }],
  ['/main.js', { type: 'text/javascript', text: script }],
])

/** The headers of every response to an authorized visitor. They allow only scripts and styles of the dashboard, and no frames of other pages. */
const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " +
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
  // Without `no-transform`, some middlewares compress a response and delay it.
  'Cache-Control': 'no-store, no-transform',
}

/** Returns a function that is true if `authorize` returns true. For an error of `authorize`, it emits a warning and is false. */
export function authorizer<Request>(
  authorize: (request: Request) => boolean | PromiseLike<boolean>,
): (request: Request) => Promise<boolean> {
  const warnRarely = rareWarning('SLUICE_OUTCOME')
  return async function isAuthorized(request) {
    try {
      const answer: unknown = await authorize(request)
      return answer === true
    } catch (error) {
      warnRarely(() => `authorize of a dashboard failed. ${textOf(error)}`)
      return false
    }
  }
}

/**
 * Returns false if a page of another site made the browser send a request. Browsers send `Sec-Fetch-Site` over HTTPS and to localhost, and
 * `Origin` with a POST. Other programs send neither.
 */
function isSameSite({ headers }: IncomingMessage): boolean {
  const site = headers['sec-fetch-site']
  if (site !== undefined) return site === 'same-origin'
  const { origin, host = headers[':authority'] } = headers
  return origin === undefined || hostOf(origin) === host
}

/** Returns the host of an origin, or `null` if it has none. `null` differs from the missing `Host` header of a request. */
function hostOf(origin: string): string | null {
  return URL.canParse(origin) ? new URL(origin).host : null
}

/** The largest header with a key. Larger ones are refused. */
const LARGEST_HEADER = 8192
/** The longest name of a limiter, and the longest key that a visitor may enter. */
const LONGEST = 1000

/**
 * Returns the limiter and the key of a request, or `undefined` if there are none. They are in a header, not in the body: no body parser of the
 * application can consume them, an access log does not show them, and a page of another site cannot send this header.
 */
function keyOf({ headers }: IncomingMessage): { readonly limiter: string; readonly key: string } | undefined {
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

/** Returns the path below a base path, without the query. Returns `undefined` for a URL outside the base path. */
export function pathBelow(basePath: string, url = ''): string | undefined {
  const [path = ''] = url.split('?', 1)
  if (!path.startsWith(`${basePath}/`) && path !== basePath) return undefined
  return path.slice(basePath.length)
}

/** Answers a visitor that is not authorized. The answer is the same for every path and method. */
export function refuseVisitor(response: ServerResponse, challenge: string | undefined): void {
  const asked = challenge === undefined ? {} : { 'WWW-Authenticate': challenge }
  response.writeHead(401, { ...asked, 'Cache-Control': 'no-store', 'Content-Length': '0' })
  response.end()
}

/** Answers authorized visitors: the files of the page, its state, and the two requests about a key. */
export async function answerVisitor(
  live: Live,
  keys: Keys,
  request: IncomingMessage,
  response: ServerResponse,
  path: string | undefined,
): Promise<void> {
  if (path === undefined) return send(response, 404)
  if (path === '' || (path === '/' && !originalPath(request).endsWith('/'))) return redirect(request, response)
  // The files are the same for everybody. Browsers send `Origin` for a script, and a proxy may have changed `Host`.
  if (!files.has(path) && !isSameSite(request)) return send(response, 403, 'A page of another site sent this request.')
  if (path === '/look-up') return answerKey(request, response, (limiter, key) => keys.lookUp(limiter, key))
  if (path === '/reset') return answerKey(request, response, (limiter, key) => keys.reset(limiter, key))
  if (request.method !== 'GET' && request.method !== 'HEAD') return notAllowed(response, 'GET, HEAD')
  if (path === '/state') return send(response, 200, await live.state(), 'application/json')
  const file = files.get(path)
  if (file === undefined) send(response, 404)
  else send(response, 200, file.text, file.type)
}

async function answerKey(
  request: IncomingMessage,
  response: ServerResponse,
  answerOf: (limiter: string, key: string) => Promise<KeyAnswer>,
): Promise<void> {
  if (request.method !== 'POST') return notAllowed(response, 'POST')
  const named = keyOf(request)
  if (named === undefined) return sendAnswer(response, 400, { problem: 'The request names no limiter and key.' })
  try {
    sendAnswer(response, 200, await answerOf(named.limiter, named.key))
  } catch (error) {
    const code = error instanceof SluiceError ? error.code : 'an error'
    sendAnswer(response, 502, { problem: `The store did not answer as expected (${code}).` })
  }
}

/** Returns the whole path. Frameworks remove the path of the dashboard from `url`, and keep the whole URL in `originalUrl`. */
function originalPath(request: IncomingMessage): string {
  const { originalUrl = request.url ?? '' } = request as { originalUrl?: string; url?: string }
  return originalUrl.split('?', 1)[0]!
}

/** Redirects to the path with a slash at the end, because the page names its files relative to itself. `Location` is relative, for proxies that change paths. */
function redirect(request: IncomingMessage, response: ServerResponse): void {
  const last = originalPath(request).split('/').at(-1)!
  response.writeHead(302, { ...SECURITY_HEADERS, Location: `./${last}/`, 'Content-Length': '0' })
  response.end()
}

function notAllowed(response: ServerResponse, allowed: string): void {
  response.setHeader('Allow', allowed)
  send(response, 405)
}

function sendAnswer(response: ServerResponse, status: number, answer: KeyAnswer): void {
  send(response, status, JSON.stringify(answer), 'application/json')
}

/** Sends an answer. Node leaves the body out in an answer to HEAD. */
export function send(response: ServerResponse, status: number, text = '', type = 'text/plain'): void {
  const length = String(Buffer.byteLength(text))
  const headers = { 'Content-Type': `${type}; charset=utf-8`, 'Content-Length': length }
  response.writeHead(status, { ...SECURITY_HEADERS, ...headers })
  response.end(text)
}
