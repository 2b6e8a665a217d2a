import type { Limit } from '../engine/limit.ts'
import type { MaybePromise } from '../util/maybe-promise.ts'
import { optionalFunction, refuse } from '../util/validate.ts'
import type { Decision } from '../limiter/decision.ts'
import { type Limiter, resetKeys } from '../limiter/limiter.ts'
import { SluiceError, textOf } from '../util/errors.ts'
import { warn } from '../util/warn.ts'
import type { HttpAdapter } from './adapter.ts'

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

/** Resets, refunds or settles the charge of an admitted request once its response has ended. */
type Settlement<Request, Response> = (request: Request, response: Response, decision: Decision) => void

type ResponseState<Response> = Pick<
  HttpAdapter<never, Response, never, never>,
  'onEnd' | 'headersSent' | 'getStatus' | 'markAborted'
>

/** Creates the settlement of a request limiter. Returns `undefined` when no option asks for one. */
export function settlement<Request, Response>(
  { refundWhen, settleWith, resetWhen }: OutcomeOptions<Request, Response>,
  limiter: Limiter<Request>,
  adapter: ResponseState<Response>,
): Settlement<Request, Response> | undefined {
  if (refundWhen === undefined && settleWith === undefined && resetWhen === undefined) return undefined
  const isRefunded = predicateOf(refundWhen, adapter)
  const isReset = predicateOf(resetWhen, adapter)
  let warned = false

  async function apply(request: Request, response: Response, decision: Decision): Promise<void> {
    if (!adapter.headersSent(response)) adapter.markAborted?.(response)
    if (isReset !== undefined && (await isReset(request, response))) return resetKeys(limiter, request, decision)
    const refunds = isRefunded !== undefined && (await isRefunded(request, response))
    const cost = refunds ? 0 : await settleWith?.(request, response)
    if (cost === 0) await limiter.refund(decision)
    else if (cost !== undefined) await limiter.settle(decision, cost)
  }

  /** Catches every error: the response has ended, so that the framework can no longer handle one. */
  async function settle(request: Request, response: Response, decision: Decision): Promise<void> {
    try {
      await apply(request, response, decision)
    } catch (error) {
      if (!warned) warn('SLUICE_OUTCOME', `${describe(error)} The charge does not change. ${textOf(error)}`)
      warned = true
    }
  }

  return function settleAtEnd(request, response, decision) {
    adapter.onEnd(response, () => void settle(request, response, decision))
  }
}

/** A client that hangs up before the answer has neither success nor failure. With a refund it could cause work for nothing. */
function predicateOf<Request, Response>(
  when: Outcome<Request, Response> | undefined,
  adapter: ResponseState<Response>,
): ((request: Request, response: Response) => MaybePromise<boolean>) | undefined {
  if (typeof when !== 'string') return when
  return (_request, response) =>
    adapter.headersSent(response) && adapter.getStatus(response) < 400 === (when === 'success')
}

function describe(error: unknown): string {
  const isCost = error instanceof SluiceError && error.code === 'INVALID_COST'
  return isCost
    ? '`settleWith` returned a value that is not a cost, a function of the limit, or undefined.'
    : 'A reset, refund or settlement failed.'
}
