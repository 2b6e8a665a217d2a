import { ownOptions } from '../util/validate.ts'
import { shown } from '../util/errors.ts'
import { isEveryAddress } from '../http/keys/networks.ts'
import {
  allPolicies,
  type CompiledPolicy,
  type CompiledRules,
  type Condition,
  type Dimension,
  Dimensions,
} from './dimensions.ts'
import { invalidRules, type PolicyRule, problemsOf, type Report, type RulesProblem } from './document.ts'
import { attributeIn, compileKey } from './keys.ts'
import { LimitReader, readOverrides, untilOf } from './limits.ts'
import { anything, hasMoreValues, isObject, type Shape } from './shape.ts'
import { documentOf, MOST_POLICIES, otherwiseShape, policyShape } from './shapes.ts'

/** The most values of a document. If an object is in several places, it counts at each of them. */
const MOST_VALUES = 1_000_000

/** A policy of a document with checked parts. */
type ReadPolicy = Pick<CompiledPolicy, 'rule' | 'key' | 'limits' | 'overrides'>

/** The policies and the mistakes of a document. The policies are complete only if there are no mistakes. */
interface ReadDocument {
  readonly policies: readonly ReadPolicy[]
  readonly otherwise: ReadPolicy | undefined
  readonly problems: readonly RulesProblem[]
  readonly limits: LimitReader
}

export interface ReadOptions {
  /** The bits of an IPv6 address that are the key `ip`. Default 56. */
  readonly ipv6Subnet?: number | undefined
}

const shell = documentOf(anything, anything)

/** The name under which unmatched requests count. */
const OTHERWISE = 'otherwise'

/**
 * Reads a document and finds its mistakes, at most a hundred. Time and memory grow only with the size of the document.
 * @param before the reader of an earlier document. Limits that did not change stay the same objects
 */
function readDocument(value: unknown, { ipv6Subnet = 56 }: ReadOptions, before?: LimitReader): ReadDocument {
  const limits = new LimitReader(before)
  const policies: ReadPolicy[] = []
  let otherwise: ReadPolicy | undefined
  const problems = problemsOf((report) => {
    if (hasMoreValues(value, MOST_VALUES)) return report('', `expected at most ${MOST_VALUES} values, got more`)
    shell.check(value, '', report)
    const { policies: given, otherwise: rest } = isObject(value) ? ownOptions(value) : {}
    const read = policyReader(ipv6Subnet, limits, report)
    if (rest !== undefined) otherwise = read(rest, OTHERWISE, otherwiseShape, OTHERWISE)
    const names = new Map<string, string>(otherwise === undefined ? [] : [[OTHERWISE, OTHERWISE]])
    const all: readonly unknown[] = Array.isArray(given) && given.length <= MOST_POLICIES ? given : []
    for (const [i, each] of all.entries()) {
      const path = `policies[${i}]`
      checkName(each, path, names, report)
      const policy = read(each, path, policyShape)
      if (policy !== undefined) policies.push(policy)
    }
  })
  return { policies, otherwise, problems, limits }
}

function checkName(policy: unknown, path: string, names: Map<string, string>, report: Report): void {
  const name = isObject(policy) ? ownOptions(policy)['name'] : undefined
  if (typeof name !== 'string') return
  const first = names.get(name)
  if (first === undefined) names.set(name, path)
  else report(`${path}.name`, `expected another name, because ${first} has ${shown(name)}`)
}

type ReadOne = (value: unknown, path: string, shape: Shape, name?: string) => ReadPolicy | undefined

/** Returns a function that reads a policy. Its `name` is for a policy whose value has no name. */
function policyReader(ipv6Subnet: number, limits: LimitReader, report: Report): ReadOne {
  return function readPolicy(value, path, shape, name) {
    let isWrong = false
    const note: Report = (at, message) => {
      isWrong = true
      report(at, message)
    }
    shape.check(value, path, note)
    if (isWrong) return undefined
    const rule = frozenCopy(name === undefined ? value : named(name, value)) as PolicyRule
    if (rule.key === undefined || rule.limits === undefined)
      return { rule, key: undefined, limits: [], overrides: new Map() }
    const key = compileKey(rule.key, ipv6Subnet)
    const made = limits.ofPolicy(rule, `${path}.limits`, note)
    if (made === undefined) return undefined
    const overrides = readOverrides(rule, key, made, limits, path, note)
    return isWrong ? undefined : { rule, key, limits: made, overrides }
  }
}

