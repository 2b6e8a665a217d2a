// Which policies match a request.
import type { RulesInput } from '../../src/limiter/rule-source.ts'
import { compileRules } from '../../src/rules/compile.ts'
import { plainFacts } from '../../src/rules/facts.ts'
import type { MatchRule, PolicyRule } from '../../src/rules/index.ts'
import { matchingPolicies } from '../../src/rules/match.ts'

/** The limits of a policy of which only the conditions matter. */
const limits = [{ quota: 1, window: '1m' }]

export function policy(name: string, match: MatchRule | undefined, more: Partial<PolicyRule> = {}): PolicyRule {
  return { name, ...(match && { match }), key: 'everyone', limits, ...more }
}

/** Returns the names of the policies that match an input. */
export function matched(policies: readonly PolicyRule[], input: RulesInput, now = 0): string[] {
  return matchingPolicies(compileRules({ policies }), plainFacts(input), now).map(({ rule }) => rule.name)
}

export function matches(match: MatchRule, input: RulesInput): boolean {
  return matched([policy('p', match)], input).length > 0
}
