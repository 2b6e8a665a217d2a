import { type Limit, limit, type LimitInput } from '../engine/limit.ts'
import { reasonOf, shown, SluiceError } from '../util/errors.ts'
import { hintOf, nearest } from '../util/validate.ts'
import type { LimitRule, OverrideLimitRule, OverrideRule, PolicyRule, Report } from './document.ts'
import type { CompiledKey } from './keys.ts'
import { DEFAULT_ALGORITHM, instant, pathOfError } from './shapes.ts'

export interface CompiledOverride {
  readonly rule: OverrideRule
  readonly limits: readonly Limit[]
  /** When it ends, in epoch milliseconds; `Infinity` for never. */
  readonly until: number
}

/** Returns the overrides of a policy by key, so that each is found in one step. Reports mistakes. */
export function readOverrides(
  rule: PolicyRule,
  key: CompiledKey,
  own: readonly Limit[],
  limits: LimitReader,
  path: string,
  report: Report,
): ReadonlyMap<string, CompiledOverride> {
  const overrides = new Map<string, CompiledOverride>()
  for (const [i, override] of (rule.overrides ?? []).entries()) {
    const at = `${path}.overrides[${i}]`
    const text = readKey(override.key, key, `${at}.key`, report)
    const made = limits.ofOverride(rule, own, override.limits, `${at}.limits`, report)
    if (text === undefined) continue
    if (overrides.has(text))
      report(`${at}.key`, `expected a key without another override, got ${written(override.key)}`)
    overrides.set(text, { rule: override, limits: made, until: untilOf(override.until) })
  }
  return overrides
}

/** Returns the end of a policy or an override in epoch milliseconds. */
export function untilOf(until: string | undefined): number {
  return until === undefined ? Infinity : instant(until)
}

function readKey(given: OverrideRule['key'], key: CompiledKey, path: string, report: Report): string | undefined {
  const parts = [given].flat()
  if (parts.length !== key.names.length) {
    const expected = key.names.length === 1 ? 'one key' : `a list of ${key.names.length}: ${key.names.join(', ')}`
    report(path, `expected ${expected}, got ${written(given)}`)
    return undefined
  }
  const text = key.written(parts)
  if (typeof text === 'string') return text
  report(path, `expected ${text.expected}, got ${shown(text.wrong)}`)
  return undefined
}

function written(key: OverrideRule['key']): string {
  return Array.isArray(key) ? shown(JSON.stringify(key)) : shown(key)
}

type Json = Readonly<Record<string, unknown>>

/**
 * Makes the limits of a document. Limits of one policy with the same options are the same object, also in the next document, so that a store recognises them.
 */
export class LimitReader {
  readonly #before: ReadonlyMap<string, Limit>
  readonly #made = new Map<string, Limit>()

  constructor(before?: LimitReader) {
    this.#before = before === undefined ? new Map() : before.#made
  }

  /** Makes the limits of a policy. If one of them is wrong, reports it and returns `undefined`. */
  ofPolicy(rule: PolicyRule, path: string, report: Report): readonly Limit[] | undefined {
    const names = new Set<string>()
    const limits = rule.limits!.map((each, i) => {
      const name = each.name ?? defaultName(rule.name, i)
      if (names.has(name))
        report(`${path}[${i}].name`, `expected a name that no other limit here has, got ${shown(name)}`)
      names.add(name)
      return this.#make(rule, { algorithm: DEFAULT_ALGORITHM, ...each, name }, each, `${path}[${i}]`, report)
    })
    return limits.includes(undefined) ? undefined : (limits as readonly Limit[])
  }

  /** Makes the limits for one key: the limits of the policy, with the changes of an override. */
  ofOverride(
    rule: PolicyRule,
    own: readonly Limit[],
    given: readonly OverrideLimitRule[],
    path: string,
    report: Report,
  ): readonly Limit[] {
    const limits = [...own]
    const replaced = new Set<number>()
    for (const [i, each] of given.entries()) {
      const at = placeOf(each.name, i, own)
      if (at === -1) report(`${path}[${i}]${each.name === undefined ? '' : '.name'}`, noSuchLimit(each.name, own))
      else if (replaced.has(at))
        report(`${path}[${i}]`, `expected one change of limit ${shown(own[at]!.name)}, got a second`)
      else {
        const json = changed(rule.limits![at]!, each, own[at]!.name)
        limits[at] = this.#make(rule, json, each, `${path}[${i}]`, report) ?? own[at]!
      }
      replaced.add(at)
    }
    return Object.freeze(limits)
  }

  #make(rule: PolicyRule, json: Json, given: Json, path: string, report: Report): Limit | undefined {
    const options = rule.shadow === true ? { ...json, shadow: true } : json
    const id = `${rule.name}\n${JSON.stringify(options)}`
    try {
      const made = this.#made.get(id) ?? this.#before.get(id) ?? limit(options as LimitInput)
      this.#made.set(id, made)
      return made
    } catch (error) {
      if (!(error instanceof SluiceError)) throw error
      const reason = reasonOf(error)
      const at = pathOfError(reason, path, given)
      report(at, at === path ? reason : reason.replace(/^[\w.]+: /, ''))
      return undefined
    }
  }
}

/** Returns the default name of a limit. It does not depend on the quota, so that usage survives a change of the quota. */
function defaultName(policy: string, index: number): string {
  return index === 0 ? policy : `${policy}-${index + 1}`
}

/** Returns the index of the limit of a policy that an override changes; -1 for none. */
function placeOf(name: string | undefined, index: number, own: readonly Limit[]): number {
  if (name === undefined) return index < own.length ? index : -1
  return own.findIndex((each) => each.name === name)
}

/** Returns the options of a changed limit. With another algorithm, no options of the policy are kept. */
function changed(base: LimitRule, given: OverrideLimitRule, name: string): Json {
  const algorithm = base.algorithm ?? DEFAULT_ALGORITHM
  if (given.algorithm !== undefined && given.algorithm !== algorithm) return { ...given, name }
  return { ...base, algorithm, ...given, name }
}

function noSuchLimit(name: string | undefined, own: readonly Limit[]): string {
  const names = own.map((each) => each.name)
  if (name === undefined) return `expected no more limits than the policy has, ${own.length}`
  const hint = hintOf(nearest(name, names))
  return `expected the name of a limit of the policy (${names.map(shown).join(', ')}), got ${shown(name)}${hint}`
}
