import { checkedCost, dedupe } from './charges.ts'
import { combine, type Decision } from './decision.ts'
import { shown, SluiceError } from '../util/errors.ts'
import type { Key } from './keyers.ts'
import type { Limit } from '../limits/limit.ts'
import { type LimiterOptions, type SyncLimiterOptions, validateOptions } from './options.ts'
import { all, chain, isPromise, type MaybePromise } from '../util/maybe-promise.ts'
import { ChargeBuilder } from './charge-builder.ts'
import { type AsyncStore, Charge, type Store, type DecisionMode } from '../stores/store.ts'
import { memoryStore } from '../stores/memory/index.ts'
import { knownOptions, refuse } from '../util/validate.ts'
import type { WaitOptions } from './waiter.ts'
import { WaitQueue } from './wait-queue.ts'

export interface ConsumeOptions {
  /** What it costs against every limit. Default: the limiter's `cost`, else 1. */
  readonly cost?: number
}

const CONSUME_OPTIONS = ['cost']

/** Nothing, when the limiter has done it. */
type Done<Answer> = Answer extends Promise<unknown> ? Promise<void> : void

/**
 * Decides. A denial is a value, never an exception; a keyer, LimitFunc or cost function that throws is an error of the
 * application and is passed on, with nothing charged.
 */
export interface Limiter<Input, Answer extends MaybePromise<Decision> = MaybePromise<Decision>> {
  /**
   * Decides, and charges if admitted. Throws `INVALID_COST`, `INVALID_KEY`, `INVALID_LIMIT`, `DUPLICATE_LIMIT`, and
   * `INVALID_OPTION` or `UNKNOWN_OPTION` for wrong options.
   */
  consume(input: Input, options?: ConsumeOptions): Answer
  /** What `consume` would say. Charges nothing. */
  peek(input: Input, options?: ConsumeOptions): Answer
  /**
   * Resolves when admitted, first come first served for each key, and at the time the decisions name; a `leakyBucket`'s delay
   * is waited for, too. Rejected with `WAIT_TOO_LONG` as soon as `maxWait` cannot be met, with `NEVER_ADMITTED` when the cost
   * can never be admitted, each with the decision that says so as its `cause` (none when `maxWait` has simply passed), or
   * with the signal's reason.
   * @example await limiter.wait(user, { maxWait: 5000 })
   */
  wait(input: Input, options?: WaitOptions): Promise<Decision>
  /** Undoes a decision, once; a second call, or one for a denial, does nothing. Throws `INVALID_OPTION` for what is none. */
  refund(decision: Decision): Done<Answer>
  /**
   * Charges what it really cost instead of what was charged, once; past any limit, as a debt, when that is more. For limits
   * that count different things give a function. Throws `INVALID_COST`.
   * @example limiter.settle(decision, usage.totalTokens)
   */
  settle(decision: Decision, actualCost: number | ((limit: Limit) => number)): Done<Answer>
  /** Forgets this input's key under every limit. */
  reset(input: Input): Done<Answer>
}

/** Of limiters, by what their stores count in. */
const names = new WeakMap<object, Set<string>>()

/**
 * Makes a limiter: who asks, how often they may, and where that is remembered. It answers at once when keyer, limits, cost
 * and store do, and with a Promise when not.
 *
 * Throws `SluiceError`: `INVALID_OPTION`, `UNKNOWN_OPTION`, `DUPLICATE_LIMIT` for two limits of one name, `DUPLICATE_LIMITER`
 * for two limiters of one name on one store, or on stores that count in the same place.
 * @example
 * const limiter = createLimiter({ keyer: (user: { id: string }) => user.id, limits: [perSecond(10), perMinute(100)] })
 * if (!limiter.consume(user).allowed) throw new Error('slow down')
 */
export function createLimiter<Input>(options: SyncLimiterOptions<Input>): Limiter<Input, Decision>
export function createLimiter<Input>(
  options: LimiterOptions<Input> & { readonly store: AsyncStore },
): Limiter<Input, Promise<Decision>>
export function createLimiter<Input>(
  options: LimiterOptions<Input> & { readonly keyer: (input: Input) => Promise<Key | undefined> },
): Limiter<Input, Promise<Decision>>
export function createLimiter<Input>(options: LimiterOptions<Input>): Limiter<Input>
export function createLimiter<Input>(options: LimiterOptions<Input>): Limiter<Input> {
  validateOptions(options)
  const name = options.name ?? 'default'
  const store = options.store ?? memoryStore()
  const builder = new ChargeBuilder(options, name, store)
  register(name, store, options.shared ?? false)
  return new DefaultLimiter([builder], store)
}

/**
 * Several limiters as one: every limit of every one admits, or nothing is charged anywhere.
 * Throws `STORE_MISMATCH` when they do not share a store, and `INVALID_OPTION` when given none, or what is no limiter.
 * @example const both = stack(perUser, perResource)
 */
