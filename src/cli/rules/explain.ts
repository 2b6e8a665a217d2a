import { createLimiter } from '../../limiter/limiter.ts'
import type { RulesInput } from '../../limiter/rule-source.ts'
import { compileRules } from '../../rules/compile.ts'
import type { RulesDocument } from '../../rules/document.ts'
import { type ConditionExplanation, explainRules, type PolicyExplanation } from '../../rules/explain.ts'
import { createRules } from '../../rules/rules.ts'
import type { RedisClient, ScriptClient } from '../../stores/redis/clients.ts'
import { redisStore } from '../../stores/redis/index.ts'
import { roughDuration } from '../../util/duration.ts'
import { limitText } from './describe.ts'

/** The state of a limit for the key now. Times are in milliseconds. */
export interface Usage {
  readonly remaining: number
  readonly retryAfter: number
  readonly resetAfter: number
}

export interface ExplainedLimit {
  readonly name: string
  readonly limit: string
  /** Only with a Redis URL, and for a policy that applies. */
  readonly usage: Usage | undefined
}

export interface ExplainedPolicy {
  readonly policy: string
  readonly applies: boolean
  readonly allow: boolean
  readonly hasEnded: boolean
  readonly until: string | undefined
  readonly conditions: readonly ConditionExplanation[]
  readonly keyNames: readonly string[]
  /** Empty for a request without a key. */
  readonly key: string | undefined
  /** True if the limits are those of an override. */
  readonly isOverridden: boolean
  readonly overriddenUntil: string | undefined
  readonly limits: readonly ExplainedLimit[]
}

export interface Explained {
  readonly allowedBy: string | undefined
  /** True if a request would be admitted now; only with a Redis URL. */
  readonly admitted: boolean | undefined
  readonly policies: readonly ExplainedPolicy[]
}

/** Where usage is read: the server, and the names that the application uses. */
export interface UsagePlace {
  readonly client: RedisClient
  readonly scripts: ScriptClient
  readonly limiter: string
  readonly prefix: string
}

/** Explains what rules say about a request, and what it has used. It charges nothing. */
export async function explain(
  document: RulesDocument,
  input: RulesInput,
  place: UsagePlace | undefined,
): Promise<Explained> {
  const now = place === undefined ? Date.now() : await timeOf(place.scripts)
  const { allowedBy, policies } = explainRules(compileRules(document), input, now)
  const found = place === undefined ? undefined : await usageOf(document, input, place)
  const usages = [...(found?.usages ?? [])]
  const isCounted = allowedBy === undefined
  return {
    allowedBy,
    admitted: found?.admitted,
    policies: policies.map((policy) => explained(policy, isCounted && policy.applies ? usages : [])),
  }
}

/** @param usages of the limits that follow; those of this policy are taken out */
function explained(policy: PolicyExplanation, usages: Usage[]): ExplainedPolicy {
  const { rule, applies, hasEnded, conditions, keyNames, key, limits, override } = policy
  return {
    policy: rule.name,
    applies,
    allow: rule.allow === true,
    hasEnded,
    until: rule.until,
    conditions,
    keyNames,
    key,
    isOverridden: override !== undefined,
    overriddenUntil: override?.until,
    limits: limits.map((limit) => ({ name: limit.name, limit: limitText(limit), usage: usages.shift() })),
  }
}

async function usageOf(
  document: RulesDocument,
  input: RulesInput,
  { client, limiter, prefix }: UsagePlace,
): Promise<{ admitted: boolean; usages: readonly Usage[] }> {
  const rules = createRules<RulesInput>(document)
  const decision = await createLimiter({ rules, name: limiter, store: redisStore(client, { prefix }) }).peek(input)
  const usages = decision.limits.map(({ remaining, retryAfter, resetAfter }) => ({ remaining, retryAfter, resetAfter }))
  return { admitted: decision.allowed, usages }
}

async function timeOf(scripts: ScriptClient): Promise<number> {
  const [seconds, micros] = (await scripts.eval("return redis.call('TIME')", [], [])) as [string, string]
  return Number(seconds) * 1000 + Number(micros) / 1000
}

/** Writes an explanation for people. */
export function printedExplanation({ allowedBy, admitted, policies }: Explained): string {
  const outcome =
    allowedBy !== undefined
      ? `${allowedBy} admits the request without counting it`
      : policies.some(({ applies }) => applies)
        ? { true: 'a request would be admitted now', false: 'a request would be denied now' }[String(admitted)]
        : 'no policy applies: the request is not limited'
  return [...policies.map(policyLines), ...(outcome === undefined ? [] : [outcome]), ''].join('\n\n').trimEnd() + '\n'
}

function policyLines(policy: ExplainedPolicy): string {
  const { hasEnded, until, applies, conditions, allow } = policy
  const verdict = applies ? 'applies' : hasEnded ? `has ended at ${until}` : 'does not apply'
  const lines = [`${policy.policy}: ${verdict}`, ...conditions.map(conditionLine)]
  if (conditions.length === 0) lines.push('  matches every request')
  if (allow) lines.push('  requests are admitted without being counted')
  else lines.push(keyLine(policy), ...overrideLines(policy), ...policy.limits.map(limitLine))
  return lines.join('\n')
}

function conditionLine({ part, expected, actual, holds }: ConditionExplanation): string {
  return `  ${holds ? '✓' : '✗'} ${part}: ${actual ?? 'none'}${holds ? ' is' : ' is not'} ${expected}`
}

function keyLine({ keyNames, key }: ExplainedPolicy): string {
  const value = key === '' ? 'none, shared by all requests without one' : key
  return `  key by ${keyNames.join(' and ')}: ${value}`
}

function overrideLines({ isOverridden, overriddenUntil }: ExplainedPolicy): string[] {
  if (!isOverridden) return []
  return [`  an override applies to this key${overriddenUntil === undefined ? '' : ` until ${overriddenUntil}`}`]
}

function limitLine({ name, limit, usage }: ExplainedLimit): string {
  if (usage === undefined) return `  limit ${name}: ${limit}`
  const { remaining, retryAfter, resetAfter } = usage
  const wait = retryAfter === Infinity ? ', never admitted' : `, retry in ${roughDuration(retryAfter)}`
  const retry = retryAfter === 0 ? '' : wait
  return `  limit ${name}: ${limit}; ${remaining} remaining${retry}, resets in ${roughDuration(resetAfter)}`
}
