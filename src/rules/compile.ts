import type { Cell, CompiledPolicy, CompiledRules, Condition, Dimension } from './compiled.ts'
import { AttributeDimension, HeaderDimension, MethodDimension, NetworkDimension, PathDimension } from './dimensions.ts'
import type { AttributeValue, MatchRule, RulesProblem } from './document.ts'
import { attributeIn } from './keys.ts'
import type { LimitReader } from './limits.ts'
import { type CompiledOverride, untilOf } from './overrides.ts'
import { invalidRules } from './problems.ts'
import { readDocument, type ReadOptions, type ReadPolicy } from './read.ts'

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
