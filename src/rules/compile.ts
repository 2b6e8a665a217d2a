import { type Limit, limit, type LimitInput } from '../limits/limit.ts'
import {
  type AttributeValue,
  invalidRules,
  type KeyText,
  type LimitRule,
  type MatchRule,
  type OverrideLimitRule,
  type OverrideRule,
  type PolicyRule,
  Problems,
  type RulesProblem,
  untilEnough,
} from './document.ts'
import type { Facts } from './facts.ts'
import { attributeIn, type CompiledKey, compileKey } from './keys.ts'
import { addRoute, createRouter, findAllRoutes, type RouterContext } from 'rou3'
import { NetworkMap } from '../http/keys/networks.ts'
import { canonicalPattern, pathForms, WHOLE } from './paths.ts'
import { reasonOf, shown, SluiceError } from '../util/errors.ts'
import { hasMoreValues, isObject, join, type Report, where } from './shape.ts'
import { DEFAULT_ALGORITHM, documentOf, instant, pathOfError, policyShape } from './shapes.ts'
import { nearest } from '../util/validate.ts'

/** A value that policies name, such as one path. All policies that name it share the cell. */
export class Cell {
  /** How many policies name it. */
  uses = 0
  /** The policies that are found by it. */
  readonly policies: CompiledPolicy[] = []
}

/** A part of a request on which policies set conditions: the method, the path, a header. It finds the cells of a request. */
export interface Dimension {
  /** As in a document: `path`, `header.x-device`, `attributes.plan`. */
  readonly part: string
  find(facts: Facts): readonly Cell[]
  /**
   * Returns true if a request has one of these cells whatever a router takes for this part. Default: if `find` finds one of them.
   */
  surelyHas?(facts: Facts, cells: ReadonlySet<Cell>): boolean
  /** Returns the readings of the path that have one of these cells. Only the dimension of paths has it. */
  readings?(facts: Facts, cells: ReadonlySet<Cell>): readonly string[]
  /** Returns what a request has, for explanations. */
  actual(facts: Facts): string | undefined
}

/** One part of a `match`: a request matches if it has one of its cells. */
export interface Condition {
  readonly dimension: Dimension
  readonly cells: ReadonlySet<Cell>
  /** As in the document, for explanations. */
  readonly expected: string
}

/** A policy as requests are matched with it. */
export interface CompiledPolicy {
  readonly rule: PolicyRule
  /** Its place in the document. */
  readonly index: number
  readonly conditions: readonly Condition[]
  /** Absent in a policy with `allow: true`. */
  readonly key: CompiledKey | undefined
  readonly limits: readonly Limit[]
  readonly overrides: ReadonlyMap<string, CompiledOverride>
  /** When it ends, in epoch milliseconds; `Infinity` for never. */
  readonly until: number
}

/** A document as requests are matched with it. It never changes. */
export interface CompiledRules {
  readonly policies: readonly CompiledPolicy[]
  /** Policies that match every request, or are found by nothing else. */
  readonly always: readonly CompiledPolicy[]
  /** What policies are found by. */
  readonly indexed: readonly Dimension[]
  /** The attributes that policies name, each with the name of the first policy that does. */
  readonly attributes: ReadonlyMap<string, string>
  /** True if a policy or an override has an end, so that the time is needed. */
  readonly usesTime: boolean
  readonly limits: LimitReader
}

const NOTHING: readonly Cell[] = Object.freeze([])

/** Values that are compared as a whole. */
class Values {
  readonly #cells = new Map<string, Cell>()
  readonly #found = new Map<string, readonly Cell[]>()

  of(value: string): Cell {
    const cell = this.#cells.get(value) ?? new Cell()
    this.#cells.set(value, cell)
    this.#found.set(value, [cell])
    return cell
  }

  find(value: string | undefined): readonly Cell[] {
    return value === undefined ? NOTHING : (this.#found.get(value) ?? NOTHING)
  }
}

class MethodDimension implements Dimension {
  readonly part = 'method'
  readonly #values = new Values()

  /** Returns the cells of a method. A router answers HEAD where there is GET. */
  of(method: string): readonly Cell[] {
    const name = method.toUpperCase()
    return name === 'GET' ? [this.#values.of(name), this.#values.of('HEAD')] : [this.#values.of(name)]
  }

  find(facts: Facts): readonly Cell[] {
    return this.#values.find(facts.method)
  }

  actual(facts: Facts): string {
    return facts.method
  }
}

class AttributeDimension implements Dimension {
  readonly part: string
  readonly #name: string
  readonly #values = new Values()

