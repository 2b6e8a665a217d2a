import {
  type AsyncStore,
  type Charge,
  decideAtOnce,
  type DecisionMode,
  perform,
  type Store,
  type SyncStore,
} from '../stores/store.ts'
import { brand, hasBrand, madeOnce, refuseOtherVersion } from '../util/copies.ts'
import { type ChargeSource, checkedCost, dedupe } from './charges.ts'
import type { ConsumeOptions, KeyedLimiter, Limiter, Penalty } from './contract.ts'
import { type Duration, type Limit, warnIfShort } from '../engine/limit.ts'
import { shown, SluiceError } from '../util/errors.ts'
import { composeKey, type Key, normalizeKey } from './keyers.ts'
import { chain, collect, isPromise, type MaybePromise } from '../util/maybe-promise.ts'
import { combine, type Decision, decisions } from './decision.ts'
import { queueCode, queueIn, type WaitPlace, waitPlaceOf } from './wait-place.ts'
import { countWaiting, denialOf, type WaitOptions } from './waiting.ts'
import { Endings, wasSettled } from './ending.ts'
import { LONGEST_LOCK } from '../engine/compiled-limit.ts'
import type { LockMode } from '../engine/adjust.ts'
import { knownOptions, milliseconds, refuse } from '../util/validate.ts'
import { once } from '../util/warn.ts'
import { warnLater } from '../util/warn-later.ts'
import { decisionOf, receiptOf } from './receipt.ts'
import { refuseApart, refuseReceipts } from './together.ts'
import { noticeAdded, noticeDecision, thresholds } from './thresholds.ts'

/** Marks the limiters of all versions of the package. */
const LIMITER: unique symbol = Symbol.for('sluice.Limiter')

/** Returns false for a limiter that another program implements. Throws `VERSION_MISMATCH` for one of another version of the package. */
export function isOwn<Input>(limiter: Limiter<Input>): limiter is DefaultLimiter<Input> {
  refuseOtherVersion('limiter', limiter, LIMITER)
  return hasBrand(limiter, LIMITER)
}

/** Returns the parts of a limiter that was made by `createLimiter` or `stack`. The list is empty for any other limiter. */
export function chargeSourcesOf<Input>(limiter: Limiter<Input>): readonly ChargeSource<Input>[] {
  return isOwn(limiter) ? limiter.sources : []
}

const KEYED = ['consume', 'peek', 'wait', 'reset', 'block', 'pause', 'penalize'] as const

function handleOf<Input>(limiter: Limiter<Input>, input: Input): KeyedLimiter {
  const methods = KEYED.map((name) => [name, (limiter[name] as (...given: unknown[]) => unknown).bind(limiter, input)])
  return Object.fromEntries(methods) as KeyedLimiter
}

/** Returns a key that is given in place of an input. Throws `INVALID_KEY`. */
function givenKey(key: Key | readonly (Key | null | undefined)[]): Key {
  if (Array.isArray(key) && key.length > 0) return composeKey(key as readonly (Key | null | undefined)[])
  if (key === undefined || key === null || Array.isArray(key))
    throw new SluiceError('INVALID_KEY', `key: expected a key, or a list of its parts, got ${shown(key)}`)
  normalizeKey(key as Key, 'key')
  return key as Key
}

/** A limiter of `createLimiter` or `stack`. `isOwn` also finds those of another copy of the package, whose private fields cannot be read. */
export class DefaultLimiter<Input> implements Limiter<Input> {
  readonly #builders: readonly ChargeSource<Input>[]
  readonly #observers: readonly ChargeSource<Input>[]
  readonly #store: Store
  readonly #place: WaitPlace
  readonly #endings: Endings
  readonly #warnUnlimited = once(() => warnLater('SLUICE_NOT_LIMITED'))
  /** The variants of this limiter that adapters have made. */
  readonly #adapted = new Map<unknown, DefaultLimiter<Input>>()

  /** The names of the parts, joined. */
  readonly name: string

  /** Throws `STORE_MISMATCH` for a store that cannot decide about all parts in one step. */
  constructor(builders: readonly ChargeSource<Input>[]) {
    brand(DefaultLimiter, LIMITER)
    refuseApart(builders)
    this.#builders = builders
    this.#observers = [...new Set(builders)].filter((builder) => builder.decided !== undefined)
    this.name = [...new Set(builders.map(({ name }) => name))].join('+')
    this.#store = builders[0]!.store
    this.#place = waitPlaceOf(this.#store)
    this.#endings = new Endings(builders, this.#place)
  }

  /** The parts that make the charges. */
  get sources(): readonly ChargeSource<Input>[] {
    return this.#builders
  }

  get store(): Store {
    return this.#store
  }

