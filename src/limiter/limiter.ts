import {
  type AsyncStore,
  type Charge,
  decideTogether,
  type DecisionMode,
  type Degraded,
  isCharge,
  decideAtOnce,
  perform,
  type ReceiptUse,
  renewParameters,
  type Store,
  type SyncStore,
} from '../stores/store.ts'
import { brand, hasBrand, refuseOtherVersion, shared, WeakValues } from '../util/copies.ts'
import { chargedNothing, chargesOf, type ChargeSource, checkedCost, dedupe, difference } from './charges.ts'
import type { AnswerOfAll, ConsumeOptions, InputOfAll, KeyedLimiter, Limiter, Penalty } from './contract.ts'
import { type Duration, limit, type Limit, warnIfShort } from '../engine/limit.ts'
import { isMemoryPlace } from '../stores/memory/key-counts.ts'
import { shown, SluiceError, textOf } from '../util/errors.ts'
import { composeKey, isEqual, type Key, normalizeKey } from './keyers.ts'
import {
  type LimiterOptions,
  type RulesLimiterOptions,
  type SyncLimiterOptions,
  validateOptions,
  validateRulesOptions,
} from './options.ts'
import { chain, collect, isPromise, type MaybePromise } from '../util/maybe-promise.ts'
import { combine, type Decision, decisionObserver, decisions } from './decision.ts'
import { countHeld, denialOf, type WaitOptions, type WaitQueue, waitQueueOf } from './wait.ts'
import { LONGEST_LOCK } from '../engine/compiled-limit.ts'
import type { LockMode, Renewed } from '../engine/adjust.ts'
import { knownOptions, milliseconds, refuse, ownOptions } from '../util/validate.ts'
import { rareWarning, warn } from '../util/warn.ts'
import { guarded } from '../stores/guard/index.ts'
import { ChargeBuilder } from './charge-builder.ts'
import { type InputReader, plainReader, type RulesInput } from './rule-source.ts'
import { decisionOf, isOver, type Receipt, receiptIn, receiptOf, useOf } from './receipt.ts'
import { receiptSettings } from './receipt-settings.ts'
import { noticeAdded, noticeDecision, thresholds } from './thresholds.ts'
import { copyText } from '../util/bounded-key.ts'
import {
  type DecisionOf,
  inLimiter,
  type InputOf,
  limitersIn,
  type StackedLimiter,
  type StackOptions,
  type SyncStackOptions,
} from './stack.ts'
import { leaseSettings, leasing } from '../stores/lease.ts'
import { checkInBackground } from '../stores/setup.ts'
import { memoryStore } from '../stores/memory/index.ts'

export type { ConsumeOptions, Limiter } from './contract.ts'

/** The limiters of each version of the package. */
const LIMITER: unique symbol = Symbol.for('sluice.Limiter')

/** A limiter of `createLimiter` or `stack`: of this copy of the package, or of another one. */
export interface OwnLimiter<Input> extends Limiter<Input> {
  /** The names of the parts, joined. */
  readonly name: string
  readonly store: Store
  /** The parts that make the charges. */
  readonly sources: readonly ChargeSource<Input>[]
  /**
   * Ends a decision in one adjustment: replaces what its limits have charged by `actual`, past any limit, unless that is undefined, and
   * gives its slots back if `releases` is true. Each happens once.
   */
  end(decision: Decision, actual: ((limit: Limit) => number) | undefined, releases: boolean): MaybePromise<void>
  /** Returns a limiter with the same limits, with each part changed. It is made once for each `id`. */
  variant(id: unknown, store: Store, change: (source: ChargeSource<Input>) => ChargeSource<Input>): OwnLimiter<Input>
}

/** Returns false for a limiter that another program implements. Throws `VERSION_MISMATCH` for one of another version of the package. */
export function isOwn<Input>(limiter: Limiter<Input>): limiter is OwnLimiter<Input> {
  refuseOtherVersion('limiter', limiter, LIMITER)
  return hasBrand(limiter, LIMITER)
}

/** Returns the parts of a limiter that was made by `createLimiter` or `stack`; nothing for any other limiter. */
export function chargeSourcesOf<Input>(limiter: Limiter<Input>): readonly ChargeSource<Input>[] {
  return isOwn(limiter) ? limiter.sources : []
}

type Options = LimiterOptions<never> | RulesLimiterOptions<never>

