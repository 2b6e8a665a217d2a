import type { InputReader, RulesInput } from '../limiter/rule-source.ts'
import { clientAddress } from '../http/keys/address.ts'
import { madeOnce } from '../util/copies.ts'
import { pathReadings } from './paths.ts'

/** The attributes of an input, which the application returns. */
export type Attributes = Readonly<Record<string, unknown>>

export const NO_ATTRIBUTES: Attributes = Object.freeze({})

/** The data of one input that rules use. Each part is read once, when it is needed. */
export class Facts {
  readonly #reader: InputReader<unknown>
  readonly #input: unknown
  readonly #attributes: Attributes
  #paths: readonly (readonly string[])[] | undefined
  #address: string | undefined
  readonly #found = new Map<object, unknown>()

  constructor(reader: InputReader<unknown>, input: unknown, attributes: Attributes) {
    this.#reader = reader
    this.#input = input
    this.#attributes = attributes
  }

  /** The method in capitals; `''` if there is none. */
  get method(): string {
    return this.#reader.method(this.#input)?.toUpperCase() ?? ''
  }

  /** The readings of each path: see `pathReadings`. The first path is the one that the router matches. Empty without a path. */
  get paths(): readonly (readonly string[])[] {
    if (this.#paths !== undefined) return this.#paths
    const path = this.#reader.path(this.#input)
    const paths = path === undefined ? [] : typeof path === 'string' ? [path] : path
    return (this.#paths = paths.map(pathReadings))
  }

  /** The client's address as text; `''` if there is none. */
  get address(): string {
    return (this.#address ??= clientAddress(this.#reader.address(this.#input)) ?? '')
  }

  /** Returns the result of the first call of `find` for an object, such as the cells of a dimension. */
  once<Found>(object: object, find: () => Found): Found {
    return madeOnce(this.#found as Map<object, Found>, object, find)
  }

  header(name: string): string | undefined {
    return this.#reader.header(this.#input, name)
  }

  attribute(name: string): unknown {
    return Object.hasOwn(this.#attributes, name) ? this.#attributes[name] : undefined
  }

  /** Returns an attribute as a text that documents compare. Objects match nothing. */
  attributeText(name: string): string | undefined {
    const value = this.attribute(name)
    return COMPARABLE.has(typeof value) ? String(value) : undefined
  }
}

const COMPARABLE: ReadonlySet<string> = new Set(['string', 'number', 'boolean', 'bigint'])

/** Reads plain objects. */
export const plainReader: InputReader<RulesInput> = {
  method: (input) => input.method,
  path: (input) => input.path,
  address: (input) => input.ip,
  header({ headers = {} }, name) {
    const found = Object.hasOwn(headers, name) ? name : Object.keys(headers).find((each) => each.toLowerCase() === name)
    const value = found === undefined ? undefined : headers[found]
    return typeof value === 'object' ? value.join(', ') : value
  },
  attributes: (input) => input.attributes ?? {},
  rest: () => [],
}

/** Returns the facts of a plain object. */
export function plainFacts(input: RulesInput): Facts {
  return new Facts(plainReader, input, input.attributes ?? NO_ATTRIBUTES)
}