export function stack<Input>(...limiters: readonly Limiter<Input, Decision>[]): Limiter<Input, Decision>
export function stack<Input>(
  ...limiters: readonly Limiter<Input, Promise<Decision>>[]
): Limiter<Input, Promise<Decision>>
export function stack<Input>(...limiters: readonly Limiter<Input>[]): Limiter<Input>
export function stack<Input>(...limiters: readonly Limiter<Input>[]): Limiter<Input> {
  const builders = limiters.flatMap((each) => DefaultLimiter.builders(each))
  const store = builders[0]?.store
  if (store === undefined) refuse('stack', 'one limiter or more', undefined)
  for (const builder of builders) {
    if (builder.store === store || store.joins?.(builder.store)) continue
    throw new SluiceError(
      'STORE_MISMATCH',
      `Limiters "${builders[0]!.name}" and "${builder.name}" are on different stores; give both the same \`store\``,
    )
  }
  return new DefaultLimiter(builders, store)
}

class DefaultLimiter<Input> implements Limiter<Input> {
  readonly #builders: readonly ChargeBuilder<Input>[]
  readonly #store: Store
  readonly #closed = new WeakSet<Decision>()
  readonly #room: WaitQueue

  constructor(builders: readonly ChargeBuilder<Input>[], store: Store) {
    this.#builders = builders
    this.#store = store
    this.#room = new WaitQueue(store, (decision) => this.refund(decision))
  }

  static builders<Input>(limiter: Limiter<Input>): readonly ChargeBuilder<Input>[] {
    if (limiter instanceof DefaultLimiter) return limiter.#builders as readonly ChargeBuilder<Input>[]
    return refuse('stack', 'limiters made by createLimiter or stack, each an argument', limiter)
  }

  consume(input: Input, options?: ConsumeOptions): MaybePromise<Decision> {
    return this.#decide(input, 'consume', options)
  }

  peek(input: Input, options?: ConsumeOptions): MaybePromise<Decision> {
    return this.#decide(input, 'peek', options)
  }

  async wait(input: Input, options: WaitOptions = {}): Promise<Decision> {
    knownOptions('wait', options, ['cost', 'maxWait', 'signal'])
    return this.#room.enter(await this.#charges(input, options.cost), options)
  }

  refund(decision: Decision): MaybePromise<void> {
    return this.#close(decision, () => 0)
  }

  settle(decision: Decision, actualCost: number | ((limit: Limit) => number)): MaybePromise<void> {
    return this.#close(decision, typeof actualCost === 'function' ? actualCost : () => actualCost)
  }

  reset(input: Input): MaybePromise<void> {
    const done = this.#builders.map((builder) =>
      chain(builder.key(input), (key) => builder.store.forget(builder.name, key)),
    )
    return chain(all<void>(done), () => undefined)
  }

  #decide(input: Input, mode: DecisionMode, options: ConsumeOptions | undefined): MaybePromise<Decision> {
    const store = this.#store
    if (!store.sync) return this.#decideLater(store, input, mode, options)
    const charges = this.#charges(input, costIn(options, mode))
    if (isPromise(charges)) return charges.then((known) => combine(known, store.take(known, mode)))
    return combine(charges, store.take(charges, mode))
  }

  async #decideLater(
    store: AsyncStore,
    input: Input,
    mode: DecisionMode,
    options: ConsumeOptions | undefined,
  ): Promise<Decision> {
    const given = this.#charges(input, costIn(options, mode))
    const charges = isPromise(given) ? await given : given
    return combine(charges, charges.length === 0 ? undefined : await store.take(charges, mode))
  }

  #charges(input: Input, cost: number | undefined): MaybePromise<Charge[]> {
    if (this.#builders.length === 1) return this.#builders[0]!.charges(input, cost)
    return chain(all(this.#builders.map((builder) => builder.charges(input, cost))), (known) => dedupe(known.flat()))
  }

  /** Replaces what a decision charged by `actual`, whatever the limits say. */
  #close(decision: Decision, actual: (limit: Limit) => number): MaybePromise<void> {
    const charges = chargesOf(decision)
    if (!decision.allowed || this.#closed.has(decision)) return
    const units = charges.map((charge) => difference(charge, checkedCost(actual(charge.limit))))
    this.#closed.add(decision)
    return this.#store.adjust(charges, units)
  }
}

/** The cost that `consume` or `peek` is told. */
function costIn(options: ConsumeOptions | undefined, mode: DecisionMode): number | undefined {
  if (options === undefined) return undefined
  knownOptions(mode === 'peek' ? 'peek' : 'consume', options, CONSUME_OPTIONS)
  return options.cost
}

function chargesOf(decision: Decision): readonly Charge[] {
  const limits: unknown = (decision as Decision | undefined)?.limits
  if (Array.isArray(limits) && limits.every((each) => each instanceof Charge)) return limits
  return refuse('decision', 'one that consume or wait has given, awaited where it is promised', decision)
}

/** In the units in which it was charged: an algorithm may have weighed the cost. A denial in shadow charged nothing. */
function difference(charge: Charge, actual: number): number {
  if (!charge.allowed) return 0
  return charge.cost === 0 ? actual : actual * (charge.charged / charge.cost) - charge.charged
}

function register(name: string, store: Store, shared: boolean): void {
  const { identity = store } = store
  const taken = names.get(identity) ?? new Set<string>()
  if (taken.has(name) && !shared) {
    throw new SluiceError(
      'DUPLICATE_LIMITER',
      `There is a limiter named ${shown(name)} already that counts in the same place. ` +
        'Give this one another `name`, or say `shared: true` if they are to count together.',
    )
  }
  names.set(identity, taken.add(name))
}