  constructor(name: string) {
    this.#name = name
    this.part = `attributes.${name}`
  }

  of(value: string | number | boolean): Cell {
    return this.#values.of(String(value))
  }

  find(facts: Facts): readonly Cell[] {
    return this.#values.find(facts.attributeText(this.#name))
  }

  actual(facts: Facts): string | undefined {
    return facts.attributeText(this.#name)
  }
}

class HeaderDimension implements Dimension {
  readonly part: string
  readonly #name: string
  readonly #values = new Values()
  #present: Cell | undefined

  /** @param name in lower case */
  constructor(name: string) {
    this.#name = name
    this.part = `header.${name}`
  }

  /** Returns the cell of a value, or of any value. */
  of(value: string | true): Cell {
    return value === true ? (this.#present ??= new Cell()) : this.#values.of(value)
  }

  find(facts: Facts): readonly Cell[] {
    const value = facts.header(this.#name)
    if (value === undefined) return NOTHING
    const found = this.#values.find(value)
    return this.#present === undefined ? found : [...found, this.#present]
  }

  actual(facts: Facts): string | undefined {
    return facts.header(this.#name)
  }
}

class NetworkDimension implements Dimension {
  readonly part = 'ip'
  readonly #networks = new NetworkMap<Cell>()

  of(network: string): Cell {
    return this.#networks.of(network, () => new Cell())
  }

  find(facts: Facts): readonly Cell[] {
    return this.#networks.find(facts.address)
  }

  actual(facts: Facts): string | undefined {
    return facts.address === '' ? undefined : facts.address
  }
}

/** A pattern in the router: the number of its segments, unless it ends with `*`. */
interface Route {
  readonly cell: Cell
  readonly length: number | undefined
}

class PathDimension implements Dimension {
  readonly part = 'path'
  readonly #router: RouterContext<Route> = createRouter<Route>()
  readonly #cells = new Map<string, Cell>()
  #size = { segments: 0, characters: 0 }
  /** The cells of the readings of a request. */
  readonly #cellsOf = new WeakMap<Facts, Map<string, readonly Cell[]>>()

  of(pattern: string): Cell {
    const canonical = canonicalPattern(pattern)
    const known = this.#cells.get(canonical)
    if (known !== undefined) return known
    const cell = new Cell()
    this.#cells.set(canonical, cell)
    const length = lengthOf(canonical)
    const segments = Math.max(this.#size.segments, length)
    this.#size = { segments, characters: Math.max(this.#size.characters, canonical.length) }
    addRoute(this.#router, '', canonical, { cell, length: canonical.endsWith('**') ? undefined : length })
    return cell
  }

  find(facts: Facts): readonly Cell[] {
    const readings = facts.paths.flat()
    if (readings.length < 2) return readings.length === 0 ? NOTHING : this.#found(readings[0]!)
    return [...new Set(readings.flatMap((reading) => this.#remembered(facts, reading)))]
  }

  surelyHas({ paths }: Facts, cells: ReadonlySet<Cell>): boolean {
    const forms = paths.flat().flatMap((reading) => pathForms(reading, this.#size, true))
    return forms.length > 0 && forms.every((form) => this.#match(form).some((cell) => cells.has(cell)))
  }

  readings(facts: Facts, cells: ReadonlySet<Cell>): readonly string[] {
    const [first, ...others] = facts.paths
    if (first === undefined || (first.length === 1 && others.length === 0)) return first ?? []
    const matching = (readings: readonly string[]): string[] =>
      readings.filter((reading) => this.#remembered(facts, reading).some((cell) => cells.has(cell)))
    return facts.paths.map(matching).find(({ length }) => length > 0) ?? []
  }

  actual({ paths }: Facts): string | undefined {
    return paths[0] === undefined ? undefined : pathForms(paths[0][0]!, WHOLE)[0]
  }

  #remembered(facts: Facts, reading: string): readonly Cell[] {
    const known = this.#cellsOf.get(facts) ?? new Map<string, readonly Cell[]>()
    this.#cellsOf.set(facts, known)
    const found = known.get(reading) ?? this.#found(reading)
    known.set(reading, found)
    return found
  }

  /** Returns the cells of all spellings of a reading. */
  #found(reading: string): Cell[] {
    const [first, ...others] = pathForms(reading, this.#size)
    const found = this.#match(first!)
    for (const form of others) for (const cell of this.#match(form)) if (!found.includes(cell)) found.push(cell)
    return found
  }

  /** The router takes a parameter at the end for optional, so that the number of segments is compared, too. */
  #match(form: string): Cell[] {
    const cells: Cell[] = []
    const length = lengthOf(form)
    for (const { data } of findAllRoutes(this.#router, '', form, { params: false })) {
      if (data.length === undefined || data.length === length) cells.push(data.cell)
    }
    return cells
  }
}

/** Returns the number of segments of a canonical path. */
function lengthOf(path: string): number {
  return path === '/' ? 0 : path.split('/').length - 1
}

/** Other limits for one key. */
export interface CompiledOverride {
  readonly rule: OverrideRule
  readonly limits: readonly Limit[]
  /** When it ends, in epoch milliseconds; `Infinity` for never. */
  readonly until: number
}

/** Returns the overrides of a policy by key, so that one of many is one look-up. Reports mistakes. */
function readOverrides(
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
function untilOf(until: string | undefined): number {
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

type Json = Readonly<Record<string, unknown>>

/**
 * Makes the limits of a document. Limits of one policy with the same options are one object, also in the next document, so that
 * a store knows them again.
 */
class LimitReader {
  readonly #before: ReadonlyMap<string, Limit>
  readonly #made = new Map<string, Limit>()

  constructor(before?: LimitReader) {
    this.#before = before === undefined ? new Map() : before.#made
  }

  /** Makes the limits of a policy. Returns `undefined` and reports when one of them is wrong. */
  ofPolicy(rule: PolicyRule, given: readonly LimitRule[], path: string, report: Report): readonly Limit[] | undefined {
    const names = new Set<string>()
    const limits = given.map((each, i) => {
      const name = each.name ?? defaultName(rule.name, i)
      if (names.has(name))
        report(`${path}[${i}].name`, `expected a name that no other limit here has, got ${shown(name)}`)
      names.add(name)
      return this.#make(rule, { algorithm: DEFAULT_ALGORITHM, ...each, name }, each, `${path}[${i}]`, report)
    })
    return limits.includes(undefined) ? undefined : (limits as readonly Limit[])
  }

  /** Makes the limits for one key: those of the policy, with the changes of an override. */
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
      report(at, at === path ? reason : reason.replace(/^\w+: /, ''))
      return undefined
    }
  }
}

/** The name of a limit without one. It does not depend on the quota, so that usage survives a change of it. */
function defaultName(policy: string, index: number): string {
  return index === 0 ? policy : `${policy}-${index + 1}`
}

/** Returns which limit of a policy an override changes, -1 for none. */
function placeOf(name: string | undefined, index: number, own: readonly Limit[]): number {
  if (name === undefined) return index < own.length ? index : -1
  return own.findIndex((each) => each.name === name)
}

/** Another algorithm has other options, so none is kept. */
function changed(base: LimitRule, given: OverrideLimitRule, name: string): Json {
  const algorithm = base.algorithm ?? DEFAULT_ALGORITHM
  if (given.algorithm !== undefined && given.algorithm !== algorithm) return { ...given, name }
  return { ...base, algorithm, ...given, name }
}

function noSuchLimit(name: string | undefined, own: readonly Limit[]): string {
  const names = own.map((each) => each.name)
  if (name === undefined) return `expected at most ${own.length} limits, as many as the policy has`
  const near = nearest(name, names)
  const hint = near === undefined ? '' : `. Did you mean ${shown(near)}?`
  return `expected the name of a limit of the policy (${names.map(shown).join(', ')}), got ${shown(name)}${hint}`
}

/** Values of a document. One object in several places counts at each of them. */
const MOST_VALUES = 1_000_000

/** A policy of a document whose parts are checked and made. */
interface ReadPolicy {
  readonly rule: PolicyRule
  /** Absent in a policy with `allow: true`. */
  readonly key: CompiledKey | undefined
  readonly limits: readonly Limit[]
  readonly overrides: ReadonlyMap<string, CompiledOverride>
}

/** What is in a document: its policies, and its mistakes. The policies are complete only if there are no mistakes. */
interface ReadDocument {
  readonly policies: readonly ReadPolicy[]
  readonly problems: readonly RulesProblem[]
  readonly limits: LimitReader
}

/** Options that a document is read with. */
interface ReadOptions {
  /** The bits of an IPv6 address that make the key `ip`. Default 56. */
  readonly ipv6Subnet?: number | undefined
}

const shell = documentOf(where({}, '', () => true))

/**
 * Reads a document and finds its mistakes, at most a hundred. Time and memory grow with the size of the document alone.
 * @param before made the limits of an earlier document. Limits that did not change stay the same objects.
 */
function readDocument(value: unknown, { ipv6Subnet = 56 }: ReadOptions, before?: LimitReader): ReadDocument {
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

/**
 * Compiles a document. Throws `INVALID_RULES` with all its mistakes as `cause`.
 * @param before the rules before, whose unchanged limits stay the same objects
 */
export function compileRules(document: unknown, options: ReadOptions = {}, before?: CompiledRules): CompiledRules {
  const { policies, problems, limits } = readDocument(document, options, before?.limits)
  if (problems.length > 0) throw invalidRules(problems)
  return index(policies, limits)
}

/**
 * Returns all mistakes of a document, in its order; none for a document that can be used.
 * @example for (const { path, message } of checkRules(document)) console.log(path, message)
 */
export function checkRules(document: unknown, options: ReadOptions = {}): readonly RulesProblem[] {
  return readDocument(document, options).problems
}

function index(read: readonly ReadPolicy[], limits: LimitReader): CompiledRules {
  const dimensions = new Dimensions()
  const policies = read.map((policy, i) => compilePolicy(policy, i, dimensions))
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
    indexed: [...indexed],
    attributes: attributesOf(policies),
    usesTime: policies.some(({ until, overrides }) => until < Infinity || [...overrides.values()].some(ends)),
    limits,
  }
}

function compilePolicy(read: ReadPolicy, place: number, dimensions: Dimensions): CompiledPolicy {
  const { rule, key, limits, overrides } = read
  const conditions = dimensions.conditions(rule.match ?? {})
  return { rule, index: place, conditions, key, limits, overrides, until: untilOf(rule.until) }
}

/** Returns the condition by which the fewest policies are found. */
function mostSelective(conditions: readonly Condition[]): Condition | undefined {
  let best: Condition | undefined
  let least = Infinity
  for (const condition of conditions) {
    const most = Math.max(...Array.from(condition.cells, ({ uses }) => uses))
    if (most < least) [best, least] = [condition, most]
  }
  return best
}

/** Returns the attributes that policies name, each with the first policy that names it. */
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

/** The dimensions of a document. */
class Dimensions {
  readonly #method = new MethodDimension()
  readonly #path = new PathDimension()
  readonly #networks = new NetworkDimension()
  readonly #headers = new Map<string, HeaderDimension>()
  readonly #attributes = new Map<string, AttributeDimension>()

  /** Returns the conditions of a `match`. The first of equally selective ones is used to find the policy. */
  conditions({ method, path, header, ip, attributes = {} }: MatchRule): readonly Condition[] {
    const conditions: Condition[] = []
    if (path !== undefined) conditions.push(condition(this.#path, path, (each) => [this.#path.of(each)]))
    if (ip !== undefined) conditions.push(condition(this.#networks, ip, (each) => [this.#networks.of(each)]))
    for (const [name, values] of Object.entries(attributes)) {
      const dimension = this.#attribute(name)
      conditions.push(condition(dimension, values, (each) => [dimension.of(each)]))
    }
    for (const [name, values] of Object.entries(header ?? {})) {
      const dimension = this.#header(name.toLowerCase())
      conditions.push(condition(dimension, values, (each) => [dimension.of(each)]))
    }
    if (method !== undefined) conditions.push(condition(this.#method, method, (each) => this.#method.of(each)))
    return conditions
  }

  #attribute(name: string): AttributeDimension {
    const dimension = this.#attributes.get(name) ?? new AttributeDimension(name)
    this.#attributes.set(name, dimension)
    return dimension
  }

  #header(name: string): HeaderDimension {
    const dimension = this.#headers.get(name) ?? new HeaderDimension(name)
    this.#headers.set(name, dimension)
    return dimension
  }
}

function condition<Value extends AttributeValue>(
  dimension: Dimension,
  given: Value | readonly Value[],
  cellsOf: (value: Value) => readonly Cell[],
): Condition {
  const values = Array.isArray(given) ? (given as readonly Value[]) : [given as Value]
  const cells = new Set(values.flatMap(cellsOf))
  for (const cell of cells) cell.uses++
  return { dimension, cells, expected: values.join(', ') }
}
