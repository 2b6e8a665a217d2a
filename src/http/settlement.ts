import type { Decision } from '../limiter/decision.ts'
import type { Limiter } from '../limiter/limiter.ts'
import { resetKeys } from '../limiter/reset-keys.ts'
import { SluiceError, textOf } from '../util/errors.ts'
import type { MaybePromise } from '../util/maybe-promise.ts'
import { warn } from '../util/warn.ts'
import type { HttpAdapter } from './adapter.ts'
import type { Outcome, OutcomeOptions } from './outcome.ts'

/** Resets, refunds or settles the charge of an admitted request once its response has ended. */
export type Settlement<Request, Response> = (request: Request, response: Response, decision: Decision) => void

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
