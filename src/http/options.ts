import type { Decision } from '../limiter/decision.ts'
import { createLimiter, type Limiter } from '../limiter/limiter.ts'
import { LIMITER_OPTIONS, type LimiterOptions } from '../limiter/options.ts'
import type { Limit } from '../limits/limit.ts'
import type { MaybePromise } from '../util/maybe-promise.ts'
import { knownOptions, oneOf, refuse } from '../util/validate.ts'
import type { FieldOptions } from './headers/options.ts'
import type { Headers } from './headers/write-headers.ts'

/** Who decides: a limiter made here from its options, or one made elsewhere. */
export type Decider<Request> =
  | (LimiterOptions<Request> & { readonly limiter?: never })
  | {
      /** A limiter, or several as a `stack`. */
      readonly limiter: Limiter<Request>
      readonly keyer?: never
      readonly limits?: never
      readonly cost?: never
      readonly name?: never
      readonly store?: never
      readonly shared?: never
    }

/** What every adapter's `rateLimit` can be told, beside who decides and what a denial looks like. */
export interface GateOptions<Request, Response> extends FieldOptions {
  /** The fields that tell clients where they stand; several styles may be told at once. Default `'standard'`. */
  readonly headers?: Headers
  /** Leaves a request alone: neither counted nor told. A CORS preflight always is. */
  readonly skip?: (request: Request) => MaybePromise<boolean>
  /**
   * Gives back what a request was charged, once its answer is known: `'success'` below status 400, `'failure'` from there
   * on. A request that is cut off before it was answered stays charged, whoever hung up.
   * @example rateLimit({ keyer: byIP, limits: perMinute(5), refundWhen: 'success' }) // counts failed logins only
   */
  readonly refundWhen?: 'success' | 'failure' | ((request: Request, response: Response) => MaybePromise<boolean>)
  /**
   * What an answered request really cost, under all of its limits or under each; `undefined` leaves the charge as it is.
   * @example rateLimit({ keyer, limits, settleWith: (_request, response) => Number(response.getHeader('x-tokens')) })
   */
  readonly settleWith?: (
    request: Request,
    response: Response,
  ) => MaybePromise<number | ((limit: Limit) => number) | undefined>
  /** Sees every decision, denials included, before it takes effect, which waits for nothing that this may do later. */
  readonly onDecision?: (decision: Decision, request: Request) => void
}

const GATE_OPTIONS = [
  'headers',
  'headerNames',
  'unit',
  'partitionKey',
  'skip',
  'onDenied',
  'refundWhen',
  'settleWith',
  'onDecision',
]

/**
 * Throws `UNKNOWN_OPTION` or `INVALID_OPTION` for what no `rateLimit` knows; `headers` and limits see to themselves.
 * @param besides the options that an adapter has besides, and has taken off
 */
export function validateGate(
  options: Decider<never> & GateOptions<never, never> & { readonly onDenied?: unknown },
  ...besides: readonly string[]
): void {
  if (typeof options !== 'object' || options === null)
    refuse('rateLimit', 'options such as { keyer, limits }, or { limiter }', options)
  knownOptions('rateLimit', options, ['limiter', ...LIMITER_OPTIONS, ...GATE_OPTIONS, ...besides])
  optionalFunction('skip', options.skip)
  optionalFunction('onDenied', options.onDenied)
  optionalFunction('settleWith', options.settleWith)
  optionalFunction('onDecision', options.onDecision)
  const { refundWhen } = options
  if (refundWhen !== undefined && typeof refundWhen !== 'function')
    oneOf('refundWhen', refundWhen, ['success', 'failure'])
}

/** The limiter that is given, or that is asked for. */
export function limiterOf<Request>(options: Decider<Request>): Limiter<Request> {
  const own = Object.entries(options).filter(([name, value]) => LIMITER_OPTIONS.includes(name) && value !== undefined)
  if (options.limiter === undefined) return createLimiter(Object.fromEntries(own) as unknown as LimiterOptions<Request>)
  for (const [name, value] of own) refuse(name, 'nothing beside `limiter`, which has its own', value)
  if (typeof options.limiter?.consume !== 'function')
    refuse('limiter', 'what createLimiter or stack has made', options.limiter)
  return options.limiter
}

function optionalFunction(option: string, given: unknown): void {
  if (given !== undefined && typeof given !== 'function') refuse(option, 'a function', given)
}
