import type { Duration, Limit } from '../engine/limit.ts'
import type { MaybePromise } from '../util/maybe-promise.ts'
import type { Decision } from './decision.ts'
import type { Key } from './keyers.ts'
import type { WaitOptions } from './waiting.ts'

/** Options of `consume` and `peek`. */
export interface ConsumeOptions {
  /** The cost against every limit. Default: the limiter's `cost`, else 1. */
  readonly cost?: number
}

/** Resolves or returns without a value. */
type Done<Answer> = Answer extends Promise<unknown> ? Promise<void> : void

/** The units of a penalty: a whole number from 0, or a function of the limit if the limits count different things. */
export type Penalty = number | ((limit: Limit) => number)

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
  /** Returns what `consume` would decide. Charges nothing. Throws as `consume` does. With `cost: 0`, its `limits` show the quotas as they are. */
  peek(input: Input, options?: ConsumeOptions): Answer
  /**
   * Resolves when the input is admitted, first come first served for each key, after the delay of a `leakyBucket`. Rejects
   * with `WAIT_TOO_LONG` as soon as `maxWait` cannot be met, and with `NEVER_ADMITTED` if the cost can never be admitted; the
   * `cause` is the decision, if there is one. If the signal aborts, rejects with its reason.
   * @example await limiter.wait(user, { maxWait: 5000 })
   */
  wait(input: Input, options?: WaitOptions): Promise<Decision>
  /**
   * Returns a receipt of a decision: a text of at most 16,384 characters with which `settle`, `refund`, `release` and `renew` can be called in another
   * process, whose limiter has the same name and counts on the same store. If a decision has charged nothing in the store, its receipt settles nothing.
   * A decision and its receipts are settled once and released once, by any process. They end `receiptFor` after the first receipt, or after the
   * latest `renew`. A receipt contains the key, so do not give it to clients.
   *
   * Throws `INVALID_OPTION` for any other value, `INVALID_RECEIPT` if a decision has so many limits that its receipt is too long,
   * `EXPIRED_RECEIPT` for a decision whose receipt has ended, and for a receipt as `settle` does.
   * @example await jobs.add({ prompt, receipt: limiter.receipt(decision) }) // in the worker: limiter.settle(job.receipt, usage.totalTokens)
   */
  receipt(decision: Decision | string): string
  /**
   * Gives back the slots that `concurrent` limits have charged for a decision, once. The charges of other limits stay. Adapters call it themselves. If
   * the store fails, it does not reject, and emits the warning `SLUICE_OUTCOME` at most once a minute; so do `refund` and `settle`. Takes a receipt,
   * too. Throws `INVALID_OPTION` for any other value, and for a receipt as `settle` does.
   * @example if (decision.allowed) await work().finally(() => limiter.release(decision))
   */
  release(decision: Decision | string): Done<Answer>
  /**
   * Renews the slots of a decision: they are held for another `expiresAfter` from now on. A slot that was lost is taken again if there is room, unless the
   * key was reset since or the decision has a receipt. Otherwise `onSlotLost` is called. Returns whether all slots are held. Adapters call it themselves.
   * Takes a receipt, too. Throws `INVALID_OPTION` for any other value, and for a receipt as `settle` does.
   */
  renew(decision: Decision | string): Answer extends Promise<unknown> ? Promise<boolean> : MaybePromise<boolean>
  /**
   * Refunds the charge of a decision, once, and gives its slots back. For a denial it does nothing. Takes a receipt, too. Throws
   * `INVALID_OPTION` for any other value, and for a receipt as `settle` does.
   */
  refund(decision: Decision | string): Done<Answer>
  /**
   * Replaces the charge of a decision by the actual cost, once. A higher cost is charged even beyond the limit, as a debt. Pass a function if the
   * limits count different units. Slots stay held until they are released. Takes a receipt, too: see `receipt`. Throws `INVALID_COST` for a wrong cost, also
   * if the decision has charged nothing. For a receipt, throws `INVALID_RECEIPT`, `EXPIRED_RECEIPT`, `FOREIGN_RECEIPT` if another limiter has made all its
   * charges, and `VERSION_MISMATCH` if another version of the package wrote it.
   * @example limiter.settle(decision, usage.totalTokens)
   */
  settle(decision: Decision | string, actualCost: number | ((limit: Limit) => number)): Done<Answer>
  /**
   * Deletes the state of this input's key under every limit, lock-outs included. A later `refund` of an earlier decision refunds nothing.
   */
  reset(input: Input): Done<Answer>
  /**
   * Locks the key of this input out for a duration from now on: milliseconds, or a text such as `'15m'`, at most 100 years. It replaces an earlier
   * lock-out, even a longer one, and 0 ends a lock-out. A request of cost 0 is not locked out. It locks the key under every limit that applies to the
   * input, except under `shadow` limits, and in a stack and with rules the keys of all parts. A wrong duration throws `INVALID_OPTION`.
   * @example limiter.block(user, '15m')
   */
  block(input: Input, duration: Duration): Done<Answer>
  /**
   * Admits no request with this key for a duration from now on, such as the `Retry-After` of an upstream that answered 429. It does the same as `block`,
   * but never makes a lock-out shorter: of two that overlap, the later end counts, and 0 changes nothing. After it, waiters continue in their order.
   * Throws as `block` does.
   * @example limiter.pause(upstream, Number(response.headers.get('retry-after')) * 1000)
   */
  pause(input: Input, duration: Duration): Done<Answer>
  /**
   * Charges units to this input's key under every limit, even beyond the limit, as a debt: later requests are denied until it is paid. A `strict` or
   * `shadow` limit is charged like any other. A `concurrent` limit is not charged, because nothing would release the slots. Throws `INVALID_COST`.
   * @example if (isSpam(message)) limiter.penalize(user, 10)
   */
  penalize(input: Input, units: Penalty): Done<Answer>
  /**
   * Returns the same limiter for one key, which is given as a text. Use it for jobs and administration, where there is no request. A list is the key of
   * `keyers(…)` with these parts. Limits that are functions receive `input`. Without an input, they throw `INPUT_NEEDED`, except in `reset`. A `cost`
   * function is not called then, and the cost is 1.
   *
   * Throws `NO_SINGLE_KEY` for a stack and for rules, which have several keys, and `INVALID_KEY`.
   * @example limiter.key('ann').block('1h')
   */
  key(key: Key | readonly (Key | null | undefined)[], input?: Input): KeyedLimiter<Answer>
}