  /** Returns a limiter with the same limits, in which each part is changed. It is made once for each `id`. */
  adapted(id: unknown, change: (builder: ChargeSource<Input>) => ChargeSource<Input>): DefaultLimiter<Input> {
    return madeOnce(this.#adapted, id, () => new DefaultLimiter(this.#builders.map(change)))
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
    const release = countWaiting(this.name)
    let hasWaited = false
    const waits = (): void => void (hasWaited = true)
    try {
      const queue = queueIn(this.#place) ?? queueIn(this.#place, await queueCode())!
      const decision = await queue.enter({ store: this.#store, charges, options, owner: this, waits })
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
    refuseReceipts(this.#store)
    const decision = this.#decisionOf(given)
    return receiptOf(decision, wasSettled(decision), this.#builders, this.#store)
  }

  #decisionOf(given: Decision | string): Decision {
    return typeof given === 'string' ? decisionOf(given, this.#builders, this.#store) : given
  }

  refund(decision: Decision | string): MaybePromise<void> {
    return this.end(this.#decisionOf(decision), () => 0, true)
  }

  settle(decision: Decision | string, actualCost: number | ((limit: Limit) => number)): MaybePromise<void> {
    // A decision that has charged nothing does not ask for the cost.
    if (typeof actualCost !== 'function') checkedCost(actualCost)
    const actual = typeof actualCost === 'function' ? actualCost : () => actualCost
    return this.end(this.#decisionOf(decision), actual, false)
  }

  release(decision: Decision | string): MaybePromise<void> {
    return this.end(this.#decisionOf(decision), undefined, true)
  }

  renew(decision: Decision | string): MaybePromise<boolean> {
    return this.#endings.renew(this.#decisionOf(decision))
  }

  reset(input: Input): MaybePromise<void> {
    const done = collect([...this.#adapted.values(), ...this.#builders], (each) =>
      each instanceof DefaultLimiter ? each.reset(input) : forgetIn(each, input),
    )
    return chain(done, () => this.#place.queue?.wake())
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
      // Nothing would release the slots of a penalty.
      const added = charges.map(({ limit, policy }) =>
        policy.compiled.slots ? 0 : checkedCost(unitsOf(limit), 'units'),
      )
      if (charges.length === 0) return this.#warnUnlimited()
      const done = perform(guarded.#store, { kind: 'adjust', charges, units: added })
      return chain(done, () => {
        this.#changed(charges)
        return noticeAdded(charges, added)
      })
    })
  }

  key(key: Key | readonly (Key | null | undefined)[], ...input: readonly [Input?]): KeyedLimiter {
    return handleOf(this.#withKey(givenKey(key), input.length > 0), input[0] as Input)
  }

  #withKey(key: Key, hasInput: boolean): DefaultLimiter<Input> {
    const [builder] = this.#builders
    if (builder?.withKey === undefined || this.#builders.length > 1)
      throw new SluiceError(
        'NO_SINGLE_KEY',
        'key: a stack and a limiter with rules have several keys. Use `key` of one limiter in the stack, or pass an input to the other methods',
      )
    const keyed = new DefaultLimiter([builder.withKey(key, hasInput)])
    for (const [id, each] of this.#adapted) keyed.#adapted.set(id, each.#withKey(key, hasInput))
    return keyed
  }

  /** Returns the guarded variants. They count in the same place as this limiter. */
  #guards(): DefaultLimiter<Input>[] {
    return [...this.#adapted.values()].filter((each) => each.#store !== this.#store)
  }

  /** Locks the keys of an input here and in the variants of adapters. */
  #lock(input: Input, ms: number, mode: LockMode): MaybePromise<void> {
    const own = this.#guards().length === 0 ? [this] : []
    const done = collect([...this.#adapted.values(), ...own], (each) =>
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

  /** Wakes waiters: they may have to wait longer than predicted, or shorter. */
  #changed(charges: readonly Charge[]): void {
    for (const each of [this, ...this.#adapted.values()]) each.#place.queue?.wake(charges)
  }

  // A function with a closure allocates the variables of the closure at each call, so rare cases have their own functions.
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

  /** Decides at once. Waiting requests are served first: while there are any, a decision on the same limits and keys is a denial. */
  #take(store: SyncStore, charges: readonly Charge[], mode: DecisionMode): MaybePromise<Decision> {
    const { queue } = this.#place
    if (queue?.isAheadOf(charges) === true) return queue.deny(store, charges)
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
    const { queue } = this.#place
    if (queue?.isAheadOf(charges) === true) return queue.deny(store, charges)
    if (charges.length === 0) return combine(charges, undefined)
    // Units that were charged ahead need no reply of the store, and no promise.
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

  /**
   * Ends a decision in one adjustment. If `actual` is given, it replaces what the limits have charged, even beyond a limit. If `releases` is true, the slots
   * are given back. Each of the two happens once.
   */
  end(decision: Decision, actual: ((limit: Limit) => number) | undefined, releases: boolean): MaybePromise<void> {
    return this.#endings.end(decision, actual, releases)
  }
}

function noticed(mode: DecisionMode, decision: Decision): Decision {
  if (mode === 'consume' && thresholds.hasSubscribers) noticeDecision(decision)
  return decision
}

function forgetIn<Input>(source: ChargeSource<Input>, input: Input): MaybePromise<void> {
  return chain(source.keysOf(input), (keys) => {
    const done = collect(keys, ({ limiter, key }) => perform(source.store, { kind: 'forget', limiter, key }))
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

function costIn(options: ConsumeOptions | undefined, mode: DecisionMode): number | undefined {
  if (options === undefined) return undefined
  return knownOptions(mode === 'peek' ? 'peek' : 'consume', options, CONSUME_OPTIONS).cost
}
