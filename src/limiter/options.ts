import type { Keyer, SyncKeyer } from './keyers.ts'
import type { Limit } from '../limits/limit.ts'
import type { MaybePromise } from '../util/maybe-promise.ts'
import type { Store, SyncStore } from '../stores/store.ts'
import { boolean, knownOptions, refuse } from '../util/validate.ts'
import { warn } from '../util/warn.ts'

/** Returns the limits of an input. `undefined` or an empty array means no limit. */
export type LimitFunc<Input> = (input: Input) => MaybePromise<Limit | readonly Limit[] | undefined>
/** A LimitFunc that returns no promise. */
export type SyncLimitFunc<Input> = (input: Input) => Limit | readonly Limit[] | undefined
export type Limits<Input> = Limit | LimitFunc<Input> | readonly (Limit | LimitFunc<Input>)[]
export type SyncLimits<Input> = Limit | SyncLimitFunc<Input> | readonly (Limit | SyncLimitFunc<Input>)[]
/** Returns what an input costs against a limit: a whole number from 0. */
export type CostFunc<Input> = (input: Input, limit: Limit) => MaybePromise<number>
export type SyncCostFunc<Input> = (input: Input, limit: Limit) => number

export interface LimiterOptions<Input> {
  /** Returns the key of an input: who is counted. */
  readonly keyer: Keyer<Input>
  /** Limits, functions that return limits, or both. */
  readonly limits: Limits<Input>
  /** Returns the cost of an input. Default 1. */
  readonly cost?: CostFunc<Input>
  /** Names this limiter's state in its store. Default `'default'`. */
  readonly name?: string
  /** Where state is kept. Default: a new `memoryStore()`. */
  readonly store?: Store
  /** Shares the counts of another limiter with this name on this store. Default false: two such limiters are an error. */
  readonly shared?: boolean
}

/** Options of a limiter that returns decisions, not promises. */
export interface SyncLimiterOptions<Input> extends LimiterOptions<Input> {
  readonly keyer: SyncKeyer<Input>
  readonly limits: SyncLimits<Input>
  readonly cost?: SyncCostFunc<Input>
  readonly store?: SyncStore
}

/** The names of the options above. */
export const LIMITER_OPTIONS: readonly string[] = ['keyer', 'limits', 'cost', 'name', 'store', 'shared']

/** Throws `INVALID_OPTION` or `UNKNOWN_OPTION` with the option, what was expected and what was given. */
export function validateOptions(options: LimiterOptions<never>): void {
  knownOptions('createLimiter', options, LIMITER_OPTIONS)
  const { keyer, limits, cost, name, store, shared } = options
  if (typeof keyer !== 'function') refuse('keyer', 'a function from an input to its key, such as byIP', keyer)
  if (limits === undefined) refuse('limits', 'a limit, a function that returns limits, or an array of them', limits)
  if (Array.isArray(limits) && limits.length === 0)
    warn(
      'SLUICE_NO_LIMITS',
      `createLimiter: \`limits\` is empty, so limiter "${name ?? 'default'}" admits every request.`,
    )
  if (cost !== undefined && typeof cost !== 'function')
    refuse('cost', 'a function from an input and a limit to a number', cost)
  if (name !== undefined && !(typeof name === 'string' && /^[\x20-\x7e]{1,256}$/.test(name)))
    refuse('name', '1 to 256 characters of printable ASCII', name)
  if (store !== undefined && typeof store?.take !== 'function')
    refuse('store', 'a store such as memoryStore() or redisStore(client)', store)
  if (shared !== undefined) boolean('shared', shared)
}
