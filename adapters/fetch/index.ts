import type { Decision } from '../../src/limiter/decision.ts'
import { Ending } from '../../src/http/response/web-end.ts'
import { fieldNames } from '../../src/http/headers/write-headers.ts'
import { createGate } from '../../src/http/request-limiter.ts'
import { type Decider, type GateOptions, validateGate } from '../../src/http/options.ts'
import type { Surface } from '../../src/http/adapter.ts'
import { abandoned, denialFrom, forDrafts, lateFields } from '../../src/http/response/web-response.ts'
import { chain, type MaybePromise } from '../../src/util/maybe-promise.ts'
import { refuse } from '../../src/util/validate.ts'
import { keepRest } from './keyers.ts'

export { byHeader, byMethod, ipKeyer, type IpKeyerOptions } from './keyers.ts'

/** Options of {@link rateLimit}: those of `createLimiter`, or a `limiter`; and how to answer. */
export type RateLimitOptions = Decider<Request> &
  GateOptions<Request, Response> & {
    /**
     * Answers a denied request instead of the 429; `Retry-After` and the fields are added to what it returns, where a larger
     * `Retry-After` stays.
     */
    readonly onDenied?: OnDenied
  }

type OnDenied = (request: Request, decision: Decision) => MaybePromise<Response>

/** Puts a limit before a handler. What a runtime hands over beside the request reaches the handler as it is. */
export type RateLimit = <In extends Request, Rest extends readonly unknown[]>(
  handler: (request: In, ...rest: Rest) => MaybePromise<Response>,
) => (request: In, ...rest: Rest) => Promise<Response>

/** Takes what is said of a response before there is one. */
interface Draft {
  readonly fields: Headers
  readonly head: boolean
  readonly ending: Ending
  denial: Response | undefined
}

const answerTo = ({ ending }: Draft): Response => ending.answer!
const encoder = new TextEncoder()
const decisions = new WeakMap<Request, Decision>()

const surface: Surface<Request, Draft, undefined, OnDenied> = {
  method: (request) => request.method,
  header: (request, name) => request.headers.get(name) ?? undefined,
  field: ({ fields }, name) => fields.get(name) ?? undefined,
  set: ({ fields }, name, value) => fields.set(name, value),
  sent: ({ ending }) => ending.answer !== undefined,
  status: (draft) => answerTo(draft).status,
  // Bytes, for of a text the platform would say which type it has.
  send: (draft, status, body) =>
    void (draft.denial = new Response(draft.head ? null : encoder.encode(body), { status })),
  ended: ({ ending }, listener) => ending.listen(listener),
  known: (request) => decisions.get(request),
  keep: (request, decision) => void decisions.set(request, decision),
  deny: (onDenied, request, draft, _next, decision) =>
    chain(
      onDenied(request, decision),
      (answer) => void (draft.denial = denialFrom(answer, 'a function that returns a Response')),
    ),
}

/** What the rate limit that a request passed last has decided; `undefined` for a request that none has seen. */
export function rateLimitOf(request: Request): Decision | undefined {
  return decisions.get(request)
}

/**
 * Limits web-standard handlers, `(request, …) => Response`: of Bun, Deno, workers, and route handlers of Next.js. The
 * decision is at `rateLimitOf(request)`. A field that the handler sets itself stays as it is.
 * Throws `SluiceError` for a wrong or unknown option; a fault of a keyer or of the store rejects, as one of the handler does.
 * @example
 * const limit = rateLimit({ keyer: byHeader('x-api-key'), limits: [perSecond(10), perMinute(100)] })
 * export const GET = limit((request) => Response.json({ left: rateLimitOf(request)?.remaining }))
 */
export function rateLimit(options: RateLimitOptions): RateLimit {
  validateGate(options)
  const gate = createGate(forDrafts(options, answerTo), surface)
  const exposed = ['Retry-After', ...fieldNames(options.headers ?? 'standard', options)]

  function finished(response: Response, { fields, ending }: Draft): Response {
    return ending.deliver(withFields(response, fields, exposed))
  }

  return function limit(handler) {
    if (typeof handler !== 'function') refuse('rateLimit', 'a handler: limit((request) => new Response(…))', handler)
    return async function limitRate(request, ...rest) {
      keepRest(request, rest)
      const head = request.method === 'HEAD'
      const draft: Draft = { fields: new Headers(), head, ending: new Ending(request), denial: undefined }
      const admitted = await gate.enter(request, draft, undefined)
      if (!admitted) return finished(draft.denial ?? abandoned(), draft)
      try {
        return finished(await handler(request, ...rest), draft)
      } catch (error) {
        // The runtime will answer so.
        if (draft.ending.answer === undefined) draft.ending.deliver(new Response(null, { status: 500 }))
        throw error
      }
    }
  }
}

/** Made anew, for the fields of a response may be immutable, and the response one that is returned again and again. */
function withFields(response: Response, fields: Headers, exposed: readonly string[]): Response {
  // A switch of protocols and a network error cannot be made anew.
  if (response.status < 200) return response
  const answer = new Response(response.body, response)
  for (const [name, value] of lateFields(response.headers, fields, exposed)) answer.headers.set(name, value)
  return answer
}
