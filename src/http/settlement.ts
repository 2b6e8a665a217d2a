import type { Decision } from '../limiter/decision.ts'
import { SluiceError } from '../util/errors.ts'
import type { Limiter } from '../limiter/limiter.ts'
import type { MaybePromise } from '../util/maybe-promise.ts'
import { warn } from '../util/warn.ts'
import type { GateOptions } from './options.ts'
import type { Surface } from './adapter.ts'

/** Looks at how an admitted request ended, and changes what it was charged. */
export type Watch<Request, Response> = (request: Request, response: Response, decision: Decision) => void

type Outcome<Response> = Pick<Surface<never, Response, never, never>, 'ended' | 'sent' | 'status'>

/** What refunds and settles when responses end; `undefined` when that is not asked for. */
export function outcomeWatch<Request, Response>(
  { refundWhen, settleWith }: GateOptions<Request, Response>,
  limiter: Limiter<Request>,
  surface: Outcome<Response>,
): Watch<Request, Response> | undefined {
  if (refundWhen === undefined && settleWith === undefined) return undefined
  const refunds = typeof refundWhen === 'function' ? refundWhen : byStatus(refundWhen, surface)
  let warned = false

  /** The response is over, so that a fault can no longer reach the framework's error handling; nor may it end the process. */
  async function settleUp(request: Request, response: Response, decision: Decision): Promise<void> {
    // Who hangs up before the answer has no outcome: a refund would let him have the work done for nothing.
    if (!surface.sent(response)) return
    try {
      const cost = (await refunds(request, response)) ? 0 : await settleWith?.(request, response)
      if (cost === 0) await limiter.refund(decision)
      else if (cost !== undefined) await limiter.settle(decision, cost)
    } catch (error) {
      if (!warned) warn('SLUICE_OUTCOME', `${failed(error)}, and the charge stands: ${String(error)}`)
      warned = true
    }
  }

  return function watchOutcome(request, response, decision) {
    surface.ended(response, () => void settleUp(request, response, decision))
  }
}

function byStatus<Response>(
  when: 'success' | 'failure' | undefined,
  surface: Outcome<Response>,
): (request: unknown, response: Response) => MaybePromise<boolean> {
  if (when === undefined) return () => false
  return (_request, response) => surface.status(response) < 400 === (when === 'success')
}

function failed(error: unknown): string {
  const isCost = error instanceof SluiceError && error.code === 'INVALID_COST'
  return isCost
    ? '`settleWith` yielded no cost, nor a function of the limit, nor undefined'
    : 'A refund or settlement failed'
}
