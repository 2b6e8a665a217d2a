import type { Decision } from '../limiter/decision.ts'
import type { Limiter } from '../limiter/limiter.ts'
import { SluiceError } from '../util/errors.ts'
import type { MaybePromise } from '../util/maybe-promise.ts'
import { warn } from '../util/warn.ts'
import type { HttpAdapter } from './adapter.ts'
import type { HttpOptions } from './options.ts'

/** Refunds or settles the charge of an admitted request once its response has ended. */
export type Settlement<Request, Response> = (request: Request, response: Response, decision: Decision) => void

type ResponseState<Response> = Pick<HttpAdapter<never, Response, never, never>, 'onEnd' | 'headersSent' | 'getStatus'>

/** Creates the settlement of a request limiter. Returns `undefined` when no option asks for one. */
export function settlement<Request, Response>(
  { refundWhen, settleWith }: HttpOptions<Request, Response>,
  limiter: Limiter<Request>,
  adapter: ResponseState<Response>,
): Settlement<Request, Response> | undefined {
  if (refundWhen === undefined && settleWith === undefined) return undefined
  const isRefunded = typeof refundWhen === 'function' ? refundWhen : byStatus(refundWhen, adapter)
  let warned = false

  /** Catches every error: the response has ended, so that the framework can no longer handle one. */
  async function settle(request: Request, response: Response, decision: Decision): Promise<void> {
    // A client that hangs up before the answer stays charged. With a refund it could cause work for nothing.
    if (!adapter.headersSent(response)) return
    try {
      const cost = (await isRefunded(request, response)) ? 0 : await settleWith?.(request, response)
      if (cost === 0) await limiter.refund(decision)
      else if (cost !== undefined) await limiter.settle(decision, cost)
    } catch (error) {
      if (!warned) warn('SLUICE_OUTCOME', `${describe(error)} The charge is not changed. ${String(error)}`)
      warned = true
    }
  }

  return function settleAtEnd(request, response, decision) {
    adapter.onEnd(response, () => void settle(request, response, decision))
  }
}

function byStatus<Response>(
  when: 'success' | 'failure' | undefined,
  adapter: ResponseState<Response>,
): (request: unknown, response: Response) => MaybePromise<boolean> {
  if (when === undefined) return () => false
  return (_request, response) => adapter.getStatus(response) < 400 === (when === 'success')
}

function describe(error: unknown): string {
  const isCost = error instanceof SluiceError && error.code === 'INVALID_COST'
  return isCost
    ? '`settleWith` returned a value that is not a cost, a function of the limit, or undefined.'
    : 'A refund or settlement failed.'
}
