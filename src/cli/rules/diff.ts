import { isDeepStrictEqual } from 'node:util'
import { partsOf } from '../../dashboard/counters.ts'
import { type Limit, windowText } from '../../engine/limit.ts'
import { allPolicies, type CompiledPolicy, type CompiledRules } from '../../rules/dimensions.ts'
import type { CompiledOverride } from '../../rules/limits.ts'
import { shortDuration } from '../../util/duration.ts'
import { DEFAULT_ALGORITHM } from '../../rules/shapes.ts'

/** The effect of a change: it admits less, it admits more, or the two cannot be compared. */
type Direction = 'tightened' | 'loosened' | 'changed'

/** Options whose values can be compared. A difference in another option makes it another limit. */
const ORDERED = new Set(['quota', 'window', 'burst', 'capacity', 'strict', 'block', 'shadow'])

/**
 * Compares two limits with the same name. Returns `undefined` for equal limits. A limit is tightened if its rate, its largest burst and its
 * penalties all admit less or the same.
 */
function compareLimits(before: Limit, after: Limit): Direction | undefined {
  if (isDeepStrictEqual(before, after)) return undefined
  const names = new Set([...Object.keys(before), ...Object.keys(after)])
  for (const name of names) if (!ORDERED.has(name) && !isDeepStrictEqual(before[name], after[name])) return 'changed'
  return combined([
    order(rate(before), rate(after)),
    order(mostAtOnce(before), mostAtOnce(after)),
    order(penalty(after.strict), penalty(before.strict)),
    order(penalty(before.shadow), penalty(after.shadow)),
    isDeepStrictEqual(before.block, after.block) ? undefined : order(penalty(after.block), penalty(before.block)),
  ])
}

function combined(parts: readonly (Direction | undefined)[]): Direction | undefined {
  const directions = new Set(parts.filter((each) => each !== undefined))
  if (directions.size > 1) return 'changed'
  return [...directions][0]
}

/** Compares two numbers. The larger number admits more. */
function order(before: number, after: number): Direction | undefined {
  if (before === after) return undefined
  return Number.isNaN(before) || Number.isNaN(after) ? 'changed' : after < before ? 'tightened' : 'loosened'
}

function rate({ quota, window }: Limit): number {
  return quota / window
}

function mostAtOnce({ quota, burst, capacity }: Limit): number {
  return (burst ?? capacity ?? quota) as number
}

/** Returns a flag or a duration as a number, or `NaN` for a penalty with several parts. */
function penalty(value: unknown): number {
  return value === undefined ? 0 : Number(value)
}

/** Describes a limit: `60 per 1m, burst 10`. */
export function limitText(limit: Limit): string {
  const parts = partsOf(limit, windowText(limit), blockText)
  return parts.filter((each) => each !== DEFAULT_ALGORITHM).join(', ')
}

function blockText(block: NonNullable<Limit['block']>): string {
  if (typeof block === 'number') return shortDuration(block)
  const { after, factor, upTo } = block
  const growth = factor === 1 ? '' : ` ×${factor} up to ${shortDuration(upTo)}`
  return `${shortDuration(block.for)}${growth}${after === 1 ? '' : ` after ${after} denials`}`
}

/** Describes limits, with their names if there is more than one. */
function limitsText(limits: readonly Limit[]): string {
  if (limits.length === 1) return limitText(limits[0]!)
  return limits.map((limit) => `${limit.name} ${limitText(limit)}`).join('; ')
}

/** Describes the requests to which a policy applies: `POST /login, plan free`. */
function matchText({ conditions, index }: CompiledPolicy): string {
  if (index === Infinity) return 'requests that no policy matches'
  if (conditions.length === 0) return 'every request'
  return conditions.map(({ dimension, expected }) => `${dimension.part} ${expected}`).join(', ')
}