/**
 * A limiter for one key: the methods of `Limiter` without an input.
 * @example limiter.key('ann').block('15m')
 */
export interface KeyedLimiter<Answer extends MaybePromise<Decision> = MaybePromise<Decision>> {
  /** Decides, and charges an admitted request of this key. Throws as `Limiter.consume` does. */
  consume(options?: ConsumeOptions): Answer
  /** Returns what `consume` would decide. Charges nothing. */
  peek(options?: ConsumeOptions): Answer
  /** Resolves when a request of this key is admitted. Rejects with `WAIT_TOO_LONG`, `WAIT_QUEUE_FULL` and `NEVER_ADMITTED`. */
  wait(options?: WaitOptions): Promise<Decision>
  /** Deletes the state of the key under every limit, lock-outs included. */
  reset(): Done<Answer>
  /** Locks the key out for a duration: milliseconds, or a text such as `'15m'`; 0 ends a lock-out. Throws `INVALID_OPTION`. */
  block(duration: Duration): Done<Answer>
  /** Admits nothing with this key for a duration. It never makes a lock-out shorter, and 0 changes nothing. Throws as `block` does. */
  pause(duration: Duration): Done<Answer>
  /** Charges units even beyond the limit, as a debt. Throws `INVALID_COST`. */
  penalize(units: Penalty): Done<Answer>
}

/** The input that all of these limiters can read: the intersection of their inputs. */
export type InputOfAll<Limiters extends readonly Limiter<never>[]> = {
  readonly [I in keyof Limiters]: Limiters[I] extends Limiter<infer Input> ? (input: Input) => void : never
}[number] extends (input: infer Input) => void
  ? Input
  : never

/** The return type of these limiters together: decisions, promises, or either. */
export type AnswerOfAll<Limiters extends readonly Limiter<never>[]> =
  Limiters[number] extends Limiter<never, infer Answer> ? Answer : never
