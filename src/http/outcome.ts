import type { Limit } from '../limits/limit.ts'
import type { MaybePromise } from '../util/maybe-promise.ts'
import { optionalFunction, refuse } from '../util/validate.ts'

/** Which responses are meant: those with a status below 400, all others, or those for which a function returns true. */
export type Outcome<Request, Response> =
  'success' | 'failure' | ((request: Request, response: Response) => MaybePromise<boolean>)

/**
 * The options for what happens after a response. Their functions are called once for each admitted request, when its response was
 * sent completely or was aborted. If the client hangs up before anything was sent, the status of the response is 499 when they are
 * called. A promise that they return may take any time. If one of them throws or rejects, the charge does not change, and the process
 * warning `SLUICE_OUTCOME` is emitted once.
 *
 * `resetWhen` takes precedence over `refundWhen`, and `refundWhen` over `settleWith`.
 */
export interface OutcomeOptions<Request, Response> {
  /**
   * Refunds the charge of a request once its response is known: `'success'` for a status below 400, `'failure'` for any other. With
   * these two words a request stays charged if the client hangs up before anything was sent: otherwise it could cause work for
   * nothing. A response that is aborted later counts with the status that was sent. Default: no refund.
   * @example rateLimit({ keyer: byIP, limits: perMinute(5), refundWhen: 'success' }) // counts failed logins only
   */
  readonly refundWhen?: Outcome<Request, Response>
  /**
   * Returns the actual cost of a request, for all of its limits or for each. `undefined` leaves the charge unchanged. It is also
   * called when the client hangs up, so that work that continues is charged when its promise resolves. Default: no change.
   * @example rateLimit({ keyer, limits, settleWith: (_request, response) => Number(response.getHeader('x-tokens')) })
   * @example rateLimit({ keyer, limits, settleWith: (request) => usageOf.get(request) }) // a promise of the tokens of a language model
   */
  readonly settleWith?: (
    request: Request,
    response: Response,
  ) => MaybePromise<number | ((limit: Limit) => number) | undefined>
  /**
   * Resets the key of a request once its response is known, as `limiter.reset` does: the limiter forgets all that was charged to the
   * key, and its lock-out. With a stack, this is the key of each of its limiters. `'success'` and `'failure'` are as for `refundWhen`:
   * a request whose client hangs up before anything was sent resets nothing. Requests of the key that are still open are not refunded
   * or settled afterwards, since their charge is forgotten. Default: no reset.
   * @example rateLimit({ keyer: byUser, limits: perHour(5), resetWhen: 'success' }) // forgets the failed logins after a good one
   */
  readonly resetWhen?: Outcome<Request, Response>
}

/** Throws `INVALID_OPTION`. */
export function validateOutcomeOptions(options: OutcomeOptions<never, never>): void {
  optionalFunction('settleWith', options.settleWith)
  for (const name of ['refundWhen', 'resetWhen'] as const) {
    const when = options[name]
    if (when !== undefined && typeof when !== 'function' && when !== 'success' && when !== 'failure')
      refuse(name, "'success', 'failure' or a function", when)
  }
}
