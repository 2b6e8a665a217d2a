import { type Limit, limit } from '../engine/limit.ts'
import { Charge, createPolicy, type LeaseSettings, type LimiterKey, type Policy, type Store } from '../stores/store.ts'
import { leaseSettings } from '../stores/lease-settings.ts'
import { once } from '../util/warn.ts'
import { warnLater, withWarnings } from '../util/warn-later.ts'
import type { AlternationWatch } from '../util/warnings/alternation.ts'
import { boundedKey } from '../util/bounded-key.ts'
import { shown, SluiceError } from '../util/errors.ts'
import { type Key, type Keyer, normalizeKey, UNIDENTIFIED } from './keyers.ts'
import { addDistinct, assertUniqueNames, type ChargeSource, checkedCost, type LimiterPlace } from './charges.ts'
import { type ReceiptSettings, receiptSettings } from './receipt-settings.ts'
import type { CostFunc, LimiterOptions, LimitFunc } from './options.ts'
import { chain, collect, isPromise, type MaybePromise } from '../util/maybe-promise.ts'
import { type Decision, decisionObserver } from './decision.ts'
import { lossObserver, type OnSlotLost } from './lost-slots.ts'
import { refusePromises } from '../util/validate.ts'

/** The most names whose first definition is remembered. */
const MOST_NAMES = 1000

type LimitSource<Input> = Limit | LimitFunc<Input>
type Answer = Limit | readonly Limit[]

/** Turns an input into the charges of one limiter with a keyer and limits. */
export class ChargeBuilder<Input> implements ChargeSource<Input> {
  readonly name: string
  readonly store: Store
  readonly home: object
  readonly startsFromZero: boolean
  readonly receipts: ReceiptSettings
  readonly decided?: (input: Input, cost: number | undefined, decision: Decision) => void
  readonly slotLost: OnSlotLost | undefined
  readonly #options: LimiterOptions<Input>
  readonly #place: LimiterPlace
  readonly keyer: Keyer<Input>
  readonly #cost: CostFunc<Input> | undefined
  readonly #sources: readonly LimitSource<Input>[]
  /** The policies if no limit depends on the input. */
  readonly #fixed: readonly Policy[] | undefined
  readonly #policies = new WeakMap<Limit, Policy>()
  readonly #prefix: string
  readonly #lease: LeaseSettings | undefined
  /** The first definition of each name. */
  readonly #definitions = new Map<string, string>()
  /** Watches for keys whose limits alternate. Set after the second definition of a name. */
  #watch: Pick<AlternationWatch, 'note'> | undefined
  #isWatched = false
  readonly #warnUnidentified = once(() => warnLater('SLUICE_UNIDENTIFIED', this.name, this.keyer.name))

