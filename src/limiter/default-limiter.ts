import { chargedNothing, chargesOf, difference } from './charged.ts'
import { checkedCost, dedupe } from './charges.ts'
import type { ConsumeOptions, KeyedLimiter, Penalty } from './contract.ts'
import { combine, type Decision } from './decision.ts'
import { givenKey, handleOf, noSingleKey } from './key-handle.ts'
import type { Key } from './keyers.ts'
import { type Duration, type Limit, warnIfShort } from '../limits/limit.ts'
import { LONGEST_LOCK } from '../limits/block.ts'
import { chain, collect, isPromise, type MaybePromise } from '../util/maybe-promise.ts'
import type { ChargeSource } from './charge-source.ts'
import type { LockMode } from '../engine/adjust.ts'
import {
  type AsyncStore,
  type Charge,
  type DecisionMode,
  perform,
  type Store,
  type SyncStore,
} from '../stores/store.ts'
import { brand, shared } from '../util/copies.ts'
import { knownOptions, milliseconds, refuse } from '../util/validate.ts'
import { warn } from '../util/warn.ts'
import { denialOf, type WaitOptions } from './waiter.ts'
import { decisions } from './events.ts'
import { countHeld } from './held.ts'
import { LIMITER, type OwnLimiter } from './own-limiter.ts'
import { type WaitQueue, waitQueueOf } from './wait-queue.ts'

/** Decisions that were refunded or settled. They change nothing any more. */
const closed = shared('closed decisions', () => new WeakSet<Decision>())

/** The limiter behind `createLimiter` and `stack`. */
export class DefaultLimiter<Input> implements OwnLimiter<Input> {
  readonly #builders: readonly ChargeSource<Input>[]
  readonly #observers: readonly ChargeSource<Input>[]
  readonly #store: Store
  readonly #queue: WaitQueue
  readonly #warned = new Set<string>()
  /** What adapters made of this limiter. */
  readonly #variants = new Map<unknown, DefaultLimiter<Input>>()

  readonly name: string

  constructor(builders: readonly ChargeSource<Input>[], store: Store) {
    this.#builders = builders
    this.#observers = [...new Set(builders)].filter((builder) => builder.decided !== undefined)
    this.name = [...new Set(builders.map(({ name }) => name))].join('+')
    this.#store = store
    this.#queue = waitQueueOf(store)
  }

  get sources(): readonly ChargeSource<Input>[] {
    return this.#builders
  }

  get store(): Store {
    return this.#store
  }

  variant(
    id: unknown,
    store: Store,
    change: (builder: ChargeSource<Input>) => ChargeSource<Input>,
  ): DefaultLimiter<Input> {
    const variant = this.#variants.get(id) ?? new DefaultLimiter(this.#builders.map(change), store)
    this.#variants.set(id, variant)
    return variant
  }

