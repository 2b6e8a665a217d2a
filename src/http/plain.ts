import type { Decision } from '../limiter/decision.ts'
import { type Denial, denial, type DeniedRequest } from './denial.ts'
import { RETRY_AFTER_MS, retryAfterMs } from './headers/retry-after.ts'
import { timeOf } from './headers/stacked.ts'
import { isAnswered } from './headers/standard.ts'
import { hasMilliseconds, type HeaderConfig } from './headers/styles.ts'

// Headers and denials as plain data, for code without a framework.

/** Headers by name. */
export type HeaderRecord = Readonly<Record<string, string>>

/** The response to a request that was not admitted, as plain data. */
export interface ProblemResponse {
  /** 429, the given `statusCode`, or 503. */
  readonly status: Denial['status']
  /**
   * The rate-limit headers, `Retry-After`, `Cache-Control`, `Vary` and `Content-Type`. With the styles `'openai'` and `'anthropic'` also
   * `retry-after-ms`.
   */
  readonly headers: HeaderRecord
  /** Problem details as JSON, a page for a browser, or text for a client that accepts no JSON. Empty for HEAD. */
  readonly body: string
}

/** Returns the rate-limit headers of a decision. */
export function plainHeaders(decision: Decision, config: HeaderConfig): HeaderRecord {
  return { ...recordOf(decision, config), ...(isAnswered(decision) && millisecondsOf(decision, config)) }
}

/** Returns the response to a request that was not admitted. */
export function plainDenial(decision: Decision, config: HeaderConfig, request: DeniedRequest): ProblemResponse {
  const { status, headers, body } = denial(decision, request)
  const written = { ...recordOf(decision, config), ...millisecondsOf(decision, config) }
  return { status, headers: { ...written, ...Object.fromEntries(headers) }, body }
}

/** Returns the `retry-after-ms` of a denial, in a style that has it. */
function millisecondsOf(decision: Decision, config: HeaderConfig): HeaderRecord {
  const ms = hasMilliseconds(config) ? retryAfterMs(decision) : undefined
  return ms === undefined ? {} : { [RETRY_AFTER_MS]: String(ms) }
}

function recordOf(decision: Decision, config: HeaderConfig): HeaderRecord {
  const record: Record<string, string> = {}
  config.write(decision, timeOf(decision), (name, value) => void (record[name] = value))
  return record
}