function policyText(policy: CompiledPolicy): string {
  if (policy.rule.allow === true) return `${matchText(policy)}: admitted without being counted`
  return `${matchText(policy)}: ${limitsText(policy.limits)} by ${policy.key!.names.join(' and ')}`
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** A difference between two documents, for the requests of one policy or of one key of this policy. */
export interface Difference {
  readonly kind: Direction | 'added' | 'removed' | 'ends'
  /** The effect of an addition or a removal on requests. `changed` if it is not known. */
  readonly effect?: Direction
  readonly policy: string
  /** The key, for a difference in one override. */
  readonly key?: string
  /** The name of the limit, for a difference in one limit. */
  readonly limit?: string
  readonly before?: string
  readonly after?: string
  /** For `ends`: the time of the end in ISO 8601. */
  readonly until?: string
}

export const EFFECTS = ['loosened', 'tightened'] as const

export type Effect = (typeof EFFECTS)[number]

/** Returns true if a difference has an effect, or may have it. */
export function mayHave({ kind, effect }: Difference, expected: Effect): boolean {
  const found = effect ?? kind
  return found === expected || found === 'changed'
}

/** Returns the differences for all policies and keys, and the policies and overrides of the new document that end at a time. */
export function differences(before: CompiledRules, after: CompiledRules): readonly Difference[] {
  const hasRest = [before, after].some(({ otherwise }) => otherwise !== undefined && otherwise.rule.allow !== true)
  const policies = pairs(allPolicies(before), allPolicies(after), ({ rule }) => rule.name)
  return policies.flatMap(([old, next]) => {
    if (next === undefined) {
      const effect = effectOf(old, hasRest, 'loosened', 'tightened')
      return [difference('removed', effect, { policy: old.rule.name, before: policyText(old) })]
    }
    if (old !== undefined) return differencesOf(old, next, hasRest).concat(ends(next))
    const effect = effectOf(next, hasRest, 'tightened', 'loosened')
    const added = difference('added', effect, { policy: next.rule.name, after: policyText(next) })
    return [added].concat(ends(next))
  })
}

type Pair<Item> = readonly [before: Item, after: undefined] | readonly [before: Item | undefined, after: Item]

/** Pairs the items of two lists by their names: first the items that are removed, then those of the new list. */
function pairs<Item>(before: readonly Item[], after: readonly Item[], nameOf: (item: Item) => string): Pair<Item>[] {
  const old = new Map(before.map((item) => [nameOf(item), item]))
  const next = new Set(after.map(nameOf))
  const removed = before.filter((item) => !next.has(nameOf(item)))
  return [
    ...removed.map((item) => [item, undefined] as const),
    ...after.map((item) => [old.get(nameOf(item)), item] as const),
  ]
}

/** Makes a difference. The effect is only set if it differs from the kind. */
function difference(
  kind: Difference['kind'],
  effect: Direction | undefined,
  details: Omit<Difference, 'kind' | 'effect'>,
): Difference {
  return effect === undefined || effect === kind ? { kind, ...details } : { kind, effect, ...details }
}

/**
 * Returns the effect of a policy that is added or removed. If `otherwise` has limits, requests move between `otherwise` and the policy. Then the
 * policy may admit more or less.
 */
function effectOf(
  { rule, index, isEnforced }: CompiledPolicy,
  hasRest: boolean,
  ofLimits: Direction,
  ofAllowance: Direction,
): Direction | undefined {
  if (!isEnforced || (index === Infinity && rule.allow === true)) return undefined
  if (rule.allow === true) return ofAllowance
  return hasRest && index !== Infinity ? 'changed' : ofLimits
}

function differencesOf(before: CompiledPolicy, after: CompiledPolicy, hasRest: boolean): Difference[] {
  const policy = after.rule.name
  if ((before.rule.allow === true) !== (after.rule.allow === true)) {
    const kind = after.rule.allow === true ? 'loosened' : 'tightened'
    const whole: Difference = { kind, policy, before: policyText(before), after: policyText(after) }
    return [whole, ...partDifferences(before, after, WHICH)]
  }
  return [
    ...partDifferences(before, after, PARTS),
    ...restDifferences(before, after, hasRest),
    ...limitDifferences(before, after),
    ...overrideDifferences(before, after),
  ]
}

/** The parts of a policy that are not limits, and those of them that say to which requests it applies. */
const PARTS = ['match', 'key', 'cost', 'onOutage', 'lease', 'until'] as const
const WHICH = ['match', 'until'] as const

function partDifferences(
  before: CompiledPolicy,
  after: CompiledPolicy,
  parts: readonly (typeof PARTS)[number][],
): Difference[] {
  return parts.flatMap((part) => {
    const [old, next] = [before.rule[part], after.rule[part]]
    if (isDeepStrictEqual(old, next)) return []
    const kind = part === 'cost' ? costDirection(old, next) : 'changed'
    return [{ kind, policy: after.rule.name, before: named(part, old), after: named(part, next) }]
  })
}

/** The requests of a policy in shadow have the limits of `otherwise`, which may admit less or more. */
function restDifferences(before: CompiledPolicy, after: CompiledPolicy, hasRest: boolean): Difference[] {
  if (!hasRest || before.isEnforced === after.isEnforced || after.index === Infinity) return []
  const place = ({ isEnforced }: CompiledPolicy): string => (isEnforced ? 'in place of' : 'beside') + ' otherwise'
  return [{ kind: 'changed', policy: after.rule.name, before: place(before), after: place(after) }]
}

function costDirection(before: unknown = 1, after: unknown = 1): Direction {
  const isNumber = typeof before === 'number' && typeof after === 'number'
  return (isNumber ? order(after, before) : undefined) ?? 'changed'
}

function named(part: string, value: unknown): string {
  return value === undefined ? `no ${part}` : `${part} ${text(value)}`
}

function limitDifferences(before: CompiledPolicy, after: CompiledPolicy): Difference[] {
  return limitPairs(before.limits, after.limits).flatMap((pair): Difference[] => {
    const [old, next] = pair
    const effect = limitEffect(pair)
    const kind = kindOf(old, next, effect)
    if (kind === undefined) return []
    const texts = { ...(old && { before: limitText(old) }), ...(next && { after: limitText(next) }) }
    return [difference(kind, effect, { policy: after.rule.name, limit: (next ?? old).name, ...texts })]
  })
}

function limitPairs(before: readonly Limit[], after: readonly Limit[]): Pair<Limit>[] {
  return pairs(before, after, ({ name }) => name)
}

/** Returns the effect of a limit that is added, removed or changed. A shadow limit has no effect. */
function limitEffect([before, after]: Pair<Limit>): Direction | undefined {
  if (after === undefined) return before.shadow === true ? undefined : 'loosened'
  if (before === undefined) return after.shadow === true ? undefined : 'tightened'
  return compareLimits(before, after)
}

function kindOf<Effect>(before: unknown, after: unknown, effect: Effect): 'added' | 'removed' | Effect {
  return before === undefined ? 'added' : after === undefined ? 'removed' : effect
}

/** Returns the differences for keys with an override, compared with their limits before, with or without an override. */
function overrideDifferences(before: CompiledPolicy, after: CompiledPolicy): Difference[] {
  const keys = new Set([...before.overrides.keys(), ...after.overrides.keys()])
  const own = direction(before.limits, after.limits)
  return [...keys].flatMap((key): Difference[] => {
    const [old, next] = [before.overrides.get(key), after.overrides.get(key)]
    const was = old?.limits ?? before.limits
    const is = next?.limits ?? after.limits
    const effect = direction(was, is)
    // What an override does not set is that of the policy. It has the same effect as there, which is listed, or another one.
    const isWritten = !isDeepStrictEqual(old?.rule, next?.rule)
    if (!isWritten && (effect === undefined || effect === own)) return []
    const kind = kindOf(old, next, effect ?? 'changed')
    const shown = keyText((next ?? old)!)
    const details = { policy: after.rule.name, key: shown, before: withEnd(was, old), after: withEnd(is, next) }
    return [difference(kind, effect, details)]
  })
}

function direction(before: readonly Limit[], after: readonly Limit[]): Direction | undefined {
  return combined(limitPairs(before, after).map(limitEffect))
}

function ends({ rule, limits, overrides, until }: CompiledPolicy): Difference[] {
  const end = (at: number, more: object = {}): Difference[] =>
    at < Infinity ? [{ kind: 'ends', policy: rule.name, ...more, until: new Date(at).toISOString() }] : []
  // Texts of limits take time, and most overrides have no end.
  const ending = [...overrides.values()].filter((override) => override.until < Infinity)
  const ofOverrides = ending.flatMap((override) =>
    end(override.until, { key: keyText(override), before: limitsText(override.limits), after: limitsText(limits) }),
  )
  return [...end(until), ...ofOverrides]
}

function withEnd(limits: readonly Limit[], override: CompiledOverride | undefined): string {
  return limitsText(limits) + (override?.rule.until === undefined ? '' : ` until ${override.rule.until}`)
}

function keyText({ rule }: CompiledOverride): string {
  return Array.isArray(rule.key) ? rule.key.join(' ') : String(rule.key)
}

export function printedDifferences(all: readonly Difference[]): string {
  if (all.length === 0) return 'no difference\n'
  return all.map((each) => `${each.kind.padEnd(9)}  ${lineOf(each)}\n`).join('')
}

function lineOf({ policy, key, limit, before, after, until }: Difference): string {
  const subject = [policy, key === undefined ? '' : `key ${key}`, limit === undefined ? '' : `limit ${limit}`]
  const change = [before, after].filter((each) => each !== undefined).join(' → ')
  const end = until === undefined ? '' : ` at ${until}`
  return `${subject.filter((each) => each !== '').join(', ')}${end}${change === '' ? '' : `: ${change}`}`
}