  consume(input: Input, options?: ConsumeOptions): MaybePromise<Decision> {
    if (decisions.hasSubscribers || this.#observers.length > 0) return this.#consumeObserved(input, options)
    return this.#decide(input, 'consume', options)
  }

  peek(input: Input, options?: ConsumeOptions): MaybePromise<Decision> {
    return this.#decide(input, 'peek', options)
  }

  async wait(input: Input, options: WaitOptions = {}): Promise<Decision> {
    knownOptions('wait', options, ['cost', 'maxWait', 'maxQueue', 'signal'])
    const given = this.#charges(input, options.cost)
    const charges = isPromise(given) ? await given : given
    const began = performance.now()
    const release = countHeld(this.name)
    try {
      const decision = await this.#queue.enter(this.#store, charges, options, (held) => this.refund(held))
      return this.#published(input, this.#observed(input, options.cost, decision), began)
    } catch (error) {
      const denial = denialOf(error)
      if (denial !== undefined) this.#published(input, denial, began)
      throw error
    } finally {
      release()
    }
  }

  refund(decision: Decision): MaybePromise<void> {
    return this.#close(decision, () => 0)
  }

  settle(decision: Decision, actualCost: number | ((limit: Limit) => number)): MaybePromise<void> {
    return this.#close(decision, typeof actualCost === 'function' ? actualCost : () => actualCost)
  }

  reset(input: Input): MaybePromise<void> {
    const done = collect([...this.#variants.values(), ...this.#builders], (each) =>
      each instanceof DefaultLimiter ? each.reset(input) : forgetIn(each, input),
    )
    return chain(done, () => this.#queue.wake())
  }

  block(input: Input, duration: Duration): MaybePromise<void> {
    return this.#lock(input, checkedLength('block', duration), 'set')
  }

  pause(input: Input, duration: Duration): MaybePromise<void> {
    return this.#lock(input, checkedLength('pause', duration), 'extend')
  }

  penalize(input: Input, units: Penalty): MaybePromise<void> {
    const unitsOf = typeof units === 'function' ? units : () => units
    const guarded = this.#guards()[0] ?? this
    return chain(guarded.#charges(input, 1), (charges) => {
      const added = charges.map(({ limit }) => checkedCost(unitsOf(limit), 'units'))
      if (charges.length === 0) return this.#warnUnlimited()
      const done = perform(guarded.#store, { kind: 'adjust', charges, units: added })
      return chain(done, () => this.#changed(charges))
    })
  }

  key(key: Key | readonly (Key | undefined)[], ...input: readonly [Input?]): KeyedLimiter {
    return handleOf(this.#withKey(givenKey(key), input.length > 0), input[0] as Input)
  }

  /** Returns the same limiter, and the same variants of it, for one key. */
  #withKey(key: Key, hasInput: boolean): DefaultLimiter<Input> {
    const [builder] = this.#builders
    if (builder?.withKey === undefined || this.#builders.length > 1) throw noSingleKey()
    const keyed = new DefaultLimiter([builder.withKey(key, hasInput)], this.#store)
    for (const [id, variant] of this.#variants) keyed.#variants.set(id, variant.#withKey(key, hasInput))
    return keyed
  }

  /** The variants that adapters have guarded. They count in the same place as this limiter. */
  #guards(): DefaultLimiter<Input>[] {
    return [...this.#variants.values()].filter((each) => each.#store !== this.#store)
  }

  /** Locks the keys of an input here and in what adapters made of this limiter. */
  #lock(input: Input, ms: number, mode: LockMode): MaybePromise<void> {
    const own = this.#guards().length === 0 ? [this] : []
    const done = collect([...this.#variants.values(), ...own], (each) =>
      each === this ? this.#lockOwn(input, ms, mode) : each.#lock(input, ms, mode),
    )
    return chain(done, () => undefined)
  }

  #lockOwn(input: Input, ms: number, mode: LockMode): MaybePromise<void> {
    return chain(this.#charges(input, 1), (charges) => {
      const enforced = charges.filter(({ policy }) => policy.compiled.enforced)
      if (enforced.length === 0) return this.#warnUnlimited()
      const done = perform(this.#store, { kind: 'lock', charges: enforced, ms, mode })
      return chain(done, () => this.#changed(charges))
    })
  }

  /** Waiters may have to wait longer than was predicted, or shorter. */
  #changed(charges: readonly Charge[]): void {
    for (const each of [this, ...this.#variants.values()]) each.#queue.wake(charges)
  }

  // A function with a closure allocates the variables of the closure at each call, so those of rare cases are on their own.
  #consumeObserved(input: Input, options: ConsumeOptions | undefined): MaybePromise<Decision> {
    const isPublished = decisions.hasSubscribers
    const began = isPublished && !this.#store.sync ? performance.now() : undefined
    return chain(this.#decide(input, 'consume', options), (decision) => {
      this.#observed(input, options?.cost, decision)
      return isPublished ? this.#published(input, decision, began) : decision
    })
  }

  /** `began` is `undefined` for a store that answers at once. */
  #published(input: Input, decision: Decision, began: number | undefined): Decision {
    const duration = began === undefined ? 0 : performance.now() - began
    decisions.publish({ limiter: this.name, decision, input, duration })
    return decision
  }

  #observed(input: Input, cost: number | undefined, decision: Decision): Decision {
    for (const observer of this.#observers) observer.decided!(input, cost, decision)
    return decision
  }

  #decide(input: Input, mode: DecisionMode, options: ConsumeOptions | undefined): MaybePromise<Decision> {
    const store = this.#store
    if (!store.sync) return this.#decideLater(store, input, mode, options)
    const charges = this.#charges(input, costIn(options, mode))
    return Array.isArray(charges) ? this.#take(store, charges, mode) : this.#takeLater(store, charges, mode)
  }

  #takeLater(store: SyncStore, charges: Promise<Charge[]>, mode: DecisionMode): Promise<Decision> {
    return charges.then((known) => this.#take(store, known, mode))
  }

  /** Requests that wait are served first: while there are any, a decision on the same limits and keys is a denial. */
  #take(store: SyncStore, charges: readonly Charge[], mode: DecisionMode): MaybePromise<Decision> {
    if (this.#queue.waiters.size > 0 && this.#queue.isAheadOf(charges)) return this.#queue.deny(store, charges)
    return combine(charges, perform(store, { kind: mode, charges, fresh: false }))
  }

  async #decideLater(
    store: AsyncStore,
    input: Input,
    mode: DecisionMode,
    options: ConsumeOptions | undefined,
  ): Promise<Decision> {
    const given = this.#charges(input, costIn(options, mode))
    const charges = isPromise(given) ? await given : given
    if (this.#queue.waiters.size > 0 && this.#queue.isAheadOf(charges)) return this.#queue.deny(store, charges)
    if (charges.length === 0) return combine(charges, undefined)
    return combine(charges, await perform(store, { kind: mode, charges, fresh: false }))
  }

  #charges(input: Input, cost: number | undefined): MaybePromise<Charge[]> {
    return this.#builders.length === 1 ? this.#builders[0]!.charges(input, cost) : this.#allCharges(input, cost)
  }

  #allCharges(input: Input, cost: number | undefined): MaybePromise<Charge[]> {
    const charges = collect(this.#builders, (builder) => builder.charges(input, cost))
    return chain(charges, (known) => dedupe(known.flat()))
  }

  /** Replaces what a decision charged by `actual`, past any limit. */
  #close(decision: Decision, actual: (limit: Limit) => number): MaybePromise<void> {
    const charges = chargesOf(decision)
    if (closed.has(decision)) return
    if (chargedNothing(decision, charges)) return this.#warnUncharged(decision)
    const units = charges.map((charge) => difference(charge, checkedCost(actual(charge.limit))))
    closed.add(decision)
    // The store that decided: an adapter may have guarded it.
    const store = charges[0]?.policy.store ?? this.#store
    return chain(perform(store, { kind: 'adjust', charges, units }), () => this.#queue.wake(charges))
  }

  #warnUncharged({ allowed }: Decision): void {
    const kind = allowed ? 'from `peek`' : 'that denied the request'
    const mistake = `refund or settle was called with a decision ${kind}. It charged nothing, so nothing changes.`
    this.#warnOnce('SLUICE_NOT_CHARGED', mistake)
  }

  #warnUnlimited(): void {
    const mistake = 'block, pause or penalize was called for an input that no limit can deny, so nothing changes.'
    this.#warnOnce('SLUICE_NOT_LIMITED', mistake)
  }

  #warnOnce(code: string, message: string): void {
    if (!this.#warned.has(code)) warn(code, message)
    this.#warned.add(code)
  }
}

/** Deletes the state of an input under the limits of a source. */
function forgetIn<Input>(source: ChargeSource<Input>, input: Input): MaybePromise<void> {
  return chain(source.buckets(input), (buckets) => {
    const done = collect(buckets, ({ limiter, key }) => perform(source.store, { kind: 'forget', limiter, key }))
    return chain(done, () => undefined)
  })
}

/** Returns the milliseconds of a lock-out, from 0. Throws `INVALID_OPTION`. */
function checkedLength(method: string, duration: Duration): number {
  if (duration === 0) return 0
  const ms = milliseconds(`${method}: duration`, duration)
  if (ms > LONGEST_LOCK) refuse(`${method}: duration`, "at most '36525d', 100 years", duration)
  warnIfShort(`${method}: duration`, duration)
  return ms
}

const CONSUME_OPTIONS = ['cost']

/** Returns the cost in the options of `consume` or `peek`. */
function costIn(options: ConsumeOptions | undefined, mode: DecisionMode): number | undefined {
  if (options === undefined) return undefined
  knownOptions(mode === 'peek' ? 'peek' : 'consume', options, CONSUME_OPTIONS)
  return options.cost
}

brand(DefaultLimiter, LIMITER)
