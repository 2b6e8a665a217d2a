import { createLimiter } from '../../limiter/limiter.ts'
import type { RulesInput } from '../../limiter/rule-source.ts'
import type { CompiledRules } from '../../rules/dimensions.ts'
import { type ConditionExplanation, explainRules, type PolicyExplanation } from '../../rules/match.ts'
import { Rules } from '../../rules/rules.ts'
import type { RedisClient, ScriptClient } from '../../stores/redis/clients.ts'
import { redisStore } from '../../stores/redis/index.ts'
import type { LimitStatus } from '../../stores/store.ts'
import { roughDuration } from '../../util/duration.ts'
import { limitText } from './diff.ts'

/** The current state of a limit for the key: what remains before the request, and whether this limit denies the request. Times are in milliseconds. */
type Usage = Pick<LimitStatus, 'remaining' | 'allowed' | 'retryAfter' | 'resetAfter'>

interface ExplainedLimit {
  readonly name: string
  readonly limit: string
  /** True for a shadow limit, which never denies. */
  readonly isShadow: boolean
  /** Only with a Redis URL, and for a policy that applies. */
  readonly usage: Usage | undefined
}

interface ExplainedPolicy extends Omit<PolicyExplanation, 'rule' | 'limits' | 'override'> {
  readonly policy: string
  readonly allow: boolean
  readonly until: string | undefined
  /** The missing parts of the request, if the policy may apply with them: `header x-api-key`. */
  readonly missing: readonly string[]
  /** True if the limits are from an override. */
  readonly isOverridden: boolean
  readonly overriddenUntil: string | undefined
  readonly limits: readonly ExplainedLimit[]
}

interface Explained {
  /** The result for the request, in one sentence. */
  readonly verdict: string
  readonly allowedBy: string | undefined
  /** True if a request would be admitted now. Only with a Redis URL. */
  readonly admitted: boolean | undefined
  readonly policies: readonly ExplainedPolicy[]
}

/** The place of the usage: the server, and the names that the application uses. */
interface UsagePlace {
  readonly client: RedisClient
  readonly scripts: ScriptClient
  readonly limiter: string
  readonly prefix: string
}

/** Explains which rules apply to a request, and the usage of its keys. It charges nothing. */
export async function explain(
  rules: CompiledRules,
  input: RulesInput,
  place: UsagePlace | undefined,
): Promise<Explained> {
  const now = place === undefined ? Date.now() : await timeOf(place.scripts)
  const { allowedBy, policies } = explainRules(rules, input, now)
  const found = place === undefined ? undefined : await usageOf(rules, input, place)
  const usages = [...(found?.usages ?? [])]
  const isCounted = allowedBy === undefined
  const result = {
    allowedBy,
    admitted: found?.admitted,
    policies: policies.map((policy) => explained(policy, isCounted && policy.applies ? usages : [])),
  }
  return { verdict: verdictOf(result), ...result }
}

function verdictOf({ allowedBy, admitted, policies }: Omit<Explained, 'verdict'>): string {
  if (allowedBy !== undefined) return `Admitted without being counted, by ${allowedBy}.`
  const applying = policies.filter(({ applies }) => applies)
  const limiting = applying.filter(mayDeny)
  const more = missingText(policies)
  if (limiting.length === 0) {
    const reason = applying.length === 0 ? 'no policy applies' : 'only policies in shadow apply'
    return `Not limited${more === '' ? '' : ' with what is given'}: ${reason}.${more}`
  }
  const names = limiting.map(({ policy }) => policy).join(', ')
  if (admitted === undefined) return `Limited by ${names}.${more}`
  if (admitted) return `A request would be admitted now. Limited by ${names}.${more}`
  const reasons = applying.flatMap(({ policy, limits }) =>
    limits
      .filter(({ usage, isShadow }) => usage?.allowed === false && !isShadow)
      .map(({ name, usage }) => `${policy}, limit ${name}${retryText(usage!)}`),
  )
  return `A request would be denied now by ${reasons.join('; ')}.`
}

/** False for a policy in shadow, and for one with `allow: true`. */
function mayDeny({ limits }: ExplainedPolicy): boolean {
  return limits.some(({ isShadow }) => !isShadow)
}

const MOST_LISTED = 10

/** Describes which policies may apply if the missing parts were given. */
function missingText(policies: readonly ExplainedPolicy[]): string {
  const near = policies.filter((policy) => policy.missing.length > 0 && mayDeny(policy))
  if (near.length === 0) return ''
  const listed = near.slice(0, MOST_LISTED).map(({ policy, missing }) => `${policy} with ${missing.join(' and ')}`)
  const rest = near.length > MOST_LISTED ? ` and ${near.length - MOST_LISTED} more` : ''
  return ` Would be limited by ${listed.join(', by ')}${rest}.`
}

