import type { Decision } from '../limiter/decision.ts'
import type { Limit } from '../limits/limit.ts'
import { longDuration, shortDuration } from '../util/duration.ts'
import type { LimitStatus } from '../stores/store.ts'
import { prefersText } from './headers/accept.ts'
import { retryAfter } from './headers/retry-after.ts'

/** A refusal, ready to be sent. */
export interface Denial {
  readonly status: 429 | 503
  /** In the order in which to set them; the fields of the limits are not among them. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  /** Empty for HEAD. ASCII. */
  readonly body: string
}

/** What a refusal needs to know of the request. */
export interface Refused {
  readonly method?: string | undefined
  readonly accept?: string | undefined
}

interface Problem {
  readonly status: 429 | 503
  readonly type: string
  readonly title: string
  readonly violated: readonly string[] | undefined
  readonly detail: string
  readonly retry: number | undefined
}

const TYPES = 'https://iana.org/assignments/http-problem-types'

/**
 * What to answer to a request that was not admitted: 429 for a quota exceeded, 503 when the store could not answer and the
 * limiter is closed then. Problem details as JSON, or plain text for a client that takes no JSON.
 *
 * @example
 * const { status, headers, body } = denial(decision, { method: 'GET', accept: '*\/*' })
 */
export function denial(decision: Decision, { method, accept }: Refused = {}): Denial {
  const problem = decision.degraded === 'closed' ? outage(decision) : exceeded(decision)
  const text = prefersText(accept)
  const headers: (readonly [string, string])[] = [
    ['Cache-Control', 'no-store'],
    ['Content-Type', text ? 'text/plain; charset=utf-8' : 'application/problem+json'],
  ]
  if (problem.retry !== undefined) headers.unshift(['Retry-After', String(problem.retry)])
  return {
    status: problem.status,
    headers,
    body: method === 'HEAD' ? '' : text ? `${problem.detail}\n` : json(problem),
  }
}

/**
 * A refusal as it goes over a bare socket, such as one that asked to become a WebSocket. Close the socket after it.
 * @example socket.end(rawResponse(denial(decision)))
 */
export function rawResponse({ status, headers, body }: Denial): string {
  const reason = status === 429 ? 'Too Many Requests' : 'Service Unavailable'
  let head = `HTTP/1.1 ${status} ${reason}\r\nConnection: close\r\n`
  for (const [name, value] of headers) head += `${name}: ${value}\r\n`
  return `${head}Content-Length: ${body.length}\r\n\r\n${body}`
}

function exceeded(decision: Decision): Problem {
  const retry = retryAfter(decision)
  const violated = decision.limits.filter(isViolated)
  const allowances = violated.map(({ limit }) => allowance(limit)).join(', ')
  return {
    status: 429,
    type: `${TYPES}#quota-exceeded`,
    title: 'Quota Exceeded',
    violated: [...new Set(violated.map(({ limit }) => limit.name))],
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

function isViolated({ allowed, limit }: LimitStatus): boolean {
  return !allowed && limit.shadow !== true
}

function json({ type, title, status, violated, detail }: Problem): string {
  return JSON.stringify({ type, title, status, 'violated-policies': violated, detail })
}

function allowance({ name, quota, window }: Limit): string {
  return `"${name}" allows ${quota} per ${shortDuration(window)}`
}

function advice(retry: number | undefined): string {
  if (retry === undefined) return 'It asks for more than is ever allowed at once.'
  return `Try again in ${longDuration(retry * 1000)}.`
}
