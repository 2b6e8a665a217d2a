import { type Decision, waitsForSlots } from '../limiter/decision.ts'
import { countsSlots, findCompiled, type Limit, windowText } from '../engine/limit.ts'
import { isCharge, type LimitStatus } from '../stores/store.ts'
import { durationText, numberText, roundedDuration } from '../util/duration.ts'
import { distinctNames } from './headers/names.ts'
import { onceForEach } from './headers/values.ts'
import { retryAfter } from './headers/retry-after.ts'
import { type HeaderOptions, unitOf } from './headers/options.ts'
import { shownTogether } from './headers/stacked.ts'

export type Format = 'json' | 'html' | 'text'

/**
 * Returns the format of a denial for an `Accept` header. HTML is for clients that accept it and do not name JSON, such as browsers. Plain text is for clients
 * that accept it but no JSON. All others get JSON. Weights are not read: a client that names both gets JSON.
 */
export function acceptedFormat(accept = ''): Format {
  if (/json/i.test(accept)) return 'json'
  if (/text\/html/i.test(accept)) return 'html'
  const acceptsText = /text\/(?:plain|\*)/i.test(accept)
  return acceptsText && !/(?:application|\*)\/\*/i.test(accept) ? 'text' : 'json'
}

/** The response to a request that was not admitted. */
export interface Denial {
  /** 429, or the given `statusCode`. 503 in an outage. */
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
  /** The unit of limits, as in the options of the headers. Default: requests, or units for a request whose cost is not 1. */
  readonly unit?: HeaderOptions['unit'] | undefined
}

interface Problem {
  readonly status: number
  readonly type: string
  readonly title: string
  /** The heading of the page. `title` is the registered title of the type. */
  readonly heading: string
  readonly violated: readonly string[] | undefined
  readonly detail: string
}

const TYPES = 'https://iana.org/assignments/http-problem-types'

const CONTENT_TYPES: Readonly<Record<Format, string>> = {
  json: 'application/problem+json',
  html: 'text/html; charset=utf-8',
  text: 'text/plain; charset=utf-8',
}

/**
 * Returns the response to a request that was not admitted: 429 when a quota is exceeded, 503 when the store did not answer and
 * the limiter is closed then. The body is problem details as JSON, a page for a browser, or plain text for a client that accepts no JSON.
 *
 * @example
 * const { status, headers, body } = denial(decision, { method: 'GET', accept: '*\/*' })
 */
export function denial(decision: Decision, request: DeniedRequest = {}): Denial {
  const { method, accept, statusCode = 429, unit } = request
  const retry = retryAfter(decision)
  const problem = decision.degraded === 'closed' ? outage(retry) : quotaExceeded(decision, statusCode, unit, retry)
  const format = acceptedFormat(accept)
  const headers: (readonly [string, string])[] = [
    ['Cache-Control', 'no-store'],
    ['Vary', 'Accept'],
    ['Content-Type', CONTENT_TYPES[format]],
  ]
  if (retry !== undefined) headers.unshift(['Retry-After', String(retry)])
  return { status: problem.status, headers, body: method === 'HEAD' ? '' : bodyOf(problem, format) }
}

/**
 * Returns a denial as text for a bare socket, such as the socket of a WebSocket upgrade. Close the socket after you have sent it.
 * @example socket.end(rawResponse(denial(decision)))
 */
export function rawResponse({ status, headers, body }: Denial): string {
  let head = `HTTP/1.1 ${status} ${REASONS[status] ?? ''}\r\nConnection: close\r\n`
  for (const [name, value] of headers) head += `${name}: ${value}\r\n`
  return `${head}Content-Length: ${byteLength(body)}\r\n\r\n${body}`
}

/** Reason phrases. Other statuses have none, because it is optional and only people read it. */
const REASONS: Readonly<Record<number, string>> = { 429: 'Too Many Requests', 503: 'Service Unavailable' }

const encoder = new TextEncoder()

export function byteLength(text: string): number {
  return encoder.encode(text).length
}

export function denialStatus({ degraded }: Decision): 429 | 503 {
  return degraded === 'closed' ? 503 : 429
}

function quotaExceeded(
  decision: Decision,
  status: number,
  unit: HeaderOptions['unit'],
  retry: number | undefined,
): Problem {
  const nameOf = namesOf(decision)
  const violated = decision.limits.filter(isViolated)
  const counted = violated.map((each) => {
    const { limit, cost, retryAfter: wait } = each
    return { limit, cost, retryAfter: wait, counts: countedBy(each, nameOf(each), unit) }
  })
  return {
    status,
    type: `${TYPES}#quota-exceeded`,
    title: 'Quota Exceeded',
    heading: 'Too many requests',
    violated: violated.map(nameOf),
    detail:
      retry === undefined
        ? neverAdmitted(counted)
        : `${reasonOf(violated, counted)} ${violated.length > 0 && violated.every(waitsForSlots) ? 'Try again later.' : advice(retry)}`,
  }
}

