import type { AsyncStore, Store, SyncStore } from '../stores/store.ts'
import { reasonOf, SluiceError } from '../util/errors.ts'
import type { MaybePromise } from '../util/maybe-promise.ts'
import { knownOptions, refuse } from '../util/validate.ts'
import type { Decision } from './decision.ts'
import type { SyncKeyer } from './keyers.ts'
import {
  type LimiterOptions,
  STORE_OPTIONS,
  type StoreOptions,
  type SyncCostFunc,
  type SyncLimits,
  validateCommon,
  validateOptions,
} from './options.ts'
import { receiptSettings } from './receipt-settings.ts'

// These are interfaces, because an editor shows no doc-comments for the members of `Omit` and `Pick`.
/** One limiter in the options of `stack`: options of `createLimiter`, without the options that are common to the stack. */
export interface StackedLimiter<Input> extends LimiterOptions<Input> {
  /** Not in a limiter of a stack: it stands beside `limiters`. */
  readonly store?: never
  /** Not in a limiter of a stack: it stands beside `limiters`. */
  readonly lease?: never
  /** Not in a limiter of a stack: it stands beside `limiters`. */
  readonly receiptFor?: never
  /** Not in a limiter of a stack: it stands beside `limiters`. */
  readonly receiptSecret?: never
  /** Not in a limiter of a stack: it stands beside `limiters`. */
  readonly shared?: never
}

/** A limiter of a stack that returns decisions, not promises. */
export interface SyncStackedLimiter<Input> extends StackedLimiter<Input> {
  readonly keyer: SyncKeyer<Input>
  readonly limits: SyncLimits<Input>
  readonly cost?: SyncCostFunc<Input>
}

/**
 * Options of `stack`, for limiters with different keys on one store.
 * @example stack({ limiters: [{ keyer: everyone, limits: perMinute(1000) }, { keyer: byIP, limits: perMinute(100) }] })
 */
export interface StackOptions<Input> extends StoreOptions {
  /**
   * The limiters, each with its own `keyer` and `limits`, and if you like `cost`, `name`, `onDecision` and `onSlotLost`. A request counts for all of them or
   * for none. The `name` of a limiter is by default the name of the stack and the place in the list, such as `'stack-1'`, so add new limiters at the end.
   * @example stack({ limiters: [{ keyer: everyone, limits: perMinute(1000) }, { keyer: byIP, limits: perMinute(100) }] })
   */
  readonly limiters: readonly StackedLimiter<Input>[]
  /** The first part of the names of the limiters: different for each stack of the store. Default `'stack'`. */
  readonly name?: string
}

/** Options of a stack that returns decisions, not promises. */
export interface SyncStackOptions<Input> extends StackOptions<Input> {
  readonly limiters: readonly SyncStackedLimiter<Input>[]
  readonly store?: SyncStore
}

/** The input of all of these limiters: the intersection of their inputs. */
export type InputOf<Limiters extends readonly StackedLimiter<never>[]> =
  Limiters[number] extends StackedLimiter<infer Input> ? Input : never

/** The return type of a stack of these limiters. */
export type DecisionOf<Limiters, Given extends Store> = [Given, Limiters] extends [
  SyncStore,
  readonly SyncStackedLimiter<never>[],
]
  ? Decision
  : Given extends AsyncStore
    ? Promise<Decision>
    : MaybePromise<Decision>

const EACH = 'options such as { keyer, limits }. For limiters of createLimiter, write stack(one, other)'

const LIMITER_OPTIONS = ['keyer', 'limits', 'cost', 'name', 'onDecision', 'onSlotLost']

/** Returns the options of each limiter of a stack, with its name. Throws `INVALID_OPTION` or `UNKNOWN_OPTION`. */
export function limitersIn<Input>(options: StackOptions<Input>): (LimiterOptions<Input> & { readonly name: string })[] {
  const known = knownOptions('stack', options, ['limiters', 'name', ...STORE_OPTIONS])
  const { limiters, name = 'stack', ...common } = known
  within('stack', () => {
    validateCommon(known)
    receiptSettings(known)
  })
  if (!Array.isArray(limiters) || limiters.length === 0)
    refuse('stack: limiters', 'a list such as [{ keyer: everyone, limits: perMinute(1000) }]', limiters)
  return limiters.map((each: StackedLimiter<Input>, i) => {
    if (typeof each !== 'object' || each === null || 'consume' in each) refuse(`stack: limiters[${i}]`, EACH, each)
    return inLimiter(i, () => {
      for (const option of STORE_OPTIONS)
        if (Object.hasOwn(each, option))
          refuse(option, 'nothing in a limiter of a stack: write it once, beside `limiters`', each[option as never])
      const own = knownOptions('it', each, LIMITER_OPTIONS)
      return validateOptions({ ...common, ...own, name: own.name ?? `${name}-${i + 1}` })
    })
  })
}

/** Calls a function. Adds the place of the limiter in the stack to an error that it throws. */
export function inLimiter<Result>(i: number, call: () => Result): Result {
  return within(`stack: limiters[${i}]`, call)
}

function within<Result>(place: string, call: () => Result): Result {
  try {
    return call()
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error
    const hint =
      error.code === 'DUPLICATE_LIMITER'
        ? ' A limiter of a stack without a `name` is named after the `name` of the stack and its place.'
        : ''
    throw new SluiceError(error.code, `${place}: ${reasonOf(error)}${hint}`, { cause: error })
  }
}
