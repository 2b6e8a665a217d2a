import { type ChargeSource, type LimiterPlace, checkedCost } from '../limiter/charges.ts'
import { type Decision, unmatchedRequests } from '../limiter/decision.ts'
import { UNIDENTIFIED } from '../limiter/keyers.ts'
import type { InputReader, RulePlace } from '../limiter/rule-source.ts'
import type { Limit } from '../engine/limit.ts'
import {
  Charge,
  createPolicy,
  isCharge,
  type LeaseSettings,
  type LimiterKey,
  type LimitStatus,
  type Policy,
  type Store,
} from '../stores/store.ts'
import { type LeaseOptions, leaseSettings, NOT_LEASED } from '../stores/lease-settings.ts'
import type { LeaseRule } from './document.ts'
import { madeOnce } from '../util/copies.ts'
import { chain, type MaybePromise } from '../util/maybe-promise.ts'
import { refuse, refusePromises } from '../util/validate.ts'
import { warn } from '../util/warn.ts'
import { allPolicies, type CompiledPolicy, type CompiledRules } from './dimensions.ts'
import { type Attributes, Facts, NO_ATTRIBUTES } from './facts.ts'
import { applyingPolicies, isUnmatched, keyUnder, overrideOf } from './match.ts'

/** The part of rules that the charges of a limiter use. */
export interface RulesInForce<Input> {
  /** Returns the rules at this moment. */
  compiled(): CompiledRules
  readonly watch: AttributeWatch
  attributes(input: Input, reader: InputReader<Input>): MaybePromise<Attributes>
  address(input: Input, reader: InputReader<Input>): string | undefined
  decided?(input: Input, cost: number | undefined, decision: Decision, charges: RulesCharges<Input>): void
}

/** Turns inputs into the charges of all policies that match them. Each input is charged by one version of the rules. */
export class RulesCharges<Input> implements ChargeSource<Input> {
  readonly place: RulePlace<Input>
  readonly name: string
  readonly store: Store
  readonly home: object
  readonly receipts: RulePlace<Input>['receipts']
  readonly slotLost: RulePlace<Input>['onSlotLost']
  readonly startsFromZero: boolean
  readonly definition: readonly unknown[]
  readonly #rules: RulesInForce<Input>
  readonly #prefix: string
  readonly #policies = new WeakMap<Limit, Policy>()
  readonly #leases = new WeakMap<object, LeaseSettings>()
  readonly #warned = new Set<string>()
  /** Inputs that no policy matches, until they are decided. */
  readonly #unmatched = new WeakSet<object>()

  constructor(rules: RulesInForce<Input>, place: RulePlace<Input>) {
    this.#rules = rules
    this.#prefix = place.prefix ?? ''
    const address = (input: Input): string | undefined => rules.address(input, place.reader)
    this.place = { ...place, reader: { ...place.reader, address } }
    this.name = place.name
    this.store = place.store
    this.home = place.home
    this.receipts = place.receipts
    this.slotLost = place.onSlotLost
    this.startsFromZero = place.startsFromZero
    this.definition = ['rules', place.name]
  }

  owns(limiter: string): boolean {
    return limiter.startsWith(stateName(this.name, ''))
  }

