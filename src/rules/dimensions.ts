import { addRoute, createRouter, findAllRoutes, type RouterContext } from 'rou3'
import type { Limit } from '../engine/limit.ts'
import { NetworkMap } from '../http/keys/networks.ts'
import { madeOnce } from '../util/copies.ts'
import type { AttributeValue, MatchRule, PolicyRule } from './document.ts'
import type { Facts } from './facts.ts'
import type { CompiledKey } from './keys.ts'
import type { CompiledOverride, LimitReader } from './limits.ts'
import { canonicalPattern, pathForms, WHOLE } from './paths.ts'

/** A value in policies, such as one path. All policies with this value share the cell. */
export class Cell {
  /** How many policies have it. */
  uses = 0
  /** The policies that are found by this cell. */
  readonly policies: CompiledPolicy[] = []
}

/** A part of a request on which policies set conditions: the method, the path, a header. It finds the cells of a request. */
export interface Dimension {
  /** The name in a document, such as `path`, `header.x-device` or `attributes.plan`. */
  readonly part: string
  find(facts: Facts): readonly Cell[]
  /**
   * Returns true if a request has one of these cells, however a router reads this part. Default: `find` finds one of them.
   */
  surelyHas?(facts: Facts, cells: ReadonlySet<Cell>): boolean
  /** Returns the readings of the path that have one of these cells. Only the dimension of paths has it. */
  readings?(facts: Facts, cells: ReadonlySet<Cell>): readonly string[]
  /** Returns the value of a request, for explanations. */
  actual(facts: Facts): string | undefined
}

/** One part of a `match`. A request matches if it has one of its cells. */
export interface Condition {
  readonly dimension: Dimension
  readonly cells: ReadonlySet<Cell>
  /** The text in the document, for explanations. */
  readonly expected: string
}

/** A compiled policy, with which requests are matched. */
export interface CompiledPolicy {
  readonly rule: PolicyRule
  /** Its place in the document; `Infinity` for `otherwise`. */
  readonly index: number
  readonly conditions: readonly Condition[]
  /** Absent in a policy with `allow: true`. */
  readonly key: CompiledKey | undefined
  readonly limits: readonly Limit[]
  readonly overrides: ReadonlyMap<string, CompiledOverride>
  /** When it ends, in epoch milliseconds; `Infinity` for never. */
  readonly until: number
  /** True if it limits or allows. False for a policy whose limits are all in shadow. */
  readonly isEnforced: boolean
}

/** A compiled document, with which requests are matched. It never changes. */
export interface CompiledRules {
  readonly policies: readonly CompiledPolicy[]
  /** Policies without a condition. They match every request. */
  readonly always: readonly CompiledPolicy[]
  /** The policy for requests that no enforced policy matches. It has `allow` for `otherwise: allow`. */
  readonly otherwise: CompiledPolicy | undefined
  /** True if some requests may match no policy, and the document has no `otherwise`. */
  readonly leavesRest: boolean
  /** The name of a policy with `allow` that matches all clients, so that the limits of the document have no effect. */
  readonly allowsAll: string | undefined
  /** The dimensions by which policies are found. */
  readonly indexed: readonly Dimension[]
  /** The attributes in policies, each with the name of the first policy that has it. */
  readonly attributes: ReadonlyMap<string, string>
  readonly limits: LimitReader
}

/** Returns the policies of a document, with `otherwise` as the last one. */
export function allPolicies({ policies, otherwise }: Pick<CompiledRules, 'policies' | 'otherwise'>): CompiledPolicy[] {
  return otherwise === undefined ? [...policies] : [...policies, otherwise]
}

const NOTHING: readonly Cell[] = Object.freeze([])

/** A part whose values are compared as a whole: the method, a header, an attribute. */
class ValueDimension implements Dimension {
  readonly part: string
  readonly #read: (facts: Facts) => string | undefined
  /** The cell of each value, in a list that `find` returns. */
  readonly #found = new Map<string, readonly [Cell]>()
  /** The cell of any value. */
  #present: Cell | undefined

  constructor(part: string, read: (facts: Facts) => string | undefined) {
    this.part = part
    this.#read = read
  }

