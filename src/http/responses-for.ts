import type { Decision } from '../limiter/decision.ts'
import { SluiceError } from '../util/errors.ts'
import { knownOptions } from '../util/validate.ts'
import { type Denial, denial, type DeniedRequest } from './denial.ts'
import type { HeaderOptions } from './headers/options.ts'
import { timeOf } from './passes.ts'
import { headerConfig } from './headers/styles.ts'
import { validateStatus } from './message.ts'

const HEADER_OPTIONS = ['headers', 'headerNames', 'unit', 'partitionKey']

/** Headers by name. */
export type HeaderRecord = Readonly<Record<string, string>>

/** The response to a request that was not admitted, as plain data. */
export interface ProblemResponse {
  /** 429, the `statusCode` that was asked for, or 503. */
  readonly status: Denial['status']
  /** The rate-limit headers, `Retry-After`, `Cache-Control`, `Vary` and `Content-Type`. */
  readonly headers: HeaderRecord
  /** Problem details as JSON, a page for a client that prefers HTML, or text for one that accepts no JSON. Empty for HEAD. */
  readonly body: string
}

/** The options of {@link problemFor}: those of the headers, the method and the `Accept` header of the request, and `statusCode`. */
export type ProblemOptions = HeaderOptions & DeniedRequest

/**
 * Returns the rate-limit headers of a decision, for code that decides by itself, such as a middleware of tRPC. The default style is
 * `'standard'`. Returns no headers for `headers: false`, and when the store did not answer. Throws `INVALID_OPTION`,
 * `UNKNOWN_OPTION`.
 * @example
 * const decision = await limiter.consume(user)
 * for (const [name, value] of Object.entries(headersFor(decision))) response.setHeader(name, value)
 */
export function headersFor(decision: Decision, options: HeaderOptions = {}): HeaderRecord {
  knownOptions('headersFor', options, HEADER_OPTIONS)
  return recordOf(decision, options)
}

/**
 * Returns the response to a denied request: status 429, or 503 when the store did not answer and the limiter is closed then, the
 * headers and the body that every adapter sends. Throws `INVALID_OPTION` for the decision of an admitted request, and
 * `INVALID_OPTION` or `UNKNOWN_OPTION` for wrong options.
 * @example
 * const decision = await limiter.consume(user)
 * if (!decision.allowed) {
 *   const { status, headers, body } = problemFor(decision)
 *   return new Response(body, { status, headers })
 * }
 */
export function problemFor(decision: Decision, options: ProblemOptions = {}): ProblemResponse {
  knownOptions('problemFor', options, [...HEADER_OPTIONS, 'method', 'accept', 'statusCode'])
  validateStatus(options.statusCode)
  if (decision.allowed)
    throw new SluiceError(
      'INVALID_OPTION',
      'problemFor: expected the decision of a denied request, got the decision of an admitted request',
    )
  const { status, headers, body } = denial(decision, options)
  return { status, headers: { ...recordOf(decision, options), ...Object.fromEntries(headers) }, body }
}

function recordOf(decision: Decision, options: HeaderOptions): HeaderRecord {
  const record: Record<string, string> = {}
  headerConfig(options).write(decision, timeOf(decision), (name, value) => void (record[name] = value))
  return record
}
