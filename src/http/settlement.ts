import type { Limit } from '../engine/limit.ts'
import { chain, isPromise, type MaybePromise } from '../util/maybe-promise.ts'
import { isTrue, oneOf, optionalFunction, refuse } from '../util/validate.ts'
import { checkedCost } from '../limiter/charges.ts'
import { type Decision, holdsSlots } from '../limiter/decision.ts'
import { isOwn } from '../limiter/default-limiter.ts'
import type { Limiter } from '../limiter/contract.ts'
import { resetKeys } from '../limiter/adapted.ts'
import { dropSlots, holdSlots } from '../limiter/slots.ts'
import { SluiceError, textOf } from '../util/errors.ts'
import { warn } from '../util/warn.ts'
import type { HttpAdapter } from './adapter.ts'
import { noteWork, Work } from './work.ts'

/** Selects responses: those with a status below 400, all others, or those for which a function returns true. */
export type Outcome<Request, Response> =
  | 'success'
  | 'failure'
  | ((request: Request, response: Response) => MaybePromise<boolean>)

/**
 * The options that change the charge after a response. Their functions are called once for each admitted request, when its response was sent completely or
 * was aborted. If the client disconnects before anything was sent, the status of the response is 499 in these calls. A promise that they return may take
 * any time. If one of them throws or rejects, or returns an invalid value, such as an object in place of true, the charge does not change, and the process
 * warning `SLUICE_OUTCOME` is emitted once.
 *
 * `resetWhen` takes precedence over `count` and `refundWhen`. These take precedence over `settleWith`.
 */
export interface OutcomeOptions<Request, Response> {
  /**
   * Which requests count: `'failures'` for those whose response has a status of 400 or more, such as wrong passwords, `'successes'` for the others. All other
   * requests are refunded when their response is known: `count: 'failures'` does the same as `refundWhen: 'success'`. Until then, each request counts, so
   * simultaneous requests cannot exceed the limit. Default: all requests. Throws `INVALID_OPTION` together with `refundWhen`.
   * @example rateLimit({ keyer: byIP, limits: perMinute(5), count: 'failures' })
   */
  readonly count?: 'failures' | 'successes'
  /**
   * Refunds the charge of a request when its response is known: `'success'` for a status below 400, `'failure'` for any other. With these two words, a
   * request stays charged if the client disconnects before anything was sent. Otherwise clients could cause work without a charge. A response that is
   * aborted later counts with the status that was sent. Default: no refund.
   * @example rateLimit({ keyer: byIP, limits: perMinute(5), refundWhen: (_request, response) => response.statusCode === 304 })
   */
  readonly refundWhen?: Outcome<Request, Response>
  /**
   * Returns the actual cost of a request, for all of its limits or for each. `undefined` leaves the charge unchanged. It is also called if the client
   * disconnects, so that work that continues is charged when its promise resolves. Default: no change.
   * @example rateLimit({ keyer, limits, settleWith: (_request, response) => Number(response.getHeader('x-tokens')) })
   * @example rateLimit({ keyer, limits, settleWith: (request) => usageOf.get(request) }) // a promise of the tokens of a language model
   */
  readonly settleWith?: (
    request: Request,
    response: Response,
  ) => MaybePromise<number | ((limit: Limit) => number) | undefined>
  /**
   * Resets the key of a request when its response is known, as `limiter.reset` does: the limiter forgets all charges of the key, and its lock-out. With a
   * stack, this is the key of each of its limiters. `'success'` and `'failure'` are as for `refundWhen`: a request whose client disconnects before anything
   * was sent resets nothing. Open requests of the key are not refunded or settled later, because their charge is forgotten. Default: no reset.
   * @example rateLimit({ keyer: byUser, limits: perHour(5), resetWhen: 'success' }) // forgets the failed logins after a good one
   */
  readonly resetWhen?: Outcome<Request, Response>
}

export const OUTCOME_OPTIONS = ['count', 'refundWhen', 'settleWith', 'resetWhen'] as const

export function validateOutcomeOptions(options: OutcomeOptions<never, never>): void {
  optionalFunction('settleWith', options.settleWith)
  const { count } = options
  if (count !== undefined) oneOf('count', count, ['failures', 'successes'])
  if (count !== undefined && options.refundWhen !== undefined)
    refuse('count', 'nothing together with `refundWhen`, which decides the same', count)
  for (const name of ['refundWhen', 'resetWhen'] as const) {
    const when = options[name]
    if (when !== undefined && typeof when !== 'function' && when !== 'success' && when !== 'failure')
      refuse(name, "'success', 'failure' or a function", when)
  }
}

/** Changes the charge of an admitted request later. */
export interface Settlement<Request, Response> {
  /** True if an option acts at the end of a response. */
  readonly hasOutcome: boolean
  /** Renews the slots of a decision from now on. */
  hold(decision: Decision): void
  /** When the response has ended, resets, refunds or settles the charge, and releases the slots. */
  atEnd(request: Request, response: Response, decision: Decision): void
  /** Releases the slots of a request whose client has disconnected before the request continued. */
  release(decision: Decision): void
}

/** The part of an adapter that reads responses. `Given` is the response that functions of the user receive. */
export type ResponseReader<Response, Given = Response> = Pick<
  HttpAdapter<never, Response, never, never>,
  'onEnd' | 'headersSent' | 'getStatus' | 'markAborted' | 'hasNoEnd' | 'onAnswer'
> & {
  /** Returns the response for functions of the user, if it is another object. */
  givenResponse?(response: Response): Given
}

/** When slots are given back: see `HttpOptions`. */
interface ReleaseOption {
  readonly release?: 'work' | 'response'
}