  charges(input: Input, cost: number | undefined): MaybePromise<Charge[]> {
    return this.#matching(input, (facts, policies, now) => {
      const charges: Charge[] = []
      for (let i = 0; i < policies.length; i++) this.#addCharges(charges, policies[i]!, facts, cost, now)
      return charges
    })
  }

  keysOf(input: Input): MaybePromise<readonly LimiterKey[]> {
    return this.#matching(input, (facts, policies) =>
      policies.map((policy) => ({
        limiter: this.#limiterOf(policy),
        key: this.#prefix + keyUnder(policy, facts)!,
      })),
    )
  }

  limiters(): readonly string[] {
    return this.#limiting().map((policy) => this.#limiterOf(policy))
  }

  chargesUnder(limiter: string, key: string, cost: number): Charge[] {
    const policy = this.#limiting().find((each) => this.#limiterOf(each) === limiter)
    if (policy === undefined) return []
    const limits = limitsOf(policy, key, this.store.clock.now())
    return limits.map((limit) => new Charge(this.#policyOf(policy, limit), key, cost))
  }

  /** Returns the policies that have limits and keys. */
  #limiting(): CompiledPolicy[] {
    return allPolicies(this.#rules.compiled()).filter(({ key }) => key !== undefined)
  }

  at(place: Partial<LimiterPlace>): ChargeSource<Input> {
    return new RulesCharges(this.#rules, { ...this.place, ...place })
  }

  decided(input: Input, cost: number | undefined, decision: Decision): void {
    this.place.onDecision?.(decision, input)
    if (unmatchedRequests.hasSubscribers && this.#unmatched.delete(input as object))
      unmatchedRequests.publish({ limiter: this.name, input })
    if (this.#prefix === '') this.#rules.decided?.(input, cost, decision, this)
  }

  /** Returns the name of the policy of a status. */
  policyOf(status: LimitStatus): string {
    return isCharge(status) ? status.policy.limiter.slice(stateName(this.name, '').length) : ''
  }

  /** Calls `use` with the policies that apply. Reads the rules once, because a promise of attributes may resolve after the rules have changed. */
  #matching<Result>(
    input: Input,
    use: (facts: Facts, policies: readonly CompiledPolicy[], now: number) => Result,
  ): MaybePromise<Result> {
    const rules = this.#rules.compiled()
    const attributes = rules.attributes.size > 0 ? this.#rules.attributes(input, this.place.reader) : NO_ATTRIBUTES
    return chain(attributes, (known) => {
      if (typeof known !== 'object' || known === null)
        refuse('attributes', 'an object with the attributes of the request, such as { tenant }', known)
      refusePromises('attributes', known)
      this.#rules.watch.see(rules.attributes, known)
      const facts = new Facts(this.place.reader, input, known)
      const now = this.store.clock.now()
      const policies = applyingPolicies(rules, facts, now)
      if (unmatchedRequests.hasSubscribers && Object(input) === input && isUnmatched(policies))
        this.#unmatched.add(input as object)
      return use(facts, policies, now)
    })
  }

  #addCharges(charges: Charge[], policy: CompiledPolicy, facts: Facts, given: number | undefined, now: number): void {
    const key = keyUnder(policy, facts)!
    if (key === UNIDENTIFIED)
      this.#warnOnce(policy.rule.name, 'SLUICE_UNIDENTIFIED', () => {
        const names = policy.key!.names.join(', ')
        return (
          `A request under policy "${policy.rule.name}" has no ${names}. All requests without this key share one bucket, so one client can ` +
          'use the quota of all others. Check the attributes, or exempt such requests with a policy that has `allow: true`.'
        )
      })
    const cost = checkedCost(given ?? this.#costOf(policy, facts))
    const limits = limitsOf(policy, key, now)
    for (let i = 0; i < limits.length; i++) {
      charges.push(new Charge(this.#policyOf(policy, limits[i]!), this.#prefix + key, cost))
    }
  }

  #costOf({ rule }: CompiledPolicy, facts: Facts): unknown {
    const { cost = 1 } = rule
    if (typeof cost === 'number') return cost
    const value = facts.attribute(cost)
    if (value === undefined || value === null)
      this.#warnOnce(
        `cost of ${rule.name}`,
        'SLUICE_NO_COST',
        () =>
          `A request under policy "${rule.name}" has no attribute "${cost}" with its cost, so it costs 1. Return it from \`attributes\`.`,
      )
    return value ?? 1
  }

  #policyOf(policy: CompiledPolicy, limit: Limit): Policy {
    const known = this.#policies.get(limit)
    const onOutage = policy.rule.onOutage ?? this.place.onOutage
    const lease = policy.rule.lease === undefined ? this.place.lease : this.#leaseOf(policy, policy.rule.lease)
    if (known !== undefined && known.onOutage === onOutage && known.lease === lease) return known
    const made = createPolicy(this.#limiterOf(policy), limit, this.store, this.home, onOutage, lease)
    this.#policies.set(limit, made)
    return made
  }

  #leaseOf({ rule }: CompiledPolicy, given: boolean | LeaseRule): LeaseSettings {
    if (given === false) return NOT_LEASED
    return madeOnce(this.#leases, rule, () => this.#ownLease(rule.name, given))
  }

  #ownLease(policy: string, given: true | LeaseRule): LeaseSettings {
    const { sync, recall } = this.store
    if (!sync && recall === undefined)
      this.#warnOnce(
        `lease of ${policy}`,
        'SLUICE_NOT_LEASED',
        () =>
          `Policy "${policy}" has \`lease\`, and the store of its limiter cannot lease: it is guarded or cached already, or has no \`wrappers\`. Each request asks the ` +
          'store. Pass guard(denyCache(lease(store))) as the store.',
      )
    const own = leaseSettings('lease', given as boolean | LeaseOptions)!
    return given === true ? (this.place.lease ?? own) : own
  }

  #limiterOf({ rule }: CompiledPolicy): string {
    return stateName(this.name, rule.name)
  }

  /** Warns once about each subject, and only about a bounded number of subjects. */
  #warnOnce(subject: string, code: string, reason: () => string): void {
    if (this.#warned.has(subject) || this.#warned.size >= MOST_WARNINGS) return
    this.#warned.add(subject)
    warn(code, reason())
  }
}