function outage(retry: number | undefined): Problem {
  return {
    status: 503,
    type: `${TYPES}#temporary-reduced-capacity`,
    title: 'Temporary Reduced Capacity',
    heading: 'Service unavailable',
    violated: undefined,
    detail: `The service is temporarily unavailable.${retry === undefined ? '' : ` ${advice(retry)}`}`,
  }
}

/** Returns a function from a limit of a denial to its name in the headers. The headers may also show limits of earlier middlewares. */
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
  if (format === 'html') return page(problem)
  const { type, title, status, violated, detail } = problem
  if (format === 'text') return `${detail}\n`
  return JSON.stringify({ type, title, status, 'violated-policies': violated, detail })
}

/** Returns a denial as a page. It has no script, style or link, so every `Content-Security-Policy` allows it. */
function page({ status, heading, detail }: Problem): string {
  return (
    '<!doctype html><html lang="en"><head><meta charset="utf-8">' +
    '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">' +
    `<title>${status} ${heading}</title></head><body><main><h1>${heading}</h1><p>${escaped(detail)}</p></main></body></html>\n`
  )
}

/** Escapes a text for HTML: the name of a unit may contain any ASCII character. */
function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}

/** A violated limit, and its unit in the plural. */
interface Counted extends Pick<LimitStatus, 'limit' | 'cost' | 'retryAfter'> {
  readonly counts: string
}

/** The unit of uploads in the draft of the headers. */
const BYTES = 'content-bytes'

function countedBy({ limit, cost }: LimitStatus, name: string, unit: HeaderOptions['unit']): string {
  if (countsSlots(limit)) return cost > 1 ? 'slots' : 'requests'
  const given = unitOf(name, unit) ?? (cost > 1 ? 'units' : 'requests')
  return given === BYTES ? 'bytes' : given
}

/** Returns a sentence that says what is allowed, for the person who has sent the request. */
function reasonOf(violated: readonly LimitStatus[], counted: readonly Counted[]): string {
  if (violated.some((each) => isCharge(each) && each.lockedFor > 0)) return 'Too many attempts.'
  if (counted.length === 0) return 'You have sent too many requests.'
  const [needs, other] = counted.filter(({ cost }) => cost > 1)
  const needed = needs === undefined || other !== undefined ? '' : `, and this request needs ${numberText(needs.cost)}`
  return `You can ${listed(allowances(counted))}${needed}.`
}

/** Returns the allowances without duplicates. A verb is before the first one, and before each one that needs another verb. */
function allowances(counted: readonly Counted[]): readonly string[] {
  let verb = ''
  return [...new Map(counted.map((each) => [allowance(each), each]))].map(([text, { limit, counts }]) => {
    const before = verb
    verb = counts !== 'requests' ? 'use' : countsSlots(limit) ? 'run' : 'send'
    return verb === before ? text : `${verb} ${text}`
  })
}

/** Returns a text for a limit and its unit, such as `3 requests per minute (at most 10 at once)`. */
function allowance({ limit, counts }: Counted): string {
  const units = limit.quota === 1 ? `one ${counts.replace(/s$/, '')}` : `${numberText(limit.quota)} ${counts}`
  return `${units} ${rateText(limit)}`
}

const rateText = onceForEach((limit) => {
  if (countsSlots(limit)) return limit.quota === 1 ? 'at a time' : 'at the same time'
  const capacity = capacityOf(limit)
  const window = durationText(windowText(limit))
  const time = window.startsWith('1 ') ? `per ${window.slice(2)}` : `every ${window}`
  return capacity === limit.quota ? time : `${time} (at most ${numberText(capacity)} at once)`
})

function capacityOf(limit: Limit): number {
  return findCompiled(limit)?.capacity ?? limit.quota
}

function listed(parts: readonly string[]): string {
  return parts.length < 2 ? parts.join() : `${parts.slice(0, -1).join(', ')} and ${parts.at(-1)}`
}

/** Returns a sentence that says why a request is never admitted. */
function neverAdmitted(counted: readonly Counted[]): string {
  const never = counted.find(({ cost, limit, retryAfter: wait }) => wait === Infinity && cost > capacityOf(limit))
  const capacity = never === undefined ? 0 : capacityOf(never.limit)
  if (never === undefined || capacity === 0) return 'This request is not allowed.'
  const needed = `${numberText(never.cost)} ${never.counts}`
  return `This request needs ${needed}, but at most ${numberText(capacity)} can be used at once. Send a smaller request.`
}

function advice(retry: number): string {
  return `Try again in ${roundedDuration(retry)}.`
}
