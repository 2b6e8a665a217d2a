import type { Keyer, SyncKeyer } from './keyers.ts'
import type { Limit } from '../engine/limit.ts'
import type { OnDecision } from './decision.ts'
import { RULES, type RuleSource } from './rule-source.ts'
import type { MaybePromise } from '../util/maybe-promise.ts'
import { type LeaseOptions, leaseSettings, leasing } from '../stores/lease.ts'
import { assertStore, type Store, type SyncStore } from '../stores/store.ts'
import { refuseOtherVersion } from '../util/copies.ts'
import { boolean, knownOptions, refuse, refuseUncalled } from '../util/validate.ts'
import { warn } from '../util/warn.ts'

/** Returns the limits of an input. `undefined` or an empty array means no limit. */
export type LimitFunc<Input> = (input: Input) => MaybePromise<Limit | readonly Limit[] | undefined>
/** A LimitFunc that returns no promise. */
export type SyncLimitFunc<Input> = (input: Input) => Limit | readonly Limit[] | undefined
/** A limit, a function that returns limits, or an array of both. */
export type Limits<Input> = Limit | LimitFunc<Input> | readonly (Limit | LimitFunc<Input>)[]
/** `Limits` without promises. */
export type SyncLimits<Input> = Limit | SyncLimitFunc<Input> | readonly (Limit | SyncLimitFunc<Input>)[]
/** Returns what an input costs against a limit: a whole number from 0. */
export type CostFunc<Input> = (input: Input, limit: Limit) => MaybePromise<number>
/** A CostFunc that returns no promise. */
export type SyncCostFunc<Input> = (input: Input, limit: Limit) => number

/**
 * Options of `createLimiter`.
 * @example createLimiter({ keyer: (user: { id: string }) => user.id, limits: perMinute(100), name: 'api' })
 */
export interface LimiterOptions<Input> {
  /** Returns the key of an input: who is counted. */
  readonly keyer: Keyer<Input>
  /** Limits, functions that return limits, or both. */
  readonly limits: Limits<Input>
  /** Returns the cost of an input. Default 1. */
  readonly cost?: CostFunc<Input>
  /** Names this limiter's state in its store: different for each limiter of the store. Default `'default'`. */
  readonly name?: string
  /** Where state is kept. Default: a new `memoryStore()`. */
  readonly store?: Store
  /**
   * Charges a part of each quota ahead in a store such as Redis, and spends it in this process: true, or options such as `{ for: '500ms' }`.
   * Limits with `exact: true` are left out: see `lease`. A store that answers at once needs no lease. Default false.
   * @example createLimiter({ keyer, limits: perSecond(1000), store: redisStore(client), lease: true })
   */
  readonly lease?: boolean | LeaseOptions
  /**
   * Shares the counts of another limiter with this name on this store. Default false: two such limiters are an error, unless their
   * definitions are equal. Functions are equal only if they are one function.
   */
  readonly shared?: boolean
  /**
   * Called with each decision of `consume` and each admission by `wait`, after the decision is made; not for `peek`. It cannot change the
   * decision: a promise is not awaited, and an error becomes the warning `SLUICE_OUTCOME`. In a `stack` each limiter calls its own, with
   * the decision of the stack.
   * @example createLimiter({ keyer, limits, onDecision: ({ allowed }) => counter.add(1, { allowed }) })
   */
  readonly onDecision?: OnDecision<Input>
}

/** Options of a limiter that returns decisions, not promises. */
export interface SyncLimiterOptions<Input> extends LimiterOptions<Input> {
  readonly keyer: SyncKeyer<Input>
  readonly limits: SyncLimits<Input>
  readonly cost?: SyncCostFunc<Input>
  readonly store?: SyncStore
}

