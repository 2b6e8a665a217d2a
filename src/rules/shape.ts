import { shown } from '../util/errors.ts'
import { hintOf, nearest } from '../util/validate.ts'
import type { Report } from './document.ts'

/** A part of a JSON Schema. */
export type JsonSchema = { readonly [keyword: string]: unknown }

/** The shape of a value. The check and the JSON Schema come from one description, so that they cannot differ. */
export interface Shape {
  readonly schema: JsonSchema
  check(value: unknown, path: string, report: Report): void
}

/** A field of an object. The description is for editors. */
export interface Field {
  readonly shape: Shape
  readonly description?: string | undefined
  readonly isRequired: boolean
}

export function optional(shape: Shape, description?: string): Field {
  return { shape, description, isRequired: false }
}

export function required(shape: Shape, description?: string): Field {
  return { shape, description, isRequired: true }
}

export function where(schema: JsonSchema, expected: string, holds: (value: unknown) => boolean): Shape {
  return {
    schema,
    check(value, path, report) {
      if (!holds(value)) report(path, `expected ${expected}, got ${shown(value)}`)
    },
  }
}

export const anything: Shape = where({}, '', () => true)

export function text(pattern: RegExp, expected: string, more: JsonSchema = {}): Shape {
  const holds = (value: unknown): boolean => typeof value === 'string' && pattern.test(value)
  return where({ type: 'string', pattern: pattern.source, ...more }, expected, holds)
}

export function whole(minimum: number, maximum: number = Number.MAX_SAFE_INTEGER): Shape {
  const holds = (value: unknown): boolean =>
    Number.isSafeInteger(value) && (value as number) >= minimum && (value as number) <= maximum
  return where({ type: 'integer', minimum, maximum }, `a whole number from ${minimum} to ${maximum}`, holds)
}

export function flag(expected = 'true or false'): Shape {
  return where({ type: 'boolean' }, expected, (value) => typeof value === 'boolean')
}

export function oneOf(values: readonly (string | number | boolean)[]): Shape {
  const expected = values.map((each) => JSON.stringify(each)).join(' or ')
  return where({ enum: values }, expected, (value) => values.includes(value as string))
}

export function list(item: Shape, expected: string, most: number, least = 1): Shape {
  const bounds = `${least > 0 ? 'at least one, ' : ''}at most ${most}`
  return {
    schema: { type: 'array', items: item.schema, minItems: least, maxItems: most },
    check(value, path, report) {
      if (!Array.isArray(value)) return report(path, `expected ${expected}, got ${shown(value)}`)
      if (value.length < least || value.length > most)
        return report(path, `expected ${expected} (${bounds}), got ${shown(value)}`)
      for (let i = 0; i < value.length; i++) item.check(value[i], `${path}[${i}]`, report)
    },
  }
}

export function oneOrMany(item: Shape, expected: string, most: number): Shape {
  const many = list(item, expected, most)
  return {
    schema: { anyOf: [item.schema, many.schema] },
    check: (value, path, report) => (Array.isArray(value) ? many : item).check(value, path, report),
  }
}

/** One of two shapes. The second is for values for which `isSecond` returns true. */
export function either(first: Shape, second: Shape, isSecond: (value: unknown) => boolean): Shape {
  return {
    schema: { anyOf: [first.schema, second.schema] },
    check: (value, path, report) => (isSecond(value) ? second : first).check(value, path, report),
  }
}

/** An object with more unknown names is refused as a whole. */
const MOST_UNKNOWN = 100

/**
 * An object with fields. Any other name is a mistake. The message has the nearest known name as a hint.
 * @param advice says what to write instead of an unknown name
 */
export function object(owner: string, fields: Readonly<Record<string, Field>>, advice = ''): Shape {
  const known = Object.keys(fields)
  const requiredNames = known.filter((name) => fields[name]!.isRequired)
  function unknown(name: string): string {
    const hint = hintOf(nearest(name, known)) || (advice === '' ? '' : '.')
    return `is not known here; expected one of ${known.join(', ')}${hint} ${advice}`.trimEnd()
  }
  return {
    schema: objectSchema(fields, requiredNames),
    check(value, path, report) {
      if (!isObject(value)) return report(path, `expected ${owner}, got ${shown(value)}`)
      const names = Object.keys(value)
      if (names.length > known.length + MOST_UNKNOWN) return report(path, tooMany(names, known.length))
      for (const name of names) {
        const shape = Object.hasOwn(fields, name) ? fields[name]!.shape : undefined
        if (shape === undefined) report(join(path, name), unknown(name))
        else if (value[name] !== undefined) shape.check(value[name], join(path, name), report)
      }
      requireFields(value, requiredNames, path, report)
    },
  }
}

function objectSchema(fields: Readonly<Record<string, Field>>, requiredNames: readonly string[]): JsonSchema {
  const properties = Object.entries(fields).map(([name, { shape, description }]) => [
    name,
    description === undefined ? shape.schema : { description, ...shape.schema },
  ])
  return {
    type: 'object',
    properties: Object.fromEntries(properties) as JsonSchema,
    ...(requiredNames.length > 0 && { required: requiredNames }),
    additionalProperties: false,
  }
}

/** The names that a dictionary may have, and the shape of its values. */
interface Entries {
  readonly name: RegExp
  readonly expectedName: string
  /** Names that are refused although they match the pattern. */
  readonly refused: readonly string[]
  readonly shape: Shape
  readonly most: number
}

/** An object from names, which the document chooses, to values of one shape. */
export function dictionary(owner: string, { name: pattern, expectedName, refused, shape, most }: Entries): Shape {
  return {
    schema: {
      type: 'object',
      additionalProperties: shape.schema,
      propertyNames: { pattern: pattern.source, not: { enum: refused } },
      maxProperties: most,
    },
    check(value, path, report) {
      if (!isObject(value)) return report(path, `expected ${owner}, got ${shown(value)}`)
      const names = Object.keys(value)
      const checked = names.length > most + MOST_UNKNOWN ? [] : names
      for (const name of checked) {
        const isWrong = !pattern.test(name) || refused.includes(name)
        if (isWrong) report(join(path, name), `expected ${expectedName}, got ${shown(name)}`)
        else if (value[name] !== undefined) shape.check(value[name], join(path, name), report)
      }
      if (names.length > most) report(path, tooMany(names, most))
    },
  }
}

function tooMany(names: readonly string[], most: number): string {
  return `expected at most ${most} names, got ${names.length}`
}

export function requireFields(
  value: Readonly<Record<string, unknown>>,
  names: readonly string[],
  path: string,
  report: Report,
): void {
  for (const name of names)
    if (!Object.hasOwn(value, name) || value[name] === undefined)
      report(join(path, name), 'expected a value, got nothing')
}

export function join(path: string, name: string): string {
  if (!/^[\w$-]{1,64}$/.test(name)) return `${path}[${shown(name)}]`
  return path === '' ? name : `${path}.${name}`
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Returns true if a value contains more than `most` values. If an object is in several places, it counts at each of them. */
export function hasMoreValues(value: unknown, most: number): boolean {
  const objects: object[] = []
  let count = 0
  const note = (each: unknown): void => {
    count++
    if (typeof each === 'object' && each !== null) objects.push(each)
  }
  for (note(value); objects.length > 0 && count <= most;) {
    const object = objects.pop()!
    for (const each of Array.isArray(object) ? (object as unknown[]) : Object.values(object)) note(each)
  }
  return count > most
}