/** Identifies the counts of limiters. It is registered while one of them is in use. */
class Home {
  readonly options: Options
  /** The home that was registered first under its name, so that it stays registered. */
  readonly first: Home | undefined

  constructor(options: Options, first: Home | undefined) {
    this.options = options
    this.first = first
  }
}

/** By the places of stores, then by name. */
const homes = shared('homes', () => new WeakMap<object, WeakValues<Home>>())

/**
 * Returns the home of a limiter, an object that identifies its counts. Limiters whose definitions are equal data have one home. Throws
 * `DUPLICATE_LIMITER` when another limiter on the store has the name, unless one of the two is `shared`.
 */
function homeOf(name: string, store: Store, options: Options): Home {
  const first = homes.get(store.place)?.get(name)
  if (first === undefined) return new Home(options, undefined)
  const difference = differenceOf(first.options, options)
  if (difference === undefined) return first
  if (!areShared(first.options, options)) throw duplicate(name, options, difference)
  return new Home(options, first)
}

/** Returns true for a limiter that was given no store, or a memory store that no limiter has used yet. Call it before `register`. */
function countsFromZero(given: Store | undefined): boolean {
  if (given === undefined) return true
  return isMemoryPlace(given.place) && !homes.has(given.place)
}

/** Registers a limiter under its name. The first one with a name stays registered. */
export function register(name: string, store: Store, home: Home): void {
  const known = homes.get(store.place) ?? new WeakValues<Home>()
  homes.set(store.place, known)
  if (known.get(name) === undefined) known.set(name, home)
}

/** Returns true for the home of a limiter with `shared: true`. */
export function isSharedHome(home: object): boolean {
  return (home as Home).options.shared === true
}

function areShared(one: Options, other: Options): boolean {
  return one.shared === true || other.shared === true
}

/** What a definition consists of. */
const PARTS = ['keyer', 'limits', 'cost', 'rules'] as const

/** Returns the first part in which two definitions are not equal data. */
function differenceOf(one: Options, other: Options): (typeof PARTS)[number] | undefined {
  const [some, others] = [definitionIn(one), definitionIn(other)]
  return PARTS.find((part) => !isEqual(some[part], others[part]))
}

function definitionIn(options: Options): Readonly<Record<(typeof PARTS)[number], unknown>> {
  const { keyer, limits, cost, rules } = options as { readonly [part in (typeof PARTS)[number]]?: unknown }
  return { keyer, limits: limits === undefined ? [] : [limits].flat().map(normalized), cost, rules }
}

/** Limits of the same meaning are equal data, however they are written. */
function normalized(source: unknown): unknown {
  return typeof source === 'object' && source !== null ? limit(source as Parameters<typeof limit>[0]) : source
}

function duplicate(name: string, options: Options, difference: string): SluiceError {
  const named =
    options.name === undefined
      ? `Two limiters without a \`name\` use the same store, so both are ${shown(name)}`
      : `Two limiters named ${shown(name)} use the same store`
  return new SluiceError(
    'DUPLICATE_LIMITER',
    `${named}, and their \`${difference}\` differs. Functions are equal only if they are one function: equal code can use other variables. ` +
      'Give each limiter its own `name`. If they should share their counts, create one limiter and use it in both places, or set `shared: true`. ' +
      'If a hot reload or a second build of the app created the limiter again, set `shared: true` in development, or create the store ' +
      'together with the limiter.',
  )
}

/** Returns the methods of a limiter for one input. */
function handleOf<Input>(limiter: Limiter<Input>, input: Input): KeyedLimiter {
  return {
    consume: (options?: ConsumeOptions): MaybePromise<Decision> => limiter.consume(input, options),
    peek: (options?: ConsumeOptions): MaybePromise<Decision> => limiter.peek(input, options),
    wait: (options?: WaitOptions): Promise<Decision> => limiter.wait(input, options),
    reset: (): MaybePromise<void> => limiter.reset(input),
    block: (duration: Duration): MaybePromise<void> => limiter.block(input, duration),
    pause: (duration: Duration): MaybePromise<void> => limiter.pause(input, duration),
    penalize: (units: Penalty): MaybePromise<void> => limiter.penalize(input, units),
  } as KeyedLimiter
}