/** Returns the limits of a key under a policy, or those of its override. */
function limitsOf(policy: CompiledPolicy, key: string, now: number): readonly Limit[] {
  return (overrideOf(policy, key, now) ?? policy).limits
}

const MOST_WARNINGS = 100

/** How many requests without an attribute cause a warning. */
const REQUESTS = 1000
const MOST_LISTED = 10

/** Warns once about attributes in a document that no request has, such as misspelled ones. */
export class AttributeWatch {
  #named: CompiledRules['attributes'] = new Map()
  /** Attributes of the document that no request has had yet, and that have had no warning. */
  #missing = new Set<string>()
  #requests = 0

  /** Notes the attributes of the document and of a request. */
  see(named: CompiledRules['attributes'], attributes: Attributes): void {
    if (named !== this.#named) this.#begin(named)
    if (this.#missing.size === 0) return
    for (const name of this.#missing) {
      if (Object.hasOwn(attributes, name) && attributes[name] !== undefined && attributes[name] !== null)
        this.#missing.delete(name)
    }
    if (++this.#requests < REQUESTS || this.#missing.size === 0) return
    this.#warn(named)
    this.#missing.clear()
  }

  /** Begins with another document. Keeps the state of attributes that are also in the new document. */
  #begin(named: CompiledRules['attributes']): void {
    const isSettled = (name: string): boolean => this.#named.has(name) && !this.#missing.has(name)
    this.#missing = new Set([...named.keys()].filter((name) => !isSettled(name)))
    this.#named = named
    this.#requests = 0
  }

  #warn(named: CompiledRules['attributes']): void {
    const listed = Array.from(this.#missing).slice(0, MOST_LISTED)
    const more = this.#missing.size > MOST_LISTED ? ` and ${this.#missing.size - MOST_LISTED} more` : ''
    const names = listed.map((name) => `"${name}" (policy "${named.get(name)}")`).join(', ')
    warn(
      'SLUICE_ATTRIBUTE_MISSING',
      `The rules name attributes that none of the first ${REQUESTS} requests had: ${names}${more}. A condition on such an attribute never ` +
        'holds, so its policy limits nothing. Correct the name in the document, or return the attribute from `attributes`.',
    )
  }
}

function stateName(limiter: string, policy: string): string {
  return `${limiter}/${policy}`
}
