import type { Cell, CompiledPolicy, CompiledRules, Condition, Dimension } from './dimensions.ts'
import { type Facts, plainFacts } from './facts.ts'
import type { RulesInput } from '../limiter/rule-source.ts'
import type { Limit } from '../engine/limit.ts'
import type { OverrideRule, PolicyRule } from './document.ts'
import type { CompiledOverride } from './limits.ts'

function cellsOf(dimension: Dimension, facts: Facts): readonly Cell[] {
  return facts.once(dimension, () => dimension.find(facts))
}

function holds({ dimension, cells }: Condition, facts: Facts): boolean {
  const found = cellsOf(dimension, facts)
  for (let i = 0; i < found.length; i++) if (cells.has(found[i]!)) return true
  return false
}

function matches({ conditions, rule }: CompiledPolicy, facts: Facts): boolean {
  for (let i = 0; i < conditions.length; i++) if (!holds(conditions[i]!, facts)) return false
  return rule.allow !== true || conditions.every((each) => surelyHolds(each, facts))
}

/**
 * Returns true if a condition is met, however a router reads the path. A policy with `allow` needs this: a request must not be exempt if a router reads its
 * path as another one.
 */
function surelyHolds(condition: Condition, facts: Facts): boolean {
  return condition.dimension.surelyHas?.(facts, condition.cells) ?? holds(condition, facts)
}

/**
 * Returns the policies that match a request, in the order of the document. It examines only the policies that have the
 * path, address, header or attribute of the request.
 * @param now epoch milliseconds: policies that have ended do not match
 */
export function matchingPolicies(rules: CompiledRules, facts: Facts, now: number): readonly CompiledPolicy[] {
  const matched: CompiledPolicy[] = []
  addMatching(matched, rules.always, facts, now)
  for (let i = 0; i < rules.indexed.length; i++) {
    const cells = cellsOf(rules.indexed[i]!, facts)
    for (let j = 0; j < cells.length; j++) addMatching(matched, cells[j]!.policies, facts, now)
  }
  return matched.length < 2 ? matched : matched.toSorted((one, other) => one.index - other.index)
}

/** The policies of a request that a policy with `allow` matches. */
const ALLOWED: readonly CompiledPolicy[] = Object.freeze([])

/**
 * Returns the policies whose limits a request must pass: all that match, or none if one of them allows the request. If no matching policy is enforced,
 * `otherwise` is added.
 */
export function applyingPolicies(rules: CompiledRules, facts: Facts, now: number): readonly CompiledPolicy[] {
  const matched = matchingPolicies(rules, facts, now)
  if (matched.some(isAllowing)) return ALLOWED
  const { otherwise } = rules
  if (otherwise === undefined || isAllowing(otherwise) || matched.some(isEnforced)) return matched
  return [...matched, otherwise]
}

/**
 * Returns true if no policy limits or allows a request.
 * @param applying the result of `applyingPolicies`
 */
export function isUnmatched(applying: readonly CompiledPolicy[]): boolean {
  return applying !== ALLOWED && !applying.some(isEnforced)
}

function isAllowing({ rule }: CompiledPolicy): boolean {
  return rule.allow === true
}

function isEnforced(policy: CompiledPolicy): boolean {
  return policy.isEnforced
}

/**
 * Returns the key of a request under a policy that it matches; `undefined` for a policy with `allow`. A key by path uses the path by which the policy
 * applies, so that a client cannot vary another reading, which the router ignores.
 */
export function keyUnder({ key, conditions }: CompiledPolicy, facts: Facts): string | undefined {
  return key?.of(facts, () => readingsUnder(conditions, facts))
}

/** Returns the override of a key until it ends. */
export function overrideOf({ overrides }: CompiledPolicy, key: string, now: number): CompiledOverride | undefined {
  const override = overrides.get(key)
  return override !== undefined && now < override.until ? override : undefined
}

function readingsUnder(conditions: CompiledPolicy['conditions'], facts: Facts): readonly string[] {
  const condition = conditions.find(({ dimension }) => dimension.readings !== undefined)
  const found = condition?.dimension.readings!(facts, condition.cells) ?? []
  return found.length === 0 ? (facts.paths[0] ?? []) : found
}

function addMatching(
  matched: CompiledPolicy[],
  candidates: readonly CompiledPolicy[],
  facts: Facts,
  now: number,
): void {
  for (let i = 0; i < candidates.length; i++) {
    const policy = candidates[i]!
    // A policy with several paths or networks may be found twice.
    if (now < policy.until && matches(policy, facts) && !matched.includes(policy)) matched.push(policy)
  }
}

/** The explanation of one request, with an entry for each policy. */
interface Explanation {
  /** The first policy with `allow: true` that applies. No limit applies then. */
  readonly allowedBy: string | undefined
  readonly policies: readonly PolicyExplanation[]
}

export interface PolicyExplanation {
  readonly rule: PolicyRule
  /** True if every condition is met and the policy has not ended. */
  readonly applies: boolean
  /** True for `otherwise`. */
  readonly isRest: boolean
  readonly hasEnded: boolean
  readonly conditions: readonly ConditionExplanation[]
  /** The parts of the key with their names in the document and the values of the request; `''` if the request has none. */
  readonly keyParts: readonly { readonly name: string; readonly value: string }[]
  /** The key of the request, `''` without one; `undefined` for a policy with `allow: true`. */
  readonly key: string | undefined
  /** The limits for this key. */
  readonly limits: readonly Limit[]
  /** The current override of this key. */
  readonly override: OverrideRule | undefined
}

export interface ConditionExplanation {
  /** The name in the document, such as `path`, `header.x-device` or `attributes.plan`. */
  readonly part: string
  readonly expected: string
  readonly actual: string | undefined
  readonly holds: boolean
}

/** Explains which policies apply to a request, and why the others do not. `now` is in epoch milliseconds. */
export function explainRules(rules: CompiledRules, input: RulesInput, now: number): Explanation {
  const facts = plainFacts(input)
  const explained = rules.policies.map((policy) => explainPolicy(policy, facts, now))
  const isMatched = explained.some(({ applies }, i) => applies && rules.policies[i]!.isEnforced)
  const rest = rules.otherwise && { ...explainPolicy(rules.otherwise, facts, now), applies: !isMatched }
  const policies = rest === undefined ? explained : [...explained, rest]
  const allowing = policies.find(({ applies, rule }) => applies && rule.allow === true)
  return { allowedBy: allowing?.rule.name, policies }
}

function explainPolicy(policy: CompiledPolicy, facts: Facts, now: number): PolicyExplanation {
  const conditions = policy.conditions.map((condition) =>
    explainCondition(condition, facts, policy.rule.allow === true),
  )
  const hasEnded = now >= policy.until
  const keyParts = policy.key?.parts(facts, () => readingsUnder(policy.conditions, facts)) ?? []
  const key = keyUnder(policy, facts)
  const override = key === undefined ? undefined : overrideOf(policy, key, now)
  return {
    rule: policy.rule,
    isRest: policy.index === Infinity,
    applies: !hasEnded && conditions.every(({ holds }) => holds),
    hasEnded,
    conditions,
    keyParts: keyParts.map((value, i) => ({ name: policy.key!.names[i]!, value })),
    key,
    limits: (override ?? policy).limits,
    override: override?.rule,
  }
}

function explainCondition(condition: Condition, facts: Facts, isAllowing: boolean): ConditionExplanation {
  const { dimension, expected } = condition
  const isMet = isAllowing ? surelyHolds(condition, facts) : holds(condition, facts)
  return { part: dimension.part, expected, actual: dimension.actual(facts), holds: isMet }
}