/** Returns a key that is given in place of an input. Throws `INVALID_KEY`. */
function givenKey(key: Key | readonly (Key | null | undefined)[]): Key {
  if (Array.isArray(key) && key.length > 0) return composeKey(key as readonly (Key | null | undefined)[])
  if (key === undefined || key === null || Array.isArray(key))
    throw new SluiceError('INVALID_KEY', `key: expected a key, or a list of its parts, got ${shown(key)}`)
  normalizeKey(key as Key, 'key')
  return key as Key
}

function noSingleKey(): SluiceError {
  return new SluiceError(
    'NO_SINGLE_KEY',
    'key: a stack and a limiter with rules have several keys. Use `key` of one limiter in the stack, or pass an input to `reset`, `block` ' +
      'and the other methods',
  )
}

/** Decisions that were refunded or settled. That happens once. */
const settled = shared('settled decisions', () => new WeakSet<Decision>())

/** Warns of refunds, settlements and releases that the store has not made. */
const warnFailed = rareWarning('SLUICE_OUTCOME')

const OVER =
  'A decision was refunded, settled or released after its receipt had ended, so nothing changes: another process may have done it. Increase ' +
  '`receiptFor`.'

/** Returns how a renewal uses a receipt, which lives for as long again. */
function renewalOf(receipt: Receipt, store: Store): ReceiptUse {
  return useOf(receipt, { settles: false, releases: false, keep: Math.ceil(store.clock.now()) + receipt.life })
}

/** Renewals that are under way. What follows waits for them, since they move the slots. */
const renewals = shared('renewals', () => new Map<Decision, Promise<unknown>>())

