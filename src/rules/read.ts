import type { Limit } from '../limits/limit.ts'
import { shown } from '../util/errors.ts'
import type { PolicyRule, RulesProblem } from './document.ts'
import { type CompiledKey, compileKey } from './keys.ts'
import { LimitReader } from './limits.ts'
import { type CompiledOverride, readOverrides } from './overrides.ts'
import { Problems, untilEnough } from './problems.ts'
import { hasMoreValues, isObject, join, type Report, where } from './shape.ts'
import { documentOf, policyShape } from './shapes.ts'

/** Values of a document. One object in several places counts at each of them. */
const MOST_VALUES = 1_000_000

/** A policy of a document whose parts are checked and made. */
export interface ReadPolicy {
  readonly rule: PolicyRule
  /** Absent in a policy with `allow: true`. */
  readonly key: CompiledKey | undefined
  readonly limits: readonly Limit[]
  readonly overrides: ReadonlyMap<string, CompiledOverride>
}

/** What is in a document: its policies, and its mistakes. The policies are complete only if there are no mistakes. */
export interface ReadDocument {
  readonly policies: readonly ReadPolicy[]
  readonly problems: readonly RulesProblem[]
  readonly limits: LimitReader
}

/** Options that a document is read with. */
export interface ReadOptions {
  /** The bits of an IPv6 address that make the key `ip`. Default 56. */
  readonly ipv6Subnet?: number | undefined
}

const shell = documentOf(where({}, '', () => true))

/**
 * Reads a document and finds its mistakes, at most a hundred. Time and memory grow with the size of the document alone.
 * @param before made the limits of an earlier document. Limits that did not change stay the same objects.
 */
export function readDocument(value: unknown, { ipv6Subnet = 56 }: ReadOptions, before?: LimitReader): ReadDocument {
  const problems = new Problems()
  const limits = new LimitReader(before)
  const report: Report = (path, message) => problems.add({ path, message })
  const policies = untilEnough(() => readPolicies(value, ipv6Subnet, limits, report))
  return { policies: policies ?? [], problems: problems.list, limits }
}

function readPolicies(value: unknown, ipv6Subnet: number, limits: LimitReader, report: Report): readonly ReadPolicy[] {
  if (hasMoreValues(value, MOST_VALUES)) {
    report('', `expected at most ${MOST_VALUES} values, got more`)
    return []
  }
  let isList = true
  shell.check(value, '', (path, message) => {
    if (path === 'policies') isList = false
    report(path, message)
  })
  const given: unknown = isObject(value) ? value['policies'] : undefined
  if (!isList || !Array.isArray(given)) return []
  const names = new Map<string, number>()
  const policies: ReadPolicy[] = []
  for (const [i, each] of given.entries()) {
    checkName(each, i, names, report)
    const read = readPolicy(each, `policies[${i}]`, ipv6Subnet, limits, report)
    if (read !== undefined) policies.push(read)
  }
  return policies
}

function checkName(policy: unknown, index: number, names: Map<string, number>, report: Report): void {
  const name = isObject(policy) ? policy['name'] : undefined
  if (typeof name !== 'string') return
  const first = names.get(name)
  if (first === undefined) names.set(name, index)
  else report(`policies[${index}].name`, `expected another name, because policies[${first}] has ${shown(name)}`)
}

function readPolicy(
  value: unknown,
  path: string,
  ipv6Subnet: number,
  limits: LimitReader,
  report: Report,
): ReadPolicy | undefined {
  let isWrong = false
  const note: Report = (at, message) => {
    isWrong = true
    report(at, message)
  }
  policyShape.check(value, path, note)
  if (isWrong) return undefined
  const rule = frozenCopy(value) as PolicyRule
  if (rule.key === undefined || rule.limits === undefined)
    return { rule, key: undefined, limits: [], overrides: new Map() }
  const key = compileKey(rule.key, ipv6Subnet)
  const made = limits.ofPolicy(rule, rule.limits, join(path, 'limits'), note)
  if (made === undefined) return undefined
  const overrides = readOverrides(rule, key, made, limits, path, note)
  return isWrong ? undefined : { rule, key, limits: made, overrides }
}

/** Copies plain data, so that the caller cannot change it later. The shapes have checked that it is not deep. */
function frozenCopy(value: unknown): unknown {
  if (Array.isArray(value)) return Object.freeze(value.map(frozenCopy))
  if (!isObject(value)) return value
  const entries = Object.entries(value).filter(([, each]) => each !== undefined)
  return Object.freeze(Object.fromEntries(entries.map(([name, each]) => [name, frozenCopy(each)])))
}