/** Options of a limiter whose keys and limits come from rules. */
export interface RulesLimiterOptions<Input> {
  /** Rules of `sluice/rules`, in place of `keyer`, `limits` and `cost`. They may change while the limiter is in use. */
  readonly rules: RuleSource<Input>
  /** The state of a policy is under this name and the policy's. Default `'rules'`. */
  readonly name?: string
  /** Where state is kept. Default: a new `memoryStore()`. */
  readonly store?: Store
  /** Leases all policies that do not say `lease` themselves, as in `LimiterOptions`. Default false. */
  readonly lease?: boolean | LeaseOptions
  /**
   * Shares the counts of another limiter with this name on this store. Default false: two such limiters are an error, unless their
   * definitions are equal. Functions are equal only if they are one function.
   */
  readonly shared?: boolean
  /** Called with each decision, as in `LimiterOptions`. */
  readonly onDecision?: OnDecision<Input>
  /** Not with rules. */
  readonly keyer?: never
  /** Not with rules. */
  readonly limits?: never
  /** Not with rules. */
  readonly cost?: never
}

/** The names of the options above that adapters pass on. An adapter calls its `onDecision` itself, once the headers are written. */
export const LIMITER_OPTIONS: readonly string[] = [
  'keyer',
  'limits',
  'cost',
  'name',
  'store',
  'lease',
  'shared',
  'rules',
]
const ALL_OPTIONS: readonly string[] = [...LIMITER_OPTIONS, 'onDecision']

/** Throws `INVALID_OPTION` or `UNKNOWN_OPTION` with the option, what was expected and what was given. */
export function validateOptions(options: LimiterOptions<never>): void {
  knownOptions('createLimiter', options, ALL_OPTIONS)
  const { keyer, limits, cost, name } = options
  if (typeof keyer !== 'function')
    refuse('keyer', 'a function from an input to its key, such as byIP (without parentheses)', keyer)
  refuseUncalled('keyer', keyer)
  if (limits === undefined) refuse('limits', 'a limit, a function that returns limits, or an array of them', limits)
  for (const each of [limits].flat()) refuseUncalled('limits', each)
  if (Array.isArray(limits) && limits.length === 0)
    warn(
      'SLUICE_NO_LIMITS',
      `createLimiter: \`limits\` is empty, so limiter "${name ?? 'default'}" admits every request.`,
    )
  if (cost !== undefined && typeof cost !== 'function')
    refuse('cost', 'a function from an input and a limit to a number', cost)
  validateCommon(options)
}

/** Throws `INVALID_OPTION` or `UNKNOWN_OPTION` for wrong options of a limiter with rules. */
export function validateRulesOptions(options: RulesLimiterOptions<never>): void {
  knownOptions('createLimiter', options, ALL_OPTIONS)
  for (const option of ['keyer', 'limits', 'cost'] as const) {
    if (options[option] !== undefined)
      refuse(option, 'nothing together with `rules`, which have their own', options[option])
  }
  refuseOtherVersion('rules', options.rules, RULES)
  if (typeof options.rules?.chargeSource !== 'function') {
    const hint = 'rules of sluice/rules, such as await rulesFile(path) or createRules(document)'
    refuse('rules', hint, options.rules)
  }
  validateCommon(options)
}

type CommonLimiterOptions = Pick<LimiterOptions<never>, 'name' | 'store' | 'lease' | 'shared' | 'onDecision'>

/** Checks the options that do not depend on where limits come from. */
function validateCommon({ name, store, lease, shared, onDecision }: CommonLimiterOptions): void {
  if (name !== undefined && !(typeof name === 'string' && /^[\x20-\x7e]{1,256}$/.test(name)))
    refuse('name', '1 to 256 characters of printable ASCII', name)
  if (store !== undefined) assertStore('store', store)
  const isLeased = lease !== undefined && leaseSettings('lease', lease) !== undefined
  if (isLeased && store !== undefined && !store.sync && leasing(store).recall === undefined)
    refuse(
      'lease',
      'a store that is not guarded or cached yet, or guard(denyCache(lease(store))) without this option',
      lease,
    )
  if (shared !== undefined) boolean('shared', shared)
  if (onDecision !== undefined && typeof onDecision !== 'function') refuse('onDecision', 'a function', onDecision)
}