  constructor(options: LimiterOptions<Input>, place: LimiterPlace) {
    const { name, store, home, startsFromZero, prefix = '' } = place
    this.#options = options
    this.#place = place
    this.#prefix = prefix
    this.startsFromZero = startsFromZero
    this.#lease = options.lease === undefined ? undefined : leaseSettings('lease', options.lease)
    this.receipts = receiptSettings(options)
    this.slotLost = options.onSlotLost && lossObserver(options.onSlotLost)
    this.name = name
    this.store = store
    this.home = home
    this.keyer = options.keyer
    this.#cost = options.cost
    this.#sources = Array.isArray(options.limits) ? options.limits : [options.limits as LimitSource<Input>]
    const limits = this.#sources.filter((source) => typeof source !== 'function')
    const policies = limits.map((each) => this.#policy(each))
    assertUniqueNames(policies)
    if (limits.length === this.#sources.length) this.#fixed = policies
    if (options.onDecision === undefined) return
    const observe = decisionObserver(options.onDecision)
    this.decided = (input, _cost, decision) => observe(decision, input)
  }

  charges(input: Input, cost: number | undefined): MaybePromise<Charge[]> {
    const key = this.keyer(input)
    if (this.#fixed === undefined || this.#cost !== undefined || isPromise(key)) return this.#asked(input, key, cost)
    return charged(this.#fixed, this.#text(key), cost === undefined ? 1 : checkedCost(cost))
  }

  #asked(input: Input, key: MaybePromise<Key | null | undefined>, cost: number | undefined): MaybePromise<Charge[]> {
    return chain(key, (known) => chain(this.#limits(input), (policies) => this.#costed(input, known, policies, cost)))
  }

  at(place: Partial<LimiterPlace>): ChargeBuilder<Input> {
    return new ChargeBuilder(this.#options, { ...this.#place, ...place })
  }

  /** Without an input, the cost function is not called, and limits that are functions throw `INPUT_NEEDED`. */
  withKey(key: Key, hasInput: boolean): ChargeBuilder<Input> {
    const keyer = (): Key => key
    if (hasInput) return new ChargeBuilder<Input>({ ...this.#options, keyer }, this.#place)
    const { cost: _, ...options } = this.#options
    const limits = this.#sources.map((each) => (typeof each === 'function' ? needsInput : each))
    return new ChargeBuilder<Input>({ ...options, keyer, limits }, this.#place)
  }

  owns(limiter: string): boolean {
    return limiter === this.name
  }

  get definition(): readonly unknown[] {
    return [this.keyer, ...this.#sources]
  }

  keysOf(input: Input): MaybePromise<readonly LimiterKey[]> {
    return chain(this.keyer(input), (key) => [{ limiter: this.name, key: this.#prefix + normalizeKey(key) }])
  }

  #costed(
    input: Input,
    key: Key | null | undefined,
    policies: readonly Policy[],
    cost: number | undefined,
  ): MaybePromise<Charge[]> {
    const text = this.#text(key)
    this.#watch?.note(policies, text)
    const costOf = this.#cost
    if (cost !== undefined || costOf === undefined)
      return charged(policies, text, cost === undefined ? 1 : checkedCost(cost))
    const costs = collect(policies, (policy) => costOf(input, policy.limit))
    return chain(costs, (known) => policies.map((policy, i) => new Charge(policy, text, checkedCost(known[i]))))
  }

  #limits(input: Input): MaybePromise<readonly Policy[]> {
    if (this.#fixed !== undefined) return this.#fixed
    const answers = collect(this.#sources, (source): MaybePromise<Answer> =>
      typeof source === 'function' ? source(input) : source,
    )
    return chain(answers, (known) => this.#flattened(known))
  }

  #flattened(answers: readonly Answer[]): readonly Policy[] {
    const policies: Policy[] = []
    for (const answer of answers) {
      if (!Array.isArray(answer)) addDistinct(policies, this.#policy(answer as Limit))
      else for (const each of answer as readonly Limit[]) addDistinct(policies, this.#policy(each, answer))
    }
    return policies
  }

  #policy(given: Limit, others: readonly Limit[] = [given]): Policy {
    const known = this.#policies.get(given)
    if (known !== undefined) return known
    if (isPromise<Limit>(given)) refusePromises('limits', others)
    if (typeof given !== 'object' || given === null) throw notALimit(given)
    const made = limit(given)
    const policy = createPolicy(this.name, made, this.store, this.home, this.#place.onOutage, this.#lease)
    this.#policies.set(made, policy)
    this.#define(policy)
    return policy
  }

  #define({ limit: { name }, compiled: { signature } }: Policy): void {
    const known = this.#definitions.get(name)
    if (known === undefined && this.#definitions.size < MOST_NAMES) this.#definitions.set(name, signature)
    if (known === undefined || known === signature || this.#isWatched) return
    this.#isWatched = true
    withWarnings(({ AlternationWatch }) => {
      this.#watch = new AlternationWatch((limit) => {
        if (this.#watch !== undefined) warnLater('SLUICE_ALTERNATING_LIMITS', this.name, limit)
        this.#watch = undefined
      })
    })
  }

  #text(key: Key | null | undefined): string {
    const text = typeof key === 'string' ? boundedKey(key) : normalizeKey(key)
    if (text === UNIDENTIFIED) this.#warnUnidentified()
    return this.#prefix + text
  }
}

function charged(policies: readonly Policy[], key: string, cost: number): Charge[] {
  if (policies.length === 1) return [new Charge(policies[0]!, key, cost)]
  const charges = new Array<Charge>(policies.length)
  for (let i = 0; i < policies.length; i++) charges[i] = new Charge(policies[i]!, key, cost)
  return charges
}

function needsInput(): never {
  throw new SluiceError(
    'INPUT_NEEDED',
    'key: a limit of this limiter is a function of the input. Pass an input, as in limiter.key(text, input)',
  )
}

function notALimit(given: unknown): SluiceError {
  return new SluiceError(
    'INVALID_LIMIT',
    `limits: expected a limit such as perSecond(10), or a function that returns one, got ${shown(given)}. A function returns a limit for ` +
      'every input, such as `plans[user.plan] ?? plans.free`, and `unlimited` for an input that is not limited',
  )
}