/** Returns the missing parts that a policy needs. Returns none if a given part does not match. */
function missingIn({ applies, hasEnded, conditions }: PolicyExplanation): readonly string[] {
  const unmet = applies || hasEnded ? [] : conditions.filter(({ holds }) => !holds)
  if (unmet.some(({ actual = '' }) => actual !== '')) return []
  return unmet.map(({ part }) => part.replace(/^header\./, 'header ').replace(/^attributes\./, 'attribute '))
}

function retryText({ retryAfter }: Usage): string {
  if (retryAfter === 0) return ''
  return retryAfter === Infinity ? ', never admitted' : `, retry in ${roughDuration(retryAfter)}`
}

/**
 * Explains a policy.
 * @param usages the usages of all remaining limits. The usages of this policy are removed from the list
 */
function explained(policy: PolicyExplanation, usages: Usage[]): ExplainedPolicy {
  const { rule, applies, isRest, hasEnded, conditions, keyParts, key, limits, override } = policy
  return {
    policy: rule.name,
    applies,
    isRest,
    allow: rule.allow === true,
    hasEnded,
    until: rule.until,
    conditions,
    missing: missingIn(policy),
    keyParts,
    key,
    isOverridden: override !== undefined,
    overriddenUntil: override?.until,
    limits: limits.map((limit) => ({
      name: limit.name,
      limit: limitText(limit),
      isShadow: limit.shadow === true,
      usage: usages.shift(),
    })),
  }
}

async function usageOf(
  compiled: CompiledRules,
  input: RulesInput,
  { client, limiter, prefix }: UsagePlace,
): Promise<{ admitted: boolean; usages: readonly Usage[] }> {
  const rules = new Rules<RulesInput>(compiled, {})
  const counted = createLimiter({ rules, name: limiter, store: redisStore(client, { prefix }) })
  // A decision contains the units that are left after the request. A decision with cost 0 contains the units that are left before it.
  const [decision, before] = [await counted.peek(input), await counted.peek(input, { cost: 0 })]
  const usages = decision.limits.map(({ allowed, retryAfter }, i) => {
    const { remaining, resetAfter } = before.limits[i]!
    return { remaining, allowed, retryAfter, resetAfter }
  })
  return { admitted: decision.allowed, usages }
}

async function timeOf(scripts: ScriptClient): Promise<number> {
  const [seconds, micros] = (await scripts.call('eval', "return redis.call('TIME')", [], [])) as [string, string]
  return Number(seconds) * 1000 + Number(micros) / 1000
}

export function printedExplanation({ verdict, policies }: Explained): string {
  return `${[verdict, ...policies.map(policyLines)].join('\n\n')}\n`
}

function policyLines(policy: ExplainedPolicy): string {
  const { hasEnded, until, applies, conditions, allow, isRest } = policy
  const verdict = applies ? 'applies' : hasEnded ? `has ended at ${until}` : 'does not apply'
  const lines = [`${policy.policy}: ${verdict}`, ...conditions.map(conditionLine)]
  if (conditions.length === 0 && !isRest) lines.push('  matches every request')
  if (isRest) lines.push('  matches requests that no policy matches')
  if (allow) lines.push('  requests are admitted without being counted')
  else lines.push(keyLine(policy), ...overrideLines(policy), ...policy.limits.map(limitLine))
  return lines.join('\n')
}

function conditionLine({ part, expected, actual, holds }: ConditionExplanation): string {
  return `  ${holds ? '✓' : '✗'} ${part}: ${actual ?? 'none'}${holds ? ' is' : ' is not'} ${expected}`
}

function keyLine({ keyParts, key }: ExplainedPolicy): string {
  const parts = keyParts.map(
    ({ name, value }) => `${name}=${/[\s=]/.test(value) ? JSON.stringify(value) : value || 'none'}`,
  )
  return `  key: ${parts.join(' ')}${key === '' ? ', shared by all requests without one' : ''}`
}

function overrideLines({ isOverridden, overriddenUntil }: ExplainedPolicy): string[] {
  if (!isOverridden) return []
  return [`  an override applies to this key${overriddenUntil === undefined ? '' : ` until ${overriddenUntil}`}`]
}

function limitLine({ name, limit, usage }: ExplainedLimit): string {
  if (usage === undefined) return `  limit ${name}: ${limit}`
  const { remaining, resetAfter } = usage
  const reset = resetAfter === 0 ? '' : `, resets in ${roughDuration(resetAfter)}`
  return `  limit ${name}: ${limit}; ${remaining} left now${retryText(usage)}${reset}`
}
