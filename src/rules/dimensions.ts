import { addRoute, createRouter, findAllRoutes, type RouterContext } from 'rou3'
import { Cell, type Dimension } from './compiled.ts'
import type { Facts } from './facts.ts'
import { NetworkMap } from '../http/keys/networks.ts'
import { canonicalPattern, pathForms, WHOLE } from './paths.ts'

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

export class MethodDimension implements Dimension {
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

export class AttributeDimension implements Dimension {
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

export class HeaderDimension implements Dimension {
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

export class NetworkDimension implements Dimension {
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

export class PathDimension implements Dimension {
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
