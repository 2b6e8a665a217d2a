import type { Limit } from '../limits/limit.ts'
import type { MaybePromise } from '../util/maybe-promise.ts'
import type { Decision } from './decision.ts'
import type { WaitOptions } from './waiter.ts'

export interface ConsumeOptions {
  /** The cost against every limit. Default: the limiter's `cost`, else 1. */
  readonly cost?: number
}

/** Resolves or returns without a value. */
type Done<Answer> = Answer extends Promise<unknown> ? Promise<void> : void

/**
 * Decides about inputs. A denial is a value, never an exception. If a keyer, a LimitFunc or a cost function throws, the error
 * reaches the caller and nothing is charged.
 */
export interface Limiter<Input, Answer extends MaybePromise<Decision> = MaybePromise<Decision>> {
  /**
   * Decides, and charges an admitted input. Throws `INVALID_COST`, `INVALID_KEY`, `INVALID_LIMIT`, `DUPLICATE_LIMIT`, and
   * `INVALID_OPTION` or `UNKNOWN_OPTION` for wrong options.
   */
  consume(input: Input, options?: ConsumeOptions): Answer
  /** Returns what `consume` would decide. Charges nothing. */
  peek(input: Input, options?: ConsumeOptions): Answer
  /**
   * Resolves when the input is admitted, first come first served for each key, after the delay of a `leakyBucket`. Rejects
   * with `WAIT_TOO_LONG` as soon as `maxWait` cannot be met, and with `NEVER_ADMITTED` if the cost can never be admitted; the
   * `cause` is the decision, if there is one. Rejects with the signal's reason if that aborts.
   * @example await limiter.wait(user, { maxWait: 5000 })
   */
  wait(input: Input, options?: WaitOptions): Promise<Decision>
  /** Gives back what a decision charged, once. For a denial it does nothing. Throws `INVALID_OPTION` for any other value. */
  refund(decision: Decision): Done<Answer>
  /**
   * Replaces what a decision charged by the actual cost, once. A higher cost is charged past any limit, as a debt. Give a
   * function if the limits count different things. Throws `INVALID_COST`.
   * @example limiter.settle(decision, usage.totalTokens)
   */
  settle(decision: Decision, actualCost: number | ((limit: Limit) => number)): Done<Answer>
  /** Deletes the state of this input's key under every limit. */
  reset(input: Input): Done<Answer>
}