/** The actual cost of a decision; `undefined` if it is the charged cost. */
type Cost = number | ((limit: Limit) => number) | undefined

/** Returns the result of `settleWith`. Throws `INVALID_COST`. */
function checkedActual(cost: Cost): Cost {
  return cost === undefined || typeof cost === 'function' ? cost : checkedCost(cost, 'settleWith')
}

export function settlement<Request, Response, Given>(
  options: OutcomeOptions<Request, Given> & ReleaseOption,
  limiter: Limiter<Request>,
  adapter: ResponseReader<Response, Given>,
): Settlement<Request, Response> {
  const { count, settleWith, resetWhen, release } = options
  const counted = count === 'failures' ? 'success' : 'failure'
  const refundWhen = count === undefined ? options.refundWhen : counted
  const hasOutcome = refundWhen !== undefined || settleWith !== undefined || resetWhen !== undefined
  const isRefunded = predicateOf(refundWhen, adapter)
  const isReset = predicateOf(resetWhen, adapter)
  let warned = false

  /** Replaces the charge by a cost, and releases slots, in one adjustment. */
  function end(decision: Decision, cost: Cost, releases = true): MaybePromise<void> {
    if (isOwn(limiter)) return limiter.end(decision, typeof cost === 'number' ? () => cost : cost, releases)
    if (cost === 0 && releases) return limiter.refund(decision)
    const settled = cost === undefined ? undefined : limiter.settle(decision, cost)
    // `settle` keeps slots.
    return releases && holdsSlots(decision) ? chain(settled, () => limiter.release?.(decision)) : settled
  }

  /** Returns the actual cost of a request, or 'reset'. */
  function outcome(request: Request, response: Response): MaybePromise<Cost | 'reset'> {
    if (!adapter.headersSent(response)) adapter.markAborted?.(response)
    return chain(isReset?.(request, response) ?? false, (reset): MaybePromise<Cost | 'reset'> => {
      if (isTrue('resetWhen', reset)) return 'reset'
      const refunds = isRefunded?.(request, response) ?? false
      return chain(refunds, (known): MaybePromise<Cost> =>
        isTrue('refundWhen', known) ? 0 : chain(settleWith?.(request, givenBy(adapter, response)), checkedActual),
      )
    })
  }

  /** Applies the outcome of a request. Catches every error: the response has ended, so the framework can no longer handle errors. */
  async function settle(request: Request, response: Response, decision: Decision, releases: boolean): Promise<void> {
    let isReleased = !releases || !holdsSlots(decision)
    try {
      const known = hasOutcome ? outcome(request, response) : undefined
      // The request has ended, so its slots are released even if its cost is known much later.
      if (isPromise(known) && !isReleased) {
        await attempted(() => end(decision, undefined))
        isReleased = true
      }
      const cost = isPromise(known) ? await known : known
      if (cost === 'reset') await resetKeys(limiter, request, decision)
      else await end(decision, cost, releases)
    } catch (error) {
      if (!isReleased) await attempted(() => end(decision, undefined))
      if (!warned) warn('SLUICE_OUTCOME', `${describe(error)} The charge does not change. ${textOf(error)}`)
      warned = true
    }
  }

  /** Ignores errors: if the store does not answer, a slot expires. */
  async function attempted(work: () => MaybePromise<void>): Promise<void> {
    try {
      await work()
    } catch {
      // No caller waits for it.
    }
  }

  function giveBack(decision: Decision): void {
    dropSlots(decision)
    if (holdsSlots(decision)) void attempted(() => end(decision, undefined))
  }

  /** Holds the slots of a request until its work is over. */
  function begin(request: Request, response: Response, decision: Decision): Work {
    const work = new Work(() => giveBack(decision))
    holdSlots(decision, (held) => {
      if (work.mayRenew()) return limiter.renew(held)
      dropSlots(decision)
      return false
    })
    if (release === 'response') return work
    noteWork(request as object, work)
    adapter.onAnswer?.(response, () => work.answered())
    return work
  }

  return {
    hasOutcome,
    hold(decision) {
      if (holdsSlots(decision) && adapter.hasNoEnd !== true) holdSlots(decision, (held) => limiter.renew(held))
    },
    atEnd(request, response, decision) {
      if (adapter.hasNoEnd === true) return
      const work = holdsSlots(decision) ? begin(request, response, decision) : undefined
      adapter.onEnd(response, () => {
        const isOver =
          work === undefined ||
          release === 'response' ||
          work.closed(adapter.onAnswer === undefined || adapter.headersSent(response))
        if (isOver || !work.isPending) dropSlots(decision)
        void settle(request, response, decision, isOver)
      })
    },
    release: giveBack,
  }
}

/** Returns a predicate for an outcome. If the client disconnects before the answer, it is neither success nor failure: see `refundWhen`. */
function predicateOf<Request, Response, Given>(
  when: Outcome<Request, Given> | undefined,
  adapter: ResponseReader<Response, Given>,
): ((request: Request, response: Response) => MaybePromise<boolean>) | undefined {
  if (when === undefined) return undefined
  if (typeof when === 'function') return (request, response) => when(request, givenBy(adapter, response))
  return (_request, response) =>
    adapter.headersSent(response) && adapter.getStatus(response) < 400 === (when === 'success')
}

function givenBy<Response, Given>(adapter: ResponseReader<Response, Given>, response: Response): Given {
  return adapter.givenResponse === undefined ? (response as unknown as Given) : adapter.givenResponse(response)
}

function describe(error: unknown): string {
  const isCost = error instanceof SluiceError && error.code === 'INVALID_COST'
  return isCost
    ? '`settleWith` returned a value that is not a cost, a function of the limit, or undefined.'
    : 'A reset, refund or settlement failed.'
}
