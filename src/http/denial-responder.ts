import type { Decision } from '../limiter/decision.ts'
import { isPromise, type MaybePromise } from '../util/maybe-promise.ts'
import { denial } from './denial.ts'
import { mergeRetryAfter, retryAfter } from './headers/retry-after.ts'
import type { Surface } from './adapter.ts'

/** Answers a denied request; false, as a gate says it. */
export type Refuse<Request, Response, Next> = (
  decision: Decision,
  request: Request,
  response: Response,
  next: Next,
) => MaybePromise<boolean>

/** Makes what answers denied requests: `onDenied` where it is given, with `Retry-After` set already; else problem details. */
export function refusal<Request, Response, Next, OnDenied>(
  onDenied: OnDenied | undefined,
  surface: Surface<Request, Response, Next, OnDenied>,
): Refuse<Request, Response, Next> {
  /** A larger `Retry-After` that the application has set stays. */
  function setRetryAfter(decision: Decision, response: Response): void {
    const seconds = mergeRetryAfter(surface.field(response, 'Retry-After'), retryAfter(decision), Date.now())
    if (seconds !== undefined) surface.set(response, 'Retry-After', String(seconds))
  }

  if (onDenied === undefined) {
    return function refuse(decision, request, response) {
      // The method is not told: a HEAD has the fields of the whole body, which the framework then leaves out.
      const { status, headers, body } = denial(decision, { accept: surface.header(request, 'accept') })
      for (const [name, value] of headers) if (name !== 'Retry-After') surface.set(response, name, value)
      setRetryAfter(decision, response)
      surface.send(response, status, body)
      return false
    }
  }
  return function refuseWith(decision, request, response, next) {
    setRetryAfter(decision, response)
    const answer = surface.deny(onDenied, request, response, next, decision)
    return isPromise(answer) ? Promise.resolve(answer).then(() => false) : false
  }
}
