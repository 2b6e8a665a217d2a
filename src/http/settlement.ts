import type { Limit } from '../engine/limit.ts'
import { chain, isPromise, type MaybePromise } from '../util/maybe-promise.ts'
import { optionalFunction, refuse } from '../util/validate.ts'
import { type Decision, holdsSlots } from '../limiter/decision.ts'
import { isOwn, type Limiter, resetKeys } from '../limiter/limiter.ts'
import { dropSlots, holdSlots } from '../limiter/slots.ts'
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

/** What happens to the charge of an admitted request later. */
export interface Settlement<Request, Response> {
  /** True if the options ask for something at the end of a response. */
  readonly hasOutcome: boolean
  /** Renews the slots of a decision from now on. */
  hold(decision: Decision): void
  /** Resets, refunds or settles the charge once the response has ended, and gives the slots back. */
  atEnd(request: Request, response: Response, decision: Decision): void
  /** Gives the slots back: the client has gone before the request went on. */
  release(decision: Decision): void
}

type ResponseState<Response> = Pick<
  HttpAdapter<never, Response, never, never>,
  'onEnd' | 'headersSent' | 'getStatus' | 'markAborted' | 'hasNoEnd'
>

/** What a decision has cost after all; undefined for what was charged. */
type Cost = number | ((limit: Limit) => number) | undefined

/** Creates the settlement of a request limiter. */
export function settlement<Request, Response>(
  { refundWhen, settleWith, resetWhen }: OutcomeOptions<Request, Response>,
  limiter: Limiter<Request>,
  adapter: ResponseState<Response>,
): Settlement<Request, Response> {
  const hasOutcome = refundWhen !== undefined || settleWith !== undefined || resetWhen !== undefined
  const isRefunded = predicateOf(refundWhen, adapter)
  const isReset = predicateOf(resetWhen, adapter)
  let warned = false

  /** Replaces the charge by a cost, and gives slots back, in one adjustment. */
  function end(decision: Decision, cost: Cost): MaybePromise<void> {
    if (isOwn(limiter)) return limiter.end(decision, typeof cost === 'number' ? () => cost : cost, true)
    if (cost === 0) return limiter.refund(decision)
    if (cost !== undefined) return limiter.settle(decision, cost)
    return limiter.release?.(decision)
  }

  /** Returns the actual cost of a request, or 'reset'. */
  function outcome(request: Request, response: Response): MaybePromise<Cost | 'reset'> {
    if (!adapter.headersSent(response)) adapter.markAborted?.(response)
    return chain(isReset?.(request, response) ?? false, (reset): MaybePromise<Cost | 'reset'> => {
      if (reset) return 'reset'
      const refunds = isRefunded?.(request, response) ?? false
      return chain(refunds, (known): MaybePromise<Cost> => (known ? 0 : settleWith?.(request, response)))
    })
  }

  /** Catches every error: the response has ended, so that the framework can no longer handle one. */
  async function settle(request: Request, response: Response, decision: Decision): Promise<void> {
    let isReleased = !holdsSlots(decision)
    try {
      const known = hasOutcome ? outcome(request, response) : undefined
      // The request runs no longer, however long it takes to find out what it has cost.
      if (isPromise(known) && !isReleased) {
        await attempted(() => end(decision, undefined))
        isReleased = true
      }
      const cost = isPromise(known) ? await known : known
      if (cost === 'reset') await resetKeys(limiter, request, decision)
      else await end(decision, cost)
    } catch (error) {
      if (!isReleased) await attempted(() => end(decision, undefined))
      if (!warned) warn('SLUICE_OUTCOME', `${describe(error)} The charge does not change. ${textOf(error)}`)
      warned = true
    }
  }

  /** While the store is away, a slot ends with its lease. */
  async function attempted(work: () => MaybePromise<void>): Promise<void> {
    try {
      await work()
    } catch {
      // Nobody waits for it.
    }
  }

  return {
    hasOutcome,
    hold(decision) {
      if (holdsSlots(decision) && adapter.hasNoEnd !== true) holdSlots(decision, (held) => limiter.renew(held))
    },
    atEnd(request, response, decision) {
      if (adapter.hasNoEnd === true) return
      if (holdsSlots(decision)) holdSlots(decision, (held) => limiter.renew(held))
      adapter.onEnd(response, () => {
        dropSlots(decision)
        void settle(request, response, decision)
      })
    },
    release(decision) {
      dropSlots(decision)
      if (holdsSlots(decision)) void attempted(() => end(decision, undefined))
    },
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