function named(name: string, value: unknown): object {
  return value === 'allow' ? { name, allow: true } : { name, ...(value as object) }
}

/** Copies plain data, so that the caller cannot change it later. The shapes have checked that it is not deep. */
function frozenCopy(value: unknown): unknown {
  if (Array.isArray(value)) return Object.freeze(value.map(frozenCopy))
  if (!isObject(value)) return value
  const entries = Object.entries(value).filter(([, each]) => each !== undefined)
  return Object.freeze(ownOptions(Object.fromEntries(entries.map(([name, each]) => [name, frozenCopy(each)]))))
}

/**
 * Compiles a document. Throws `INVALID_RULES` with all its mistakes as `cause`.
 * @param before the earlier rules. Their unchanged limits stay the same objects
 */
export function compileRules(document: unknown, options: ReadOptions = {}, before?: CompiledRules): CompiledRules {
  const read = readDocument(document, options, before?.limits)
  if (read.problems.length > 0) throw invalidRules(read.problems)
  return index(read)
}

/**
 * Returns all mistakes of a document, in its order; none for a document that can be used.
 * @example for (const { path, message } of checkRules(document)) console.log(path, message)
 */
export function checkRules(document: unknown, options: ReadOptions = {}): readonly RulesProblem[] {
  return readDocument(document, options).problems
}

function index({ policies: read, otherwise: rest, limits }: ReadDocument): CompiledRules {
  const dimensions = new Dimensions()
  const policies = read.map((policy, i) => compilePolicy(policy, i, dimensions))
  const otherwise = rest && compilePolicy(rest, Infinity, dimensions)
  const all = allPolicies({ policies, otherwise })
  const always: CompiledPolicy[] = []
  const indexed = new Set<Dimension>()
  for (const policy of policies) {
    const best = mostSelective(policy.conditions)
    if (best === undefined) always.push(policy)
    else {
      indexed.add(best.dimension)
      for (const cell of best.cells) cell.policies.push(policy)
    }
  }
  return {
    policies,
    always,
    otherwise,
    leavesRest: otherwise === undefined && !policies.some(matchesEverything),
    allowsAll: all.some(({ rule }) => rule.allow !== true) ? policies.find(allowsEverybody)?.rule.name : undefined,
    indexed: [...indexed],
    attributes: attributesOf(all),
    limits,
  }
}

function compilePolicy(read: ReadPolicy, place: number, dimensions: Dimensions): CompiledPolicy {
  const { rule, limits } = read
  const conditions = dimensions.conditions(rule.match ?? ownOptions({}))
  const isEnforced = rule.allow === true || limits.some(({ shadow }) => shadow !== true)
  return { ...read, index: place, conditions, until: untilOf(rule.until), isEnforced }
}

function matchesEverything({ conditions, until, isEnforced }: CompiledPolicy): boolean {
  return conditions.length === 0 && until === Infinity && isEnforced
}

/** Returns true for a policy that exempts all clients for ever: it has no condition, or only a network of all addresses. */
function allowsEverybody({ rule: { allow, match }, until }: CompiledPolicy): boolean {
  const { ip, ...others } = match ?? {}
  const isForAll = ip === undefined || [ip].flat().some(isEveryAddress)
  return allow === true && until === Infinity && isForAll && Object.keys(others).length === 0
}

/** Returns the condition that finds the fewest policies. */
function mostSelective(conditions: readonly Condition[]): Condition | undefined {
  let best: Condition | undefined
  let least = Infinity
  for (const condition of conditions) {
    const most = Math.max(...Array.from(condition.cells, ({ uses }) => uses))
    if (most < least) [best, least] = [condition, most]
  }
  return best
}

/** Returns the attributes in policies, each with the first policy that has it. */
function attributesOf(policies: readonly CompiledPolicy[]): ReadonlyMap<string, string> {
  const attributes = new Map<string, string>()
  for (const { rule, key } of policies) {
    const inKey = key?.names.flatMap((name) => attributeIn(name) ?? []) ?? []
    const inCost = typeof rule.cost === 'string' ? [rule.cost] : []
    for (const name of [...Object.keys(rule.match?.attributes ?? {}), ...inKey, ...inCost])
      if (!attributes.has(name)) attributes.set(name, rule.name)
  }
  return attributes
}
