import type { Keyer, SyncKeyer } from './keyers.ts'
import type { Duration, Limit } from '../engine/limit.ts'
import type { OnDecision } from './decision.ts'
import type { OnSlotLost } from './lost-slots.ts'
import type { Limiter } from './contract.ts'
import type { InputReader } from './rule-source.ts'
import type { MaybePromise } from '../util/maybe-promise.ts'
import { type LeaseOptions, leaseSettings } from '../stores/lease-settings.ts'
import { assertStore, leasedBy, type Store, type SyncStore } from '../stores/store.ts'
import { boolean, knownOptions, optionalFunction, refuse, refuseUncalled } from '../util/validate.ts'
import { warnLater } from '../util/warn-later.ts'

/**
 * Returns the limits of an input. For an input that is not limited it returns `unlimited` or an empty array. If it returns `undefined` or
 * `null`, such as for a plan that is not in a table, the decision throws `INVALID_LIMIT`.
 * @example const byPlan: LimitFunc<User> = ({ plan }) => plans[plan] ?? plans.free
 */
export type LimitFunc<Input> = (input: Input) => MaybePromise<Limit | readonly Limit[]>
/** A LimitFunc that returns no promise. */
export type SyncLimitFunc<Input> = (input: Input) => Limit | readonly Limit[]
/**
 * The result of a LimitFunc for an input that is not limited: an empty list.
 * @example createLimiter({ keyer, limits: (user: User) => (user.isAdmin ? unlimited : perMinute(100)) })
 */
export const unlimited: readonly Limit[] = Object.freeze([])
/** A limit, a function that returns limits, or an array of both. */
export type Limits<Input> = Limit | LimitFunc<Input> | readonly (Limit | LimitFunc<Input>)[]
/** `Limits` without promises. */
export type SyncLimits<Input> = Limit | SyncLimitFunc<Input> | readonly (Limit | SyncLimitFunc<Input>)[]
/** Returns what an input costs against a limit: a whole number from 0. */
export type CostFunc<Input> = (input: Input, limit: Limit) => MaybePromise<number>
/** A CostFunc that returns no promise. */
export type SyncCostFunc<Input> = (input: Input, limit: Limit) => number

/** The names of `StoreOptions`. */
export const STORE_OPTIONS = ['store', 'lease', 'receiptFor', 'receiptSecret', 'shared'] as const

/** Options about the counts of a limiter, or of a stack of limiters. */
export interface StoreOptions {
  /**
   * The store that keeps the counts. The default is a new `memoryStore()`, with which each process counts alone. With a store such as
   * `redisStore(client)`, all processes count together.
   * @example createLimiter({ keyer, limits: perMinute(100), store: redisStore(client) })
   */
  readonly store?: Store
  /**
   * Charges a part of each quota ahead in a store such as Redis, and spends it in this process: true, or options such as `{ for: '500ms' }`.
   * Limits with `exact: true` are left out: see `lease`. A store that answers at once needs no lease. Default false.
   * @example createLimiter({ keyer, limits: perSecond(1000), store: redisStore(client), lease: true })
   */
  readonly lease?: boolean | LeaseOptions
  /**
   * How long a receipt can be used after the first `receipt` of a decision, and again after each `renew`: milliseconds, or a text such as `'1d'`, at
   * most `'366d'`. The store remembers for the same time what was done with a receipt. Default: the longest window of the limits, at least an hour and
   * at most a day. In a `stack`, the longest time applies.
   */
  readonly receiptFor?: Duration
  /**
   * A secret that signs receipts, so that only its owners can make or change one: a random text of at least 16 characters. In a list, the first secret signs,
   * and a signature by any of them is valid. `undefined`, such as from an environment variable that is not set, throws `INVALID_OPTION`. Without the
   * option, receipts only have a checksum.
   * @example createLimiter({ keyer, limits, store, receiptSecret: process.env.RECEIPT_SECRET! })
   */
  readonly receiptSecret?: string | readonly string[]
  /**
   * Shares the counts of another limiter with this name on this store. Default false: two such limiters are an error, unless their
   * definitions are equal. Functions are equal only if they are one function.
   */
  readonly shared?: boolean
}

/**
 * Options of `createLimiter`.
 * @example createLimiter({ keyer: (user: { id: string }) => user.id, limits: perMinute(100), name: 'api' })
 */
