import { checkedCost } from '../limiter/charges.ts'
import type { Bucket, ChargeSource } from '../limiter/charge-source.ts'
import type { Decision } from '../limiter/decision.ts'
import { UNIDENTIFIED } from '../limiter/keyers.ts'
import type { RulePlace } from '../limiter/rule-source.ts'
import type { Limit } from '../limits/limit.ts'
import { Charge, createPolicy, isCharge, type LimitStatus, type Policy, type Store, timeOf } from '../stores/store.ts'
import { chain, type MaybePromise } from '../util/maybe-promise.ts'
import { warn } from '../util/warn.ts'
import type { CompiledPolicy, CompiledRules } from './compiled.ts'
import { type Attributes, Facts, NO_ATTRIBUTES } from './facts.ts'
import { keyUnder, matchingPolicies } from './match.ts'

/** What the charges of a limiter read from its rules. */
export interface RulesInForce<Input> {
  /** The rules at this moment. */
  readonly compiled: CompiledRules
  attributes(input: Input, place: RulePlace<Input>): MaybePromise<Attributes>
  address(input: Input, place: RulePlace<Input>): string | undefined
  decided?(input: Input, cost: number | undefined, decision: Decision, charges: RulesCharges<Input>): void
}

/** Turns inputs into the charges of all policies that match them. An input is charged by one version of the rules. */
export class RulesCharges<Input> implements ChargeSource<Input> {
  readonly place: RulePlace<Input>
  readonly #rules: RulesInForce<Input>
  readonly #prefix: string
  readonly #policies = new WeakMap<Limit, Policy>()
  readonly #warned = new Set<string>()

  /** @param prefix comes before each key */
  constructor(rules: RulesInForce<Input>, place: RulePlace<Input>, prefix = '') {
    this.#rules = rules
    this.#prefix = prefix
    const address = (input: Input): string | undefined => rules.address(input, place)
    this.place = { ...place, reader: { ...place.reader, address } }
  }

  get name(): string {
    return this.place.name
  }

  get store(): RulePlace<Input>['store'] {
    return this.place.store
  }

  get home(): object {
    return this.place.home
  }

  get startsFromZero(): boolean {
    return this.place.startsFromZero
  }

  describe(): string {
    return `rules ${this.name}`
  }

  charges(input: Input, cost: number | undefined): MaybePromise<Charge[]> {
    return this.#matching(input, (facts, policies, now) => {
      const charges: Charge[] = []
      for (let i = 0; i < policies.length; i++) this.#addCharges(charges, policies[i]!, facts, cost, now)
      return charges
    })
  }

  buckets(input: Input): MaybePromise<readonly Bucket[]> {
    return this.#matching(input, (facts, policies) =>
      policies.map((policy) => ({
        limiter: this.#limiterOf(policy),
        key: this.#prefix + keyUnder(policy, facts)!,
      })),
    )
  }

  withPrefix(prefix: string): ChargeSource<Input> {
    return new RulesCharges(this.#rules, this.place, prefix)
  }

  withStore(store: Store): ChargeSource<Input> {
    return new RulesCharges(this.#rules, { ...this.place, store }, this.#prefix)
  }

  decided(input: Input, cost: number | undefined, decision: Decision): void {
    this.place.onDecision?.(decision, input)
    if (this.#prefix === '') this.#rules.decided?.(input, cost, decision, this)
  }

  /** Returns the name of the policy that a status of its decisions belongs to. */
  policyOf(status: LimitStatus): string {
    return isCharge(status) ? status.policy.limiter.slice(stateName(this.name, '').length) : ''
  }

  /** Reads the rules once: a promise of attributes may resolve after the rules have changed. */
  #matching<Result>(
    input: Input,
    use: (facts: Facts, policies: readonly CompiledPolicy[], now: number) => Result,
  ): MaybePromise<Result> {
    const rules = this.#rules.compiled
    const attributes = rules.usesAttributes ? this.#rules.attributes(input, this.place) : NO_ATTRIBUTES
    return chain(attributes, (known) => {
      const facts = new Facts<Input>(this.place.reader, input, known)
      const now = rules.usesTime ? timeOf(this.store) : 0
      const policies = matchingPolicies(rules, facts as Facts, now)
      return use(facts as Facts, policies.some(({ rule }) => rule.allow === true) ? [] : policies, now)
    })
  }

  #addCharges(charges: Charge[], policy: CompiledPolicy, facts: Facts, given: number | undefined, now: number): void {
    const key = keyUnder(policy, facts)!
    if (key === UNIDENTIFIED) this.#warnUnidentified(policy)
    const cost = checkedCost(given ?? this.#costOf(policy, facts))
    const override = policy.overrides.get(key)
    const limits = override !== undefined && now < override.until ? override.limits : policy.limits
    for (let i = 0; i < limits.length; i++) {
      charges.push(new Charge(this.#policyOf(policy, limits[i]!), this.#prefix + key, cost))
    }
  }

  #costOf({ rule }: CompiledPolicy, facts: Facts): unknown {
    const { cost = 1 } = rule
    if (typeof cost === 'number') return cost
    const value = facts.attribute(cost)
    if (value === undefined || value === null) this.#warnNoCost(rule.name, cost)
    return value ?? 1
  }

  #policyOf(policy: CompiledPolicy, limit: Limit): Policy {
    const known = this.#policies.get(limit)
    const { onOutage } = policy.rule
    if (known !== undefined && known.onOutage === onOutage) return known
    const made = createPolicy(this.#limiterOf(policy), limit, this.store, this.home, onOutage)
    this.#policies.set(limit, made)
    return made
  }

  #limiterOf({ rule }: CompiledPolicy): string {
    return stateName(this.name, rule.name)
  }

  #warnUnidentified({ rule, key }: CompiledPolicy): void {
    if (!this.#isFirst(rule.name)) return
    const names = key!.names.join(', ')
    warn(
      'SLUICE_UNIDENTIFIED',
      `A request under policy "${rule.name}" has no ${names}. All requests without this key share one bucket, so one client can ` +
        'use the quota of all others. Check the attributes, or exempt such requests with a policy that has `allow: true`.',
    )
  }

  #warnNoCost(policy: string, attribute: string): void {
    if (!this.#isFirst(`cost of ${policy}`)) return
    warn(
      'SLUICE_NO_COST',
      `A request under policy "${policy}" has no attribute "${attribute}" with its cost, so it costs 1. Return it from \`attributes\`.`,
    )
  }

  /** True once for each subject, and for a bounded number of them. */
  #isFirst(subject: string): boolean {
    if (this.#warned.has(subject) || this.#warned.size >= MOST_WARNINGS) return false
    this.#warned.add(subject)
    return true
  }
}

const MOST_WARNINGS = 100

/** Returns the name under which a store keeps the state of a policy. */
export function stateName(limiter: string, policy: string): string {
  return `${limiter}/${policy}`
}
