import { ownOptions } from '../util/validate.ts'
import { shown } from '../util/errors.ts'
import { type CompiledPolicy, type CompiledRules, type Condition, type Dimension, Dimensions } from './dimensions.ts'
import { found, invalidRules, type PolicyRule, type RulesProblem } from './document.ts'
import { attributeIn, compileKey } from './keys.ts'
import { type CompiledOverride, LimitReader, readOverrides, untilOf } from './limits.ts'
import { hasMoreValues, isObject, join, type Report, type Shape, where } from './shape.ts'
import { documentOf, otherwiseShape, policyShape } from './shapes.ts'

/** The most values of a document. If an object is in several places, it counts at each of them. */
const MOST_VALUES = 1_000_000

/** A policy of a document with checked parts. */
type ReadPolicy = Pick<CompiledPolicy, 'rule' | 'key' | 'limits' | 'overrides'>

interface ReadPolicies {
  readonly policies: readonly ReadPolicy[]
  readonly otherwise?: ReadPolicy | undefined
}

/** The policies and the mistakes of a document. The policies are complete only if there are no mistakes. */
interface ReadDocument extends ReadPolicies {
  readonly problems: readonly RulesProblem[]
  readonly limits: LimitReader
}

export interface ReadOptions {
  /** The bits of an IPv6 address that are the key `ip`. Default 56. */
  readonly ipv6Subnet?: number | undefined
}

const anything = where({}, '', () => true)
const shell = documentOf(anything, anything)

/** The name under which unmatched requests count. */
const OTHERWISE = 'otherwise'

/**
 * Reads a document and finds its mistakes, at most a hundred. Time and memory grow only with the size of the document.
 * @param before the reader of an earlier document. Limits that did not change stay the same objects
 */
function readDocument(value: unknown, { ipv6Subnet = 56 }: ReadOptions, before?: LimitReader): ReadDocument {
  const limits = new LimitReader(before)
  const { problems, result = NO_POLICIES } = found((add) =>
    readPolicies(value, ipv6Subnet, limits, (path, message) => add({ path, message })),
  )
  return { ...result, problems, limits }
}

const NO_POLICIES: ReadPolicies = { policies: [] }

function readPolicies(value: unknown, ipv6Subnet: number, limits: LimitReader, report: Report): ReadPolicies {
  if (hasMoreValues(value, MOST_VALUES)) {
    report('', `expected at most ${MOST_VALUES} values, got more`)
    return NO_POLICIES
  }
  let isList = true
  shell.check(value, '', (path, message) => {
    if (path === 'policies') isList = false
    report(path, message)
  })
  const { policies: given, otherwise } = isObject(value) ? ownOptions(value) : {}
  const read = (each: unknown, path: string, shape: Shape, name?: string): ReadPolicy | undefined =>
    readPolicy(each, path, shape, name, ipv6Subnet, limits, report)
  const rest = otherwise === undefined ? undefined : read(otherwise, OTHERWISE, otherwiseShape, OTHERWISE)
  if (!isList || !Array.isArray(given)) return NO_POLICIES
  const names = new Map<string, string>(rest === undefined ? [] : [[OTHERWISE, OTHERWISE]])
  const policies: ReadPolicy[] = []
  for (const [i, each] of (given as unknown[]).entries()) {
    const path = `policies[${i}]`
    checkName(each, path, names, report)
    const policy = read(each, path, policyShape)
    if (policy !== undefined) policies.push(policy)
  }
  return { policies, otherwise: rest }
}

function checkName(policy: unknown, path: string, names: Map<string, string>, report: Report): void {
  const name = isObject(policy) ? ownOptions(policy)['name'] : undefined
  if (typeof name !== 'string') return
  const first = names.get(name)
  if (first === undefined) names.set(name, path)
  else report(`${path}.name`, `expected another name, because ${first} has ${shown(name)}`)
}

/** @param name the name of a policy whose value has no name */
function readPolicy(
  value: unknown,
  path: string,
  shape: Shape,
  name: string | undefined,
  ipv6Subnet: number,
  limits: LimitReader,
  report: Report,
): ReadPolicy | undefined {
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
  const made = limits.ofPolicy(rule, rule.limits, join(path, 'limits'), note)
  if (made === undefined) return undefined
  const overrides = readOverrides(rule, key, made, limits, path, note)
  return isWrong ? undefined : { rule, key, limits: made, overrides }
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
  const all = otherwise === undefined ? policies : [...policies, otherwise]
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
    indexed: [...indexed],
    attributes: attributesOf(all),
    usesTime: all.some(({ until, overrides }) => until < Infinity || [...overrides.values()].some(ends)),
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

function ends({ until }: CompiledOverride): boolean {
  return until < Infinity
}