export interface LimiterOptions<Input> extends StoreOptions {
  /**
   * A function that returns the key of an input, such as the address of a client or the id of a user. Inputs with equal keys share
   * the quota, and all inputs without a key (`undefined`, `null` or `''`) share one.
   * @example createLimiter({ keyer: (user: { id: string }) => user.id, limits: perMinute(100) })
   * @example rateLimit({ keyer: byIP, limits: perMinute(100) })
   */
  readonly keyer: Keyer<Input>
  /**
   * The limits: a limit such as `perMinute(100)`, a function that returns the limits of an input, or an array of both. With several limits, an input is
   * admitted if all of them admit it. Otherwise it is charged to none.
   * @example createLimiter({ keyer, limits: [perSecond(10), perMinute(100)] })
   * @example createLimiter({ keyer, limits: ({ plan }: { plan: 'free' | 'paid' }) => perMinute(plan === 'paid' ? 1000 : 100) })
   */
  readonly limits: Limits<Input>
  /** Returns the cost of an input. Default 1. */
  readonly cost?: CostFunc<Input>
  /** Names this limiter's state in its store: different for each limiter of the store. Default `'default'`. */
  readonly name?: string
  /**
   * Called with each decision of `consume` and each admission by `wait`, after the decision is made; not for `peek`. It cannot change the
   * decision: a promise is not awaited, and an error becomes the warning `SLUICE_OUTCOME`. In a `stack` each limiter calls its own, with
   * the decision of the stack.
   * @example createLimiter({ keyer, limits, onDecision: ({ allowed }) => counter.add(1, { allowed }) })
   */
  readonly onDecision?: OnDecision<Input>
  /**
   * Called once for each decision and limit when a running request has lost a slot of `concurrent`, and another request may run in its place. A promise is
   * not awaited, and an error becomes the warning `SLUICE_OUTCOME`. In a `stack` each limiter calls its own. Default: the warning `SLUICE_SLOT_LOST`,
   * at most once a minute.
   * @example createLimiter({ keyer, limits: concurrent(10), onSlotLost: ({ limiter, slots }) => console.error(limiter, slots) })
   */
  readonly onSlotLost?: OnSlotLost
}

/** Options of a limiter that returns decisions, not promises. */
export interface SyncLimiterOptions<Input> extends LimiterOptions<Input> {
  readonly keyer: SyncKeyer<Input>
  readonly limits: SyncLimits<Input>
  readonly store?: SyncStore
  readonly cost?: SyncCostFunc<Input>
}

/** Marks the rules of all versions of the package. */
export const RULES: unique symbol = Symbol.for('sluice.Rules')

/**
 * The type of the option `rules`: the rules of `sluice/rules`. The code that matches documents is only there, so that programs without rules do not load
 * it.
 */
export interface RuleSource<Input> {
  /**
   * Makes a limiter from the rules. Throws as `createLimiter` does.
   * @param reader reads inputs. Default: they are plain objects
   */
  limiter(options: RulesLimiterOptions<Input>, reader?: InputReader<Input>): Limiter<Input>
}

/** Options of a limiter whose keys and limits come from rules. */
export interface RulesLimiterOptions<Input> extends StoreOptions {
  /** Rules of `sluice/rules`, in place of `keyer`, `limits` and `cost`. They may change while the limiter is in use. */
  readonly rules: RuleSource<Input>
  /** The first part of the name of each state. The name of the policy is the second part. Default `'rules'`. */
  readonly name?: string
  /** Leases all policies that have no `lease` of their own, as in `LimiterOptions`. Default false. */
  readonly lease?: boolean | LeaseOptions
  /** Called with each decision, as in `LimiterOptions`. */
  readonly onDecision?: OnDecision<Input>
  /** Called when a running request has lost a slot, as in `LimiterOptions`. */
  readonly onSlotLost?: OnSlotLost
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
  ...STORE_OPTIONS,
  'rules',
  'onSlotLost',
]
/** The names of the options of `createLimiter`. */
export const ALL_OPTIONS: readonly string[] = [...LIMITER_OPTIONS, 'onDecision']

/** Returns the own options. Throws `INVALID_OPTION` or `UNKNOWN_OPTION` with the option, what was expected and what was given. */
export function validateOptions<Options extends LimiterOptions<never>>(options: Options): Options {
  options = knownOptions('createLimiter', options, ALL_OPTIONS)
  const { keyer, limits, cost, name } = options
  if (Array.isArray(keyer))
    refuse('keyer', 'a function, such as keyers(byIP, byMethod) for a key of several parts', keyer)
  if (typeof keyer !== 'function')
    refuse('keyer', 'a function from an input to its key, such as byIP (without parentheses)', keyer)
  refuseUncalled('keyer', keyer)
  if (limits === undefined) refuse('limits', 'a limit, a function that returns limits, or an array of them', limits)
  for (const each of [limits].flat()) refuseUncalled('limits', each)
  if (Array.isArray(limits) && limits.length === 0) warnLater('SLUICE_NO_LIMITS', name ?? 'default')
  if (cost !== undefined && typeof cost !== 'function')
    refuse('cost', 'a function from an input and a limit to a number', cost)
  validateCommon(options)
  return options
}

type CommonLimiterOptions = StoreOptions & Pick<LimiterOptions<never>, 'name' | 'onDecision' | 'onSlotLost'>

/** Checks the options of limiters with and without rules. */
export function validateCommon({ name, store, lease, shared, onDecision, onSlotLost }: CommonLimiterOptions): void {
  if (name !== undefined && !(typeof name === 'string' && /^[\x20-\x7e]{1,256}$/.test(name)))
    refuse('name', '1 to 256 characters of printable ASCII', name)
  if (store !== undefined) assertStore('store', store)
  const isLeased = lease !== undefined && leaseSettings('lease', lease) !== undefined
  if (isLeased && store !== undefined && !store.sync && leasedBy(store).recall === undefined)
    refuse(
      'lease',
      'a store that has `wrappers` and is not guarded or cached yet, or guard(denyCache(lease(store))) without this option',
      lease,
    )
  if (shared !== undefined) boolean('shared', shared)
  optionalFunction('onDecision', onDecision)
  optionalFunction('onSlotLost', onSlotLost)
}