  /** Returns the cell of a value, or of any value. */
  of(value: string | true): Cell {
    if (value === true) return (this.#present ??= new Cell())
    return madeOnce(this.#found, value, () => [new Cell()] as const)[0]
  }

  find(facts: Facts): readonly Cell[] {
    const value = this.#read(facts)
    if (value === undefined) return NOTHING
    const found = this.#found.get(value) ?? NOTHING
    return this.#present === undefined ? found : [...found, this.#present]
  }

  actual(facts: Facts): string | undefined {
    return this.#read(facts)
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

/** A pattern in the router. `length` is the number of its segments; `undefined` if it ends with `*`. */
interface Route {
  readonly cell: Cell
  readonly length: number | undefined
}

class PathDimension implements Dimension {
  readonly part = 'path'
  readonly #router: RouterContext<Route> = createRouter<Route>()
  readonly #cells = new Map<string, Cell>()
  #size = { segments: 0, characters: 0 }

  of(pattern: string): Cell {
    const canonical = canonicalPattern(pattern)
    return madeOnce(this.#cells, canonical, () => this.#add(canonical))
  }

  #add(canonical: string): Cell {
    const cell = new Cell()
    const length = lengthOf(canonical)
    const { segments, characters } = this.#size
    this.#size = { segments: Math.max(segments, length), characters: Math.max(characters, canonical.length) }
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
    const known = facts.once(this.#cells, () => new Map<string, readonly Cell[]>())
    return madeOnce(known, reading, () => this.#found(reading))
  }

  /** Returns the cells of all spellings of a reading. */
  #found(reading: string): Cell[] {
    const [first, ...others] = pathForms(reading, this.#size)
    const found = this.#match(first!)
    for (const form of others) for (const cell of this.#match(form)) if (!found.includes(cell)) found.push(cell)
    return found
  }

  /** Returns the cells of a spelling. The number of segments is also compared, because for the router a parameter at the end is optional. */
  #match(form: string): Cell[] {
    const cells: Cell[] = []
    const length = lengthOf(form)
    for (const { data } of findAllRoutes(this.#router, '', form, { params: false })) {
      if (data.length === undefined || data.length === length) cells.push(data.cell)
    }
    return cells
  }
}

function lengthOf(path: string): number {
  return path === '/' ? 0 : path.split('/').length - 1
}

export class Dimensions {
  readonly #path = new PathDimension()
  readonly #networks = new NetworkDimension()
  readonly #values = new Map<string, ValueDimension>()

  /** Returns the conditions of a `match`. Of equally selective conditions, the first is used to find the policy. */
  conditions({ method, path, header = {}, ip, attributes = {} }: MatchRule): readonly Condition[] {
    const conditions: Condition[] = []
    if (path !== undefined) conditions.push(condition(this.#path, path, (each) => [this.#path.of(each)]))
    if (ip !== undefined) conditions.push(condition(this.#networks, ip, (each) => [this.#networks.of(each)]))
    for (const [name, values] of Object.entries(attributes)) {
      const dimension = this.#valuesOf(`attributes.${name}`, (facts) => facts.attributeText(name))
      conditions.push(condition(dimension, values, (each) => [dimension.of(String(each))]))
    }
    for (const [given, values] of Object.entries(header)) {
      const name = given.toLowerCase()
      const dimension = this.#valuesOf(`header.${name}`, (facts) => facts.header(name))
      conditions.push(condition(dimension, values, (each) => [dimension.of(each)]))
    }
    if (method !== undefined) {
      const dimension = this.#valuesOf('method', (facts) => facts.method)
      // A router also answers HEAD for a route with GET.
      const namesOf = (name: string): readonly string[] => (name === 'GET' ? [name, 'HEAD'] : [name])
      conditions.push(
        condition(dimension, method, (each) => namesOf(each.toUpperCase()).map((name) => dimension.of(name))),
      )
    }
    return conditions
  }

  #valuesOf(part: string, read: (facts: Facts) => string | undefined): ValueDimension {
    return madeOnce(this.#values, part, () => new ValueDimension(part, read))
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
