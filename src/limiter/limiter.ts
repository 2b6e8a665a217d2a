import {
  type AsyncStore,
  type Charge,
  decideTogether,
  type DecisionMode,
  type Degraded,
  isCharge,
  perform,
  renewParameters,
  type Store,
  type SyncStore,
} from '../stores/store.ts'
import { brand, hasBrand, refuseOtherVersion, shared, WeakValues } from '../util/copies.ts'
import { chargedNothing, chargesOf, type ChargeSource, checkedCost, dedupe, difference } from './charges.ts'
import type { ConsumeOptions, KeyedLimiter, Limiter, Penalty } from './contract.ts'
import { type Duration, limit, type Limit, warnIfShort } from '../engine/limit.ts'
import { isMemoryPlace } from '../stores/memory/key-counts.ts'
import { shown, SluiceError } from '../util/errors.ts'
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
import { knownOptions, milliseconds, refuse } from '../util/validate.ts'
import { warn } from '../util/warn.ts'
import { guarded } from '../stores/guard/index.ts'
import { ChargeBuilder } from './charge-builder.ts'
import { type InputReader, plainReader, type RulesInput } from './rule-source.ts'
import { decisionOf, receiptOf } from './receipt.ts'
import { noticeAdded, noticeDecision, thresholds } from './thresholds.ts'
import { copyText } from '../util/bounded-key.ts'
import { leaseSettings, leasing } from '../stores/lease.ts'
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
function givenKey(key: Key | readonly (Key | undefined)[]): Key {
  if (Array.isArray(key) && key.length > 0) return composeKey(key as readonly (Key | undefined)[])
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
    knownOptions('wait', options, ['cost', 'maxWait', 'maxQueue', 'signal'])
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
    return receiptOf(decision, settled.has(decision))
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
    const done = chain(perform(storeOf(charges, this.#store), { kind: 'renew', charges, renewed }), () => {
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
    return noticed(mode, combine(charges, perform(store, { kind: mode, charges, fresh: false })))
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
    const costs = settles
      ? charges.map((charge) => (isSettled(charge) ? checkedCost(actual(charge.limit)) : 0))
      : undefined
    if (settles) settled.add(decision)
    const renewal = renewals.size === 0 ? undefined : renewals.get(decision)
    const adjust = (): MaybePromise<void> => this.#adjust(charges, costs, releases)
    return renewal === undefined ? adjust() : renewal.then(adjust)
  }

  /** Charges actual costs, if they are given, and gives slots back. */
  #adjust(charges: readonly Charge[], costs: readonly number[] | undefined, releases: boolean): MaybePromise<void> {
    const units = charges.map((charge, i) => {
      renewParameters(charge.policy)
      if (isSettled(charge)) return costs === undefined ? 0 : difference(charge, costs[i]!)
      return releases && charge.allowed ? -charge.charged : 0
    })
    const store = storeOf(charges, this.#store)
    const done = perform(store, { kind: 'adjust', charges, units })
    // Slots are given back once.
    if (releases) for (const charge of charges) if (!isSettled(charge)) charge.markCharged(charge.at, 0)
    // After an error, they can be given back again.
    if (releases && isPromise(done))
      done.catch(() => charges.forEach((charge, i) => isSettled(charge) || charge.markCharged(charge.at, -units[i]!)))
    return chain(done, () => {
      this.#queue.wake(charges)
      return noticeAdded(store, charges, units)
    })
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
  knownOptions(mode === 'peek' ? 'peek' : 'consume', options, CONSUME_OPTIONS)
  return options.cost
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
 * of the given limiter resets both. Returns the given one if nothing changes, or if it was not made by `createLimiter` or `stack`.
 */
export function guardedLimiterOf<Input>(limiter: Limiter<Input>, onOutage: Degraded | undefined): Limiter<Input> {
  if (!isOwn(limiter)) return limiter
  const { store } = limiter
  if (store.sync && isMemoryPlace(store.place)) return limiter
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
  options: LimiterOptions<Input> & { readonly keyer: (input: Input) => Promise<Key | undefined> },
): Limiter<Input, Promise<Decision>>
export function createLimiter<Input>(options: LimiterOptions<Input>): Limiter<Input>
export function createLimiter<Input extends RulesInput = RulesInput>(
  options: RulesLimiterOptions<Input> & { readonly store: AsyncStore },
): Limiter<Input, Promise<Decision>>
export function createLimiter<Input extends RulesInput = RulesInput>(
  options: RulesLimiterOptions<Input>,
): Limiter<Input>
export function createLimiter<Input>(options: LimiterOptions<Input> | RulesLimiterOptions<Input>): Limiter<Input> {
  if (hasRules(options)) return createRulesLimiter(options, plainReader as InputReader<Input>)
  validateOptions(options)
  const name = copyText(options.name ?? 'default')
  const given = options.store ?? memoryStore()
  const store = options.lease === undefined || options.lease === false ? given : leasing(given)
  const home = homeOf(name, store, options)
  const builder = new ChargeBuilder(options, name, store, home, countsFromZero(options.store))
  register(name, store, home)
  return new DefaultLimiter([builder], store)
}

function hasRules<Input>(
  options: LimiterOptions<Input> | RulesLimiterOptions<Input>,
): options is RulesLimiterOptions<Input> {
  return (options as Partial<RulesLimiterOptions<Input>> | undefined)?.rules !== undefined
}

/** Makes a limiter from rules. `reader` reads its inputs. Throws as `createLimiter` does. */
export function createRulesLimiter<Input>(
  options: RulesLimiterOptions<Input>,
  reader: InputReader<Input>,
): Limiter<Input> {
  validateRulesOptions(options)
  const { name = 'rules', rules, lease = false } = options
  // A policy may ask for leases later.
  const store = leasing(options.store ?? memoryStore())
  const home = homeOf(name, store, options)
  const onDecision = options.onDecision && decisionObserver(options.onDecision)
  const startsFromZero = countsFromZero(options.store)
  const place = { name, store, home, reader, startsFromZero, onDecision, lease: leaseSettings('lease', lease) }
  const source = rules.chargeSource(place)
  register(name, store, home)
  return new DefaultLimiter([source], store)
}

/**
 * Combines limiters into one. Either all limits of all limiters admit an input, or nothing is charged.
 * Throws `STORE_MISMATCH` if they do not share a store, `VERSION_MISMATCH` for a limiter of another version of the package, and
 * `INVALID_OPTION` without a limiter or for any other value.
 * @example const both = stack(perUser, perResource)
 */
export function stack<Input>(...limiters: readonly Limiter<Input, Decision>[]): Limiter<Input, Decision>
export function stack<Input>(
  ...limiters: readonly Limiter<Input, Promise<Decision>>[]
): Limiter<Input, Promise<Decision>>
export function stack<Input>(...limiters: readonly Limiter<Input>[]): Limiter<Input>
export function stack<Input>(...limiters: readonly Limiter<Input>[]): Limiter<Input> {
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
  return refuse('stack', 'limiters of createLimiter or stack, as separate arguments', limiter)
}
