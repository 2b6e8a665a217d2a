import type { CompiledPolicy } from '../../rules/compiled.ts'
import { type Limit, windowText } from '../../limits/limit.ts'
import { shortDuration } from '../../util/duration.ts'
import { DEFAULT_ALGORITHM } from '../../rules/limit-shapes.ts'

const COMMON = new Set(['algorithm', 'name', 'quota', 'window', 'strict', 'block', 'shadow'])

/** Describes a limit: `60 per 1m, burst 10`. */
export function limitText(limit: Limit): string {
  const { algorithm, quota, strict, block, shadow } = limit
  const own = Object.entries(limit).filter(([name, value]) => !COMMON.has(name) && value !== quota)
  const more = [
    algorithm === DEFAULT_ALGORITHM ? '' : algorithm,
    ...own.map(([name, value]) => `${name} ${text(value)}`),
    strict === true ? 'strict' : '',
    block === undefined ? '' : `block ${blockText(block)}`,
    shadow === true ? 'shadow' : '',
  ]
  return [`${quota} per ${windowText(limit)}`, ...more.filter((each) => each !== '')].join(', ')
}

function blockText(block: NonNullable<Limit['block']>): string {
  if (typeof block === 'number') return shortDuration(block)
  const { after, factor, upTo } = block
  const growth = factor === 1 ? '' : ` ×${factor} up to ${shortDuration(upTo)}`
  return `${shortDuration(block.for)}${growth}${after === 1 ? '' : ` after ${after} denials`}`
}

/** Describes several limits, with their names if there is more than one. */
export function limitsText(limits: readonly Limit[]): string {
  if (limits.length === 1) return limitText(limits[0]!)
  return limits.map((limit) => `${limit.name} ${limitText(limit)}`).join('; ')
}

/** Describes which requests a policy applies to: `POST /login, plan free`. */
export function matchText({ conditions }: CompiledPolicy): string {
  if (conditions.length === 0) return 'every request'
  return conditions.map(({ dimension, expected }) => `${dimension.part} ${expected}`).join(', ')
}

/** Describes what a policy does. */
export function policyText(policy: CompiledPolicy): string {
  if (policy.rule.allow === true) return `${matchText(policy)}: admitted without being counted`
  return `${matchText(policy)}: ${limitsText(policy.limits)} by ${policy.key!.names.join(' and ')}`
}

export function text(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}
