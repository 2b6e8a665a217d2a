import { refuse } from '../../util/validate.ts'
import { withNames } from '../headers/cors.ts'
import { mergeRetryAfter } from '../headers/retry-after.ts'
import type { HttpOptions, LimiterSource } from '../options.ts'
import type { Outcome } from '../outcome.ts'
import { ABORTED } from './aborted.ts'

// For adapters where a response is a value that a handler returns, and a draft takes the headers before there is one.

const EXPOSE_HEADERS = 'Access-Control-Expose-Headers'

/**
 * Returns options whose functions receive a draft. It calls the user's functions with the response of that draft, or with one of
 * status 499 if the request was aborted before there was one.
 */
export function optionsForDrafts<Request, Draft, OnDenied>(
  options: LimiterSource<Request> & HttpOptions<Request, Response> & { readonly onDenied?: OnDenied },
  responseOf: (draft: Draft) => Response | undefined,
): LimiterSource<Request> & HttpOptions<Request, Draft> & { readonly onDenied?: OnDenied } {
  return optionsWithResponses(options, (draft: Draft) => responseOf(draft) ?? clientGone())
}

/** Returns options that call the user's functions with the response that belongs to another object. */
export function optionsWithResponses<Request, Own, Theirs, OnDenied>(
  options: LimiterSource<Request> & HttpOptions<Request, Theirs> & { readonly onDenied?: OnDenied },
  responseOf: (own: Own) => Theirs,
): LimiterSource<Request> & HttpOptions<Request, Own> & { readonly onDenied?: OnDenied } {
  const { refundWhen, settleWith, resetWhen, ...others } = options
  function adapted<Result>(given: (request: Request, response: Theirs) => Result) {
    return (request: Request, own: Own): Result => given(request, responseOf(own))
  }
  const outcome = (when: Outcome<Request, Theirs>): Outcome<Request, Own> =>
    typeof when === 'string' ? when : adapted(when)
  return {
    ...others,
    ...(refundWhen !== undefined && { refundWhen: outcome(refundWhen) }),
    ...(resetWhen !== undefined && { resetWhen: outcome(resetWhen) }),
    ...(settleWith !== undefined && { settleWith: adapted(settleWith) }),
  }
}

/** Returns a response for a client that hung up. Nobody reads it. */
export function clientGone(): Response {
  return new Response(null, { status: ABORTED })
}

/** Checks what `onDenied` returned. A `Response` of another realm is allowed. Throws `INVALID_OPTION` for any other value. */
export function denialFrom(returned: unknown, expected: string): Response {
  if (typeof returned === 'object' && returned !== null && 'headers' in returned) return returned as Response
  return refuse('onDenied', expected, returned)
}

/**
 * Returns the headers of a draft that still have to be set on the response. A header that the response has itself does not
 * change, except that of two `Retry-After` the larger one is used.
 *
 * @param exposed the headers that scripts can read when the response has CORS headers
 */
export function lateHeaders(
  response: Headers,
  draft: Headers,
  exposed: readonly string[],
): readonly [string, string][] {
  const late = [...draft].filter(([name]) => !response.has(name))
  const [theirs, ours] = [response.get('Retry-After'), draft.get('Retry-After')]
  if (theirs !== null && ours !== null)
    late.push(['Retry-After', String(mergeRetryAfter(theirs, Number(ours), Date.now()))])
  const existing = response.get(EXPOSE_HEADERS) ?? draft.get(EXPOSE_HEADERS)
  if (existing !== null || response.has('Access-Control-Allow-Origin'))
    late.push([EXPOSE_HEADERS, withNames(existing ?? '', exposed)])
  return late.filter(([name, value]) => response.get(name) !== value)
}
