import type { Decision } from '../limiter/decision.ts'
import { type Limit, windowText } from '../limits/limit.ts'
import type { LimitStatus } from '../stores/store.ts'
import { longDuration } from '../util/duration.ts'
import { denialPage } from './denial-page.ts'
import { acceptedFormat, type Format } from './headers/accept.ts'
import { distinctNames } from './headers/distinct-names.ts'
import { retryAfter } from './headers/retry-after.ts'
import { shownTogether } from './history.ts'

/** The response to a request that was not admitted. */
export interface Denial {
  /** 429, or the status that was asked for. 503 in an outage. */
  readonly status: number
  /** The headers in the order in which to set them. The rate-limit headers are not among them. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  /** ASCII text. Empty for HEAD. */
  readonly body: string
}

/** The parts of the request that a denial depends on. */
export interface DeniedRequest {
  /** The method of the request. A response to HEAD has no body. Default: `GET`. */
  readonly method?: string | undefined
  /** The `Accept` header of the request, which chooses JSON, a page or text. Default: JSON. */
  readonly accept?: string | undefined
  /** The status of an exceeded quota, 400 to 599. Default 429. */
  readonly statusCode?: number | undefined
}

interface Problem {
  readonly status: number
  readonly type: string
  readonly title: string
  readonly violated: readonly string[] | undefined
  readonly detail: string
  readonly retry: number | undefined
}

const TYPES = 'https://iana.org/assignments/http-problem-types'

const CONTENT_TYPES: Readonly<Record<Format, string>> = {
  json: 'application/problem+json',
  html: 'text/html; charset=utf-8',
  text: 'text/plain; charset=utf-8',
}

/**
 * Returns the response to a request that was not admitted: 429 when a quota is exceeded, 503 when the store did not answer and
 * the limiter is closed then. The body is problem details as JSON. It is a page for a client that prefers HTML, such as a browser,
 * and plain text for a client that accepts no JSON.
 *
 * @example
 * const { status, headers, body } = denial(decision, { method: 'GET', accept: '*\/*' })
 */
export function denial(decision: Decision, { method, accept, statusCode = 429 }: DeniedRequest = {}): Denial {
  const problem = decision.degraded === 'closed' ? outage(decision) : quotaExceeded(decision, statusCode)
  const format = acceptedFormat(accept)
  const headers: (readonly [string, string])[] = [
    ['Cache-Control', 'no-store'],
    ['Vary', 'Accept'],
    ['Content-Type', CONTENT_TYPES[format]],
  ]
  if (problem.retry !== undefined) headers.unshift(['Retry-After', String(problem.retry)])
  return { status: problem.status, headers, body: method === 'HEAD' ? '' : bodyOf(problem, format) }
}

/**
 * Returns a denial as it is sent over a bare socket, such as the socket of a WebSocket upgrade. Close the socket after it.
 * @example socket.end(rawResponse(denial(decision)))
 */
export function rawResponse({ status, headers, body }: Denial): string {
  let head = `HTTP/1.1 ${status} ${REASONS[status] ?? ''}\r\nConnection: close\r\n`
  for (const [name, value] of headers) head += `${name}: ${value}\r\n`
  return `${head}Content-Length: ${byteLength(body)}\r\n\r\n${body}`
}

/** Other statuses have no reason phrase. It is optional, and only people read it. */
const REASONS: Readonly<Record<number, string>> = { 429: 'Too Many Requests', 503: 'Service Unavailable' }

const encoder = new TextEncoder()

/** Returns the `Content-Length` of a text in UTF-8. */
export function byteLength(text: string): number {
  return encoder.encode(text).length
}

/** Returns the status of a denial. */
export function denialStatus({ degraded }: Decision): 429 | 503 {
  return degraded === 'closed' ? 503 : 429
}

function quotaExceeded(decision: Decision, status: number): Problem {
  const retry = retryAfter(decision)
  const nameOf = namesOf(decision)
  const violated = decision.limits.filter(isViolated)
  const allowances = violated.map((each) => allowance(nameOf(each), each.limit)).join(', ')
  return {
    status,
    type: `${TYPES}#quota-exceeded`,
    title: 'Quota Exceeded',
    violated: violated.map(nameOf),
    detail: `Too many requests${allowances && `: ${allowances}`}. ${advice(retry)}`,
    retry,
  }
}

function outage(decision: Decision): Problem {
  const retry = retryAfter(decision)
  const detail = `Requests cannot be counted at the moment, so none are admitted. ${advice(retry)}`
  return {
    status: 503,
    type: `${TYPES}#temporary-reduced-capacity`,
    title: 'Temporary Reduced Capacity',
    violated: undefined,
    detail,
    retry,
  }
}

/** Returns a function from a limit of a denial to its name in the headers, which may also show limits of earlier middlewares. */
function namesOf(decision: Decision): (status: LimitStatus) => string {
  const shown = shownTogether(decision)
  const { limits } = decision.limits.every((status) => shown.limits.includes(status)) ? shown : decision
  const names = distinctNames(limits)
  return (status) => names?.[limits.indexOf(status)] ?? status.limit.name
}

function isViolated({ allowed, limit }: LimitStatus): boolean {
  return !allowed && limit.shadow !== true
}

function bodyOf(problem: Problem, format: Format): string {
  if (format === 'html') return denialPage(problem)
  return format === 'text' ? `${problem.detail}\n` : json(problem)
}

function json({ type, title, status, violated, detail }: Problem): string {
  return JSON.stringify({ type, title, status, 'violated-policies': violated, detail })
}

function allowance(name: string, limit: Limit): string {
  return `"${name}" allows ${limit.quota} per ${windowText(limit)}`
}

function advice(retry: number | undefined): string {
  if (retry === undefined) return 'It asks for more than is ever allowed at once.'
  return `Try again in ${longDuration(retry * 1000)}.`
}
