import type { InputReader, RulesInput } from '../limiter/rule-source.ts'
import { plainReader } from '../limiter/rule-source.ts'
import type { Limit } from '../limits/limit.ts'
import type { CompiledPolicy, CompiledRules, Condition } from './compiled.ts'
import type { OverrideRule, PolicyRule } from './document.ts'
import { Facts } from './facts.ts'
import { keyPartsUnder, keyUnder, surelyHolds } from './match.ts'

/** What rules say about one request, policy by policy. */
export interface Explanation {
  /** The first policy with `allow: true` that applies; no limit applies then. */
  readonly allowedBy: string | undefined
  readonly policies: readonly PolicyExplanation[]
}

export interface PolicyExplanation {
  readonly rule: PolicyRule
  /** True if every condition is met and the policy has not ended. */
  readonly applies: boolean
  readonly hasEnded: boolean
  readonly conditions: readonly ConditionExplanation[]
  /** The parts of the key, as the document names them, with the value of the request; `''` for none. */
  readonly keyParts: readonly { readonly name: string; readonly value: string }[]
  /** The key of the request, `''` without one; `undefined` for a policy with `allow: true`. */
  readonly key: string | undefined
  /** The limits for this key. */
  readonly limits: readonly Limit[]
  /** The current override of this key. */
  readonly override: OverrideRule | undefined
}

export interface ConditionExplanation {
  /** As in the document: `path`, `header.x-device`, `attributes.plan`. */
  readonly part: string
  readonly expected: string
  readonly actual: string | undefined
  readonly holds: boolean
}

/** Explains which policies apply to a request, and why the others do not. `now` is in epoch milliseconds. */
export function explainRules(rules: CompiledRules, input: RulesInput, now: number): Explanation {
  const facts = new Facts(plainReader as InputReader<unknown>, input, input.attributes ?? {})
  const policies = rules.policies.map((policy) => explainPolicy(policy, facts, now))
  const allowing = policies.find(({ applies, rule }) => applies && rule.allow === true)
  return { allowedBy: allowing?.rule.name, policies }
}

function explainPolicy(policy: CompiledPolicy, facts: Facts, now: number): PolicyExplanation {
  const conditions = policy.conditions.map((condition) =>
    explainCondition(condition, facts, policy.rule.allow === true),
  )
  const hasEnded = now >= policy.until
  const key = keyUnder(policy, facts)
  const override = key === undefined ? undefined : policy.overrides.get(key)
  const inForce = override !== undefined && now < override.until ? override : undefined
  return {
    rule: policy.rule,
    applies: !hasEnded && conditions.every(({ holds }) => holds),
    hasEnded,
    conditions,
    keyParts: keyPartsUnder(policy, facts).map((value, i) => ({ name: policy.key!.names[i]!, value })),
    key,
    limits: inForce?.limits ?? policy.limits,
    override: inForce?.rule,
  }
}

function explainCondition(condition: Condition, facts: Facts, isAllowing: boolean): ConditionExplanation {
  const { dimension, cells, expected } = condition
  const holds = isAllowing ? surelyHolds(condition, facts) : dimension.find(facts).some((cell) => cells.has(cell))
  return { part: dimension.part, expected, actual: dimension.actual(facts), holds }
}
