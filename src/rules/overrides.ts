import type { Limit } from '../limits/limit.ts'
import { shown } from '../util/errors.ts'
import type { KeyText, OverrideRule, PolicyRule } from './document.ts'
import type { CompiledKey } from './keys.ts'
import type { LimitReader } from './limits.ts'
import type { Report } from './shape.ts'
import { instant } from './shapes.ts'

/** Other limits for one key. */
export interface CompiledOverride {
  readonly rule: OverrideRule
  readonly limits: readonly Limit[]
  /** When it ends, in epoch milliseconds; `Infinity` for never. */
  readonly until: number
}

/** Returns the overrides of a policy by key, so that one of many is one look-up. Reports mistakes. */
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
  const parts = Array.isArray(given) ? (given as readonly KeyText[]) : [given as KeyText]
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
