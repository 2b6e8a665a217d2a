import { refuse } from '../../util/validate.ts'
import { exposeHeaders } from '../headers/cors.ts'
import type { Decider, GateOptions } from '../options.ts'
import { mergeRetryAfter } from '../headers/retry-after.ts'

// For adapters where a response is a value that a handler returns.

const EXPOSE = 'Access-Control-Expose-Headers'

/** To the gate a response is a draft, to its user what came of it. */
export function forDrafts<Request, Draft, OnDenied>(
  options: Decider<Request> & GateOptions<Request, Response> & { readonly onDenied?: OnDenied },
  answerTo: (draft: Draft) => Response,
): Decider<Request> & GateOptions<Request, Draft> & { readonly onDenied?: OnDenied } {
  const { refundWhen, settleWith, ...others } = options
  return {
    ...others,
    ...(refundWhen !== undefined && {
      refundWhen:
        typeof refundWhen === 'string'
          ? refundWhen
          : (request: Request, draft: Draft) => refundWhen(request, answerTo(draft)),
    }),
    ...(settleWith !== undefined && {
      settleWith: (request: Request, draft: Draft) => settleWith(request, answerTo(draft)),
    }),
  }
}

/** The client has hung up while it was held: nobody reads this. */
export function abandoned(): Response {
  return new Response(null, { status: 499 })
}

/** What `onDenied` has answered, of whichever realm. Throws `INVALID_OPTION` for what is no response. */
export function denialFrom(answer: unknown, expected: string): Response {
  if (typeof answer === 'object' && answer !== null && 'headers' in answer) return answer as Response
  return refuse('onDenied', expected, answer)
}

/**
 * What was said of a response before there was one, as far as it still has to be set: a field that the response has itself
 * stays, and of two `Retry-After` the larger one.
 *
 * @param exposed the fields that scripts are to see where the response has CORS fields
 */
export function lateFields(response: Headers, said: Headers, exposed: readonly string[]): readonly [string, string][] {
  const late = [...said].filter(([name]) => !response.has(name))
  const [theirs, ours] = [response.get('Retry-After'), said.get('Retry-After')]
  if (theirs !== null && ours !== null)
    late.push(['Retry-After', String(mergeRetryAfter(theirs, Number(ours), Date.now()))])
  const existing = response.get(EXPOSE) ?? said.get(EXPOSE)
  if (existing !== null || response.has('Access-Control-Allow-Origin'))
    late.push([EXPOSE, exposeHeaders(existing ?? '', exposed)])
  return late.filter(([name, value]) => response.get(name) !== value)
}
