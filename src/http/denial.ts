import type { Decision } from '../limiter/decision.ts'
import type { Limit } from '../limits/limit.ts'
import type { LimitStatus } from '../stores/store.ts'
import { longDuration, shortDuration } from '../util/duration.ts'
import { isPromise, type MaybePromise } from '../util/maybe-promise.ts'
import type { HttpAdapter } from './adapter.ts'
import { prefersText } from './headers/accept.ts'
import { distinctNames } from './headers/distinct-names.ts'
import { mergeRetryAfter, retryAfter } from './headers/retry-after.ts'
import { shownTogether } from './history.ts'

/** The response to a request that was not admitted. */
export interface Denial {
  readonly status: 429 | 503
  /** The headers in the order in which to set them. The rate-limit headers are not among them. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  /** ASCII text. Empty for HEAD. */
  readonly body: string
}

/** The parts of the request that a denial depends on. */
export interface DeniedRequest {
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
 * Returns the response to a request that was not admitted: 429 when a quota is exceeded, 503 when the store did not answer and
 * the limiter is closed then. The body is problem details as JSON, or plain text for a client that accepts no JSON.
 *
 * @example
 * const { status, headers, body } = denial(decision, { method: 'GET', accept: '*\/*' })
 */
export function denial(decision: Decision, { method, accept }: DeniedRequest = {}): Denial {
  const problem = decision.degraded === 'closed' ? outage(decision) : quotaExceeded(decision)
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
 * Returns a denial as it is sent over a bare socket, such as the socket of a WebSocket upgrade. Close the socket after it.
 * @example socket.end(rawResponse(denial(decision)))
 */
export function rawResponse({ status, headers, body }: Denial): string {
  const reason = status === 429 ? 'Too Many Requests' : 'Service Unavailable'
  let head = `HTTP/1.1 ${status} ${reason}\r\nConnection: close\r\n`
  for (const [name, value] of headers) head += `${name}: ${value}\r\n`
  return `${head}Content-Length: ${body.length}\r\n\r\n${body}`
}

/** Returns the status of a denial. */
export function denialStatus({ degraded }: Decision): Denial['status'] {
  return degraded === 'closed' ? 503 : 429
}

/** Answers a denied request. Always returns false, as `admit` does for a denied request. */
export type DenialResponder<Request, Response, Next> = (
  decision: Decision,
  request: Request,
  response: Response,
  next: Next,
) => MaybePromise<boolean>

/** Creates the responder of a request limiter: the `onDenied` of its user with `Retry-After` already set, or problem details. */
export function denialResponder<Request, Response, Next, OnDenied>(
  onDenied: OnDenied | undefined,
  adapter: HttpAdapter<Request, Response, Next, OnDenied>,
): DenialResponder<Request, Response, Next> {
  /** Keeps a larger `Retry-After` of the application. */
  function setRetryAfter(decision: Decision, response: Response): void {
    const seconds = mergeRetryAfter(adapter.getHeader(response, 'Retry-After'), retryAfter(decision), Date.now())
    if (seconds !== undefined) adapter.setHeader(response, 'Retry-After', String(seconds))
  }

  /** Otherwise a client could send a body of any size for each denial. */
  function stopReading(request: Request, response: Response): void {
    if (adapter.hasUnreadBody?.(request)) adapter.setHeader(response, 'Connection', 'close')
  }

  if (onDenied === undefined) {
    return function sendProblem(decision, request, response) {
      stopReading(request, response)
      // Without the method: a response to HEAD has the headers of the whole body, which the framework then omits.
      const { status, headers, body } = denial(decision, { accept: adapter.getRequestHeader(request, 'accept') })
      for (const [name, value] of headers) if (name !== 'Retry-After') adapter.setHeader(response, name, value)
      setRetryAfter(decision, response)
      adapter.sendDenial(response, status, body)
      return false
    }
  }
  return function callOnDenied(decision, request, response, next) {
    stopReading(request, response)
    setRetryAfter(decision, response)
    const answer = adapter.callOnDenied(onDenied, request, response, next, decision)
    return isPromise(answer) ? Promise.resolve(answer).then(() => false) : false
  }
}

function quotaExceeded(decision: Decision): Problem {
  const retry = retryAfter(decision)
  const nameOf = namesOf(decision)
  const violated = decision.limits.filter(isViolated)
  const allowances = violated.map((status) => allowance(nameOf(status), status.limit)).join(', ')
  return {
    status: 429,
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

function json({ type, title, status, violated, detail }: Problem): string {
  return JSON.stringify({ type, title, status, 'violated-policies': violated, detail })
}

function allowance(name: string, { quota, window }: Limit): string {
  return `"${name}" allows ${quota} per ${shortDuration(window)}`
}

function advice(retry: number | undefined): string {
  if (retry === undefined) return 'It asks for more than is ever allowed at once.'
  return `Try again in ${longDuration(retry * 1000)}.`
}
