import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Decision } from '../../src/limiter/decision.ts'
import { denial, denialStatus } from '../../src/http/denial.ts'
import type { HeaderOptions } from '../../src/http/headers/options.ts'

/**
 * The error of a denied request, which `onDenied: 'throw'` throws for error handlers. Its message is the `detail` of the problem details. The rate-limit
 * headers, `Retry-After` and `Cache-Control: no-store` are already set on the reply, so an error handler does not have to set them.
 * @example
 * app.setErrorHandler((error, request, reply) => {
 *   if (error instanceof DenialError) return reply.code(error.statusCode).send({ error: 'slow down' })
 *   throw error
 * })
 */
export class DenialError extends Error {
  /** `SERVICE_UNAVAILABLE` if the store did not answer and the limiter is closed then. */
  readonly code: 'TOO_MANY_REQUESTS' | 'SERVICE_UNAVAILABLE'
  /** 429, or 503 if the store did not answer. */
  readonly statusCode: 429 | 503
  /** `Cache-Control`, and `Retry-After` unless the same request is never admitted. Fastify sets them on the reply of an error. */
  readonly headers: Readonly<Record<string, string>>
  /** The decision, with the verdicts of all limits. */
  readonly decision: Decision

  /** @param unit the unit of limits, as in the options of the headers */
  constructor(decision: Decision, headers: Readonly<Record<string, string>>, unit?: HeaderOptions['unit']) {
    super((JSON.parse(denial(decision, { unit }).body) as { readonly detail: string }).detail)
    this.name = 'DenialError'
    this.statusCode = denialStatus(decision)
    this.code = this.statusCode === 503 ? 'SERVICE_UNAVAILABLE' : 'TOO_MANY_REQUESTS'
    this.headers = headers
    this.decision = decision
  }
}

/** Returns an `onDenied` that throws. The error has the headers of the reply, because the application may have set a longer `Retry-After`. */
export function throwDenial(
  unit: HeaderOptions['unit'],
): (request: FastifyRequest, reply: FastifyReply, decision: Decision) => never {
  return (_request, reply, decision) => {
    const headers: Record<string, string> = {}
    for (const name of ['cache-control', 'retry-after']) {
      const value = reply.getHeader(name)
      if (value !== undefined) headers[name] = String(value)
    }
    throw new DenialError(decision, headers, unit)
  }
}