/** The limiter behind `createLimiter` and `stack`. */
class DefaultLimiter<Input> implements OwnLimiter<Input> {
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
    options = knownOptions('wait', options, ['cost', 'maxWait', 'maxQueue', 'maxPerKey', 'signal'])
    const given = this.#charges(input, options.cost)
    const charges = isPromise(given) ? await given : given
    const began = performance.now()
    const release = countHeld(this.name)
    let hasWaited = false
    const waits = (): void => void (hasWaited = true)
    try {
      const decision = await this.#queue.enter(this.#store, charges, options, (held) => this.refund(held), waits)
      if (thresholds.hasSubscribers) noticeDecision(decision)
      return this.#published(input, this.#observed(input, options.cost, decision), began, hasWaited)
    } catch (error) {
      const denial = denialOf(error)
      if (denial !== undefined) this.#published(input, denial, began, hasWaited)
      throw error
    } finally {
      release()
    }
  }

  receipt(given: Decision | string): string {
    const decision = this.#decisionOf(given)
    return receiptOf(decision, settled.has(decision), this.#builders, this.#store)
  }

  #decisionOf(given: Decision | string): Decision {
    return typeof given === 'string' ? decisionOf(given, this.#builders, this.#store) : given
  }

  refund(decision: Decision | string): MaybePromise<void> {
    return this.end(this.#decisionOf(decision), () => 0, true)
  }

  settle(decision: Decision | string, actualCost: number | ((limit: Limit) => number)): MaybePromise<void> {
    const actual = typeof actualCost === 'function' ? actualCost : () => actualCost
    return this.end(this.#decisionOf(decision), actual, false)
  }

  release(decision: Decision | string): MaybePromise<void> {
    return this.end(this.#decisionOf(decision), undefined, true)
  }

  renew(given: Decision | string): MaybePromise<boolean> {
    const decision = this.#decisionOf(given)
    const charges = chargesOf(decision).filter(({ policy, charged }) => policy.compiled.slots && charged > 0)
    if (charges.length === 0) return false
    const before = renewals.get(decision)
    if (before !== undefined) return before.then(() => this.renew(decision))
    const renewed: Renewed[] = []
    const store = storeOf(charges, this.#store)
    const receipt = receiptIn(decision)
    if (receipt !== undefined && isOver(receipt, store)) return false
    const use = receipt && renewalOf(receipt, store)
    const done = chain(perform(store, { kind: 'renew', charges, renewed, receipt: use }), () => {
      // Without an answer of the store, slots stay where they are, and the receipt ends as before.
      if (receipt !== undefined && charges.some(({ at }, i) => renewed[i]!.units > 0 && renewed[i]!.at > at))
        receipt.until = Math.max(receipt.until, use!.keep)
      charges.forEach((charge, i) => charge.markCharged(renewed[i]!.at, renewed[i]!.units))
      return charges.every(({ charged }) => charged > 0)
    })
    if (isPromise(done)) {
      const over = (): void => void renewals.delete(decision)
      renewals.set(decision, done.then(over, over))
    }
    return done
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
      // Nobody would release the slots of a penalty.
      const added = charges.map(({ limit, policy }) =>
        policy.compiled.slots ? 0 : checkedCost(unitsOf(limit), 'units'),
      )
      if (charges.length === 0) return this.#warnUnlimited()
      const done = perform(guarded.#store, { kind: 'adjust', charges, units: added })
      return chain(done, () => {
        this.#changed(charges)
        return noticeAdded(guarded.#store, charges, added)
      })
    })
  }

  key(key: Key | readonly (Key | null | undefined)[], ...input: readonly [Input?]): KeyedLimiter {
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
  #published(input: Input, decision: Decision, began: number | undefined, hasWaited = false): Decision {
    const duration = began === undefined ? 0 : performance.now() - began
    decisions.publish({ limiter: this.name, decision, input, duration, waited: hasWaited ? duration : 0 })
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
    return noticed(mode, combine(charges, decideAtOnce(store, charges, mode)))
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
    // Units that were charged before cost no reply of the store, and no promise of one.
    if (mode === 'consume' && store.recall?.(charges)) return noticed(mode, combine(charges, undefined))
    return noticed(mode, combine(charges, await perform(store, { kind: mode, charges, fresh: false })))
  }

  #charges(input: Input, cost: number | undefined): MaybePromise<Charge[]> {
    return this.#builders.length === 1 ? this.#builders[0]!.charges(input, cost) : this.#allCharges(input, cost)
  }

  #allCharges(input: Input, cost: number | undefined): MaybePromise<Charge[]> {
    const charges = collect(this.#builders, (builder) => builder.charges(input, cost))
    return chain(charges, (known) => dedupe(known.flat()))
  }

  end(decision: Decision, actual: ((limit: Limit) => number) | undefined, releases: boolean): MaybePromise<void> {
    const charges = chargesOf(decision)
    const settles = actual !== undefined && !settled.has(decision)
    if (!settles && !(releases && charges.some(holdsSlots))) return
    if (charges.length === 0) return
    if (settles && chargedNothing(decision, charges) && (!decision.allowed || charges.every(isSettled)))
      return this.#warnUncharged(decision)
    const costs = settles ? costsOf(charges, actual) : undefined
    if (settles) settled.add(decision)
    const renewal = renewals.size === 0 ? undefined : renewals.get(decision)
    if (renewal !== undefined) return renewal.then(() => this.#adjust(decision, charges, costs, releases))
    return this.#adjust(decision, charges, costs, releases)
  }

  /**
   * Charges actual costs, if they are given, and gives slots back. A failure of the store is a warning: the work is done, and its result must not be
   * replaced.
   */
  #adjust(
    decision: Decision,
    charges: readonly Charge[],
    costs: readonly number[] | undefined,
    releases: boolean,
  ): MaybePromise<void> {
    const receipt = receiptIn(decision)
    if (receipt !== undefined) return this.#adjustOnce(receipt, decision, charges, costs, releases)
    const units = unitsOf(charges, costs, releases)
    const store = storeOf(charges, this.#store)
    let done: MaybePromise<unknown>
    try {
      done = perform(store, { kind: 'adjust', charges, units })
    } catch (error) {
      return warnFailed(() => failedText(error))
    }
    // Slots are given back once.
    if (releases) markReleased(charges)
    return isPromise(done)
      ? this.#adjustedLater(done, store, charges, units, releases)
      : this.#adjusted(store, charges, units)
  }

  #adjusted(store: Store, charges: readonly Charge[], units: readonly number[]): MaybePromise<void> {
    this.#queue.wake(charges)
    return noticeAdded(store, charges, units)
  }

  #adjustedLater(
    done: Promise<unknown>,
    store: Store,
    charges: readonly Charge[],
    units: readonly number[],
    releases: boolean,
  ): Promise<void> {
    const failed = (error: unknown): void => {
      // They can be given back again.
      if (releases) charges.forEach((charge, i) => isSettled(charge) || charge.markCharged(charge.at, -units[i]!))
      warnFailed(() => failedText(error))
    }
    return done.then(() => this.#adjusted(store, charges, units), failed)
  }

  /** Adjusts a decision that has a receipt. Another process may have done it, or may do it. */
  #adjustOnce(
    receipt: Receipt,
    decision: Decision,
    charges: readonly Charge[],
    costs: readonly number[] | undefined,
    releases: boolean,
  ): MaybePromise<void> {
    const units = unitsOf(charges, costs, releases)
    const store = storeOf(charges, this.#store)
    if (isOver(receipt, store)) return warnFailed(() => OVER)
    const use = useOf(receipt, { settles: costs !== undefined, releases })
    const adjusted = (): MaybePromise<void> => {
      this.#queue.wake(charges)
      return use.isRepeated ? undefined : noticeAdded(store, charges, units)
    }
    const failed = (error: unknown): void => {
      // The store does it once, so it can be asked again.
      if (use.settles) settled.delete(decision)
      if (releases) charges.forEach((charge, i) => isSettled(charge) || charge.markCharged(charge.at, -units[i]!))
      warnFailed(() => failedText(error))
    }
    let done: MaybePromise<unknown>
    try {
      done = perform(store, { kind: 'adjust', charges, units, receipt: use })
    } catch (error) {
      return failed(error)
    }
    if (releases) markReleased(charges)
    return isPromise(done) ? done.then(adjusted, failed) : adjusted()
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

/** Returns the actual costs of charges. Throws `INVALID_COST`. */
function costsOf(charges: readonly Charge[], actual: (limit: Limit) => number): number[] {
  return charges.map((charge) => (isSettled(charge) ? checkedCost(actual(charge.limit)) : 0))
}

/** Returns the units to add to each charge. */
function unitsOf(charges: readonly Charge[], costs: readonly number[] | undefined, releases: boolean): number[] {
  const units = new Array<number>(charges.length)
  for (let i = 0; i < charges.length; i++) {
    const charge = charges[i]!
    renewParameters(charge.policy)
    if (isSettled(charge)) units[i] = costs === undefined ? 0 : difference(charge, costs[i]!)
    else units[i] = releases && charge.allowed ? -charge.charged : 0
  }
  return units
}

function markReleased(charges: readonly Charge[]): void {
  for (let i = 0; i < charges.length; i++) {
    const charge = charges[i]!
    if (!isSettled(charge)) charge.markCharged(charge.at, 0)
  }
}

function failedText(error: unknown): string {
  return `A refund, settlement or release failed, so the charge does not change. ${textOf(error)}`
}

/** Returns false for slots: they are given back, and not settled. */
function isSettled({ policy }: Charge): boolean {
  return !policy.compiled.slots
}

function holdsSlots(charge: Charge): boolean {
  return !isSettled(charge) && charge.charged > 0
}

/** Publishes what a decision of `consume` has crossed, if anybody listens. */
function noticed(mode: DecisionMode, decision: Decision): Decision {
  if (mode === 'consume' && thresholds.hasSubscribers) noticeDecision(decision)
  return decision
}

/** Returns the store that has decided: an adapter may have guarded it. */
function storeOf([first]: readonly Charge[], store: Store): Store {
  return first?.policy.store ?? store
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
  return knownOptions(mode === 'peek' ? 'peek' : 'consume', options, CONSUME_OPTIONS).cost
}

brand(DefaultLimiter, LIMITER)

/** No key of an input begins like this: see `boundedKey`. */
const PREFLIGHT_PREFIX = 'sha256:preflight:'

/**
 * Returns a limiter with the same limits and the same limiters in a stack, but with a separate bucket for each key. `reset`
 * of the given limiter resets both. A limiter that was not made by `createLimiter` or `stack` is returned itself.
 */
export function preflightLimiterOf<Input>(limiter: Limiter<Input>): Limiter<Input> {
  if (!isOwn(limiter)) return limiter
  return limiter.variant('preflights', limiter.store, (each) => each.withPrefix(PREFLIGHT_PREFIX))
}

/**
 * Returns the same limiter on its guarded store, for an adapter, with its own way to decide in an outage. Both count together, and `reset`
 * of the given limiter resets both. Returns the given one if nothing changes, or if it was not made by `createLimiter` or `stack`. The set-up of the
 * store is checked in the background.
 */
export function guardedLimiterOf<Input>(limiter: Limiter<Input>, onOutage: Degraded | undefined): Limiter<Input> {
  if (!isOwn(limiter)) return limiter
  const { store } = limiter
  if (store.sync && isMemoryPlace(store.place)) return limiter
  checkInBackground(store)
  const safe = guarded(store)
  if (safe === store && onOutage === undefined) return limiter
  return limiter.variant(`guarded ${onOutage}`, safe, (each) => each.withStore(guarded(each.store), onOutage))
}

/**
 * Resets the keys that a decision charged, as `limiter.reset` does. The keyer is not called again: an input may have another key by
 * now. A limiter that was not made by `createLimiter` or `stack` resets the input.
 */
export function resetKeys<Input>(limiter: Limiter<Input>, input: Input, decision: Decision): MaybePromise<void> {
  if (!decision.limits.every(isCharge)) return limiter.reset(input)
  const charges = chargesOf(decision)
  // A limiter's name is printable, so it ends at the first NUL.
  const keys = new Map(charges.map((charge) => [`${charge.policy.limiter}\0${charge.key}`, charge]))
  const done = collect([...keys.values()], ({ policy, key }) =>
    perform(policy.store, { kind: 'forget', limiter: policy.limiter, key }),
  )
  return chain(done, () => {
    for (const { policy } of charges) waitQueueOf(policy.store).wake()
  })
}

// The compiler reports a mistake by the last overload, so the most used options are last.
/**
 * Makes a limiter from rules of `sluice/rules`, in place of a keyer and limits.
 * Throws `INVALID_OPTION`, `UNKNOWN_OPTION` and `DUPLICATE_LIMITER`.
 * @example const limiter = createLimiter({ rules: await rulesFromFile('limits.json') })
 */
export function createLimiter<Input extends RulesInput = RulesInput>(
  options: RulesLimiterOptions<Input> & { readonly store: AsyncStore },
): Limiter<Input, Promise<Decision>>
export function createLimiter<Input extends RulesInput = RulesInput>(
  options: RulesLimiterOptions<Input>,
): Limiter<Input>
/**
 * Makes a limiter from a keyer, limits and a store. It returns a decision if keyer, limits, cost and store return values at
 * once, else a promise of one.
 *
 * Throws `SluiceError`: `INVALID_OPTION`, `UNKNOWN_OPTION`, `DUPLICATE_LIMIT` for two limits of one name, `DUPLICATE_LIMITER`
 * for two limiters with the same name on one store, or on stores that count in the same place, unless one is `shared` or both have
 * equal limits and the same functions.
 * @example
 * const limiter = createLimiter({ keyer: (user: { id: string }) => user.id, limits: [perSecond(10), perMinute(100)] })
 * if (!limiter.consume(user).allowed) throw new Error('slow down')
 */
export function createLimiter<Input>(options: SyncLimiterOptions<Input>): Limiter<Input, Decision>
export function createLimiter<Input>(
  options: LimiterOptions<Input> & { readonly store: AsyncStore },
): Limiter<Input, Promise<Decision>>
export function createLimiter<Input>(
  options: LimiterOptions<Input> & { readonly keyer: (input: Input) => Promise<Key | null | undefined> },
): Limiter<Input, Promise<Decision>>
export function createLimiter<Input>(options: LimiterOptions<Input>): Limiter<Input>
export function createLimiter<Input>(options: LimiterOptions<Input> | RulesLimiterOptions<Input>): Limiter<Input> {
  if (hasRules(options)) return createRulesLimiter(options, plainReader as InputReader<Input>)
  options = validateOptions(options)
  const builder = chargeBuilder(options, options.store ?? memoryStore(), countsFromZero(options.store))
  return new DefaultLimiter([builder], builder.store)
}

/** Returns what makes the charges of a limiter, and registers the limiter under its name. */
function chargeBuilder<Input>(
  options: LimiterOptions<Input>,
  given: Store,
  startsFromZero: boolean,
): ChargeBuilder<Input> {
  const name = copyText(options.name ?? 'default')
  const store = options.lease === undefined || options.lease === false ? given : leasing(given)
  const home = homeOf(name, store, options)
  const builder = new ChargeBuilder(options, name, store, home, startsFromZero)
  register(name, store, home)
  return builder
}

function hasRules<Input>(
  options: LimiterOptions<Input> | RulesLimiterOptions<Input>,
): options is RulesLimiterOptions<Input> {
  return (ownOptions(options) as Partial<RulesLimiterOptions<Input>>).rules !== undefined
}

/** Makes a limiter from rules. `reader` reads its inputs. Throws as `createLimiter` does. */
export function createRulesLimiter<Input>(
  options: RulesLimiterOptions<Input>,
  reader: InputReader<Input>,
): Limiter<Input> {
  options = validateRulesOptions(options)
  const { name = 'rules', rules, lease = false } = options
  // A policy may ask for leases later.
  const store = leasing(options.store ?? memoryStore())
  const home = homeOf(name, store, options)
  const onDecision = options.onDecision && decisionObserver(options.onDecision)
  const startsFromZero = countsFromZero(options.store)
  const receipts = receiptSettings(options)
  const place = {
    name,
    store,
    home,
    reader,
    startsFromZero,
    onDecision,
    lease: leaseSettings('lease', lease),
    receipts,
  }
  const source = rules.chargeSource(place)
  register(name, store, home)
  return new DefaultLimiter([source], store)
}

/**
 * Makes one limiter of several with different keys, such as a limit for all users together and one for each user. Either all limits of all
 * limiters admit an input, or nothing is charged. It takes the options of the limiters and their one `store`, or limiters of `createLimiter`.
 * Its input has all that its limiters read.
 *
 * Throws as `createLimiter` does, with the place of the limiter, `STORE_MISMATCH` for limiters that do not share a store, `VERSION_MISMATCH` for a
 * limiter of another version of the package, and `INVALID_OPTION` without a limiter or for any other value.
 * @example
 * const limiter = stack({
 *   limiters: [
 *     { keyer: everyone, limits: perMinute(1000) },
 *     { keyer: (user: { id: string }) => user.id, limits: perMinute(100) },
 *   ],
 * })
 * @example const both = stack(perUser, perResource)
 */
export function stack<const Limiters extends readonly Limiter<never>[]>(
  ...limiters: Limiters
): Limiter<InputOfAll<Limiters>, AnswerOfAll<Limiters>>
export function stack<Input>(options: SyncStackOptions<Input>): Limiter<Input, Decision>
export function stack<Input>(
  options: StackOptions<Input> & { readonly store: AsyncStore },
): Limiter<Input, Promise<Decision>>
export function stack<const Limiters extends readonly StackedLimiter<never>[], Given extends Store = SyncStore>(
  options: StackOptions<never> & { readonly limiters: Limiters; readonly store?: Given },
): Limiter<InputOf<Limiters>, DecisionOf<Limiters, Given>>
export function stack<Input>(options: StackOptions<Input>): Limiter<Input>
export function stack<Input>(...given: readonly [StackOptions<Input>] | readonly Limiter<Input>[]): Limiter<Input> {
  const [first] = given
  if (given.length === 1 && isStackOptions(first)) return createStack(first)
  const limiters = given as readonly Limiter<Input>[]
  const builders = limiters.flatMap((each) => sourcesOf(each))
  const store = builders[0]?.store
  if (store === undefined) refuse('stack', 'one limiter or more', undefined)
  for (const builder of builders) {
    if (decideTogether(store, builder.store)) continue
    throw new SluiceError(
      'STORE_MISMATCH',
      `Limiters "${builders[0]!.name}" and "${builder.name}" use different stores. Give both the same \`store\`.`,
    )
  }
  return new DefaultLimiter(builders, store)
}

function sourcesOf<Input>(limiter: Limiter<Input>): readonly ChargeSource<Input>[] {
  if (isOwn(limiter)) return limiter.sources
  return refuse(
    'stack',
    'limiters of createLimiter or stack, as separate arguments, or { limiters: [{ keyer, limits }, { keyer, limits }] }',
    limiter,
  )
}

function isStackOptions<Input>(given: StackOptions<Input> | Limiter<Input> | undefined): given is StackOptions<Input> {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return false
  return !('consume' in given)
}

function createStack<Input>(options: StackOptions<Input>): Limiter<Input> {
  const limiters = limitersIn(options)
  const store = limiters[0]!.store ?? memoryStore()
  const startsFromZero = countsFromZero(limiters[0]!.store)
  const builders = limiters.map((each, i) => inLimiter(i, () => chargeBuilder(each, store, startsFromZero)))
  return new DefaultLimiter(builders, builders[0]!.store)
}
