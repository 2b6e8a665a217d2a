import { shown } from '../util/errors.ts'
import { nearest } from '../util/validate.ts'

/** A part of a JSON Schema. */
export type JsonSchema = { readonly [keyword: string]: unknown }

/** Receives a mistake: its path, and a message with the expected and the given value. */
export type Report = (path: string, message: string) => void

/** The shape of a value. The check and the JSON Schema come from one description, so that they cannot differ. */
export interface Shape {
  readonly schema: JsonSchema
  check(value: unknown, path: string, report: Report): void
}

export interface Field {
  readonly shape: Shape
  readonly required?: boolean
  readonly description?: string
}

export function where(schema: JsonSchema, expected: string, holds: (value: unknown) => boolean): Shape {
  return {
    schema,
    check(value, path, report) {
      if (!holds(value)) report(path, `expected ${expected}, got ${shown(value)}`)
    },
  }
}

export function text(pattern: RegExp, expected: string, more: JsonSchema = {}): Shape {
  const holds = (value: unknown): boolean => typeof value === 'string' && pattern.test(value)
  return where({ type: 'string', pattern: pattern.source, ...more }, expected, holds)
}

export function whole(minimum: number, maximum: number = Number.MAX_SAFE_INTEGER): Shape {
  const holds = (value: unknown): boolean =>
    Number.isSafeInteger(value) && (value as number) >= minimum && (value as number) <= maximum
  return where({ type: 'integer', minimum, maximum }, `a whole number from ${minimum} to ${maximum}`, holds)
}

export function flag(): Shape {
  return where({ type: 'boolean' }, 'true or false', (value) => typeof value === 'boolean')
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

/** Other fields that an object may have: names that match a pattern. */
interface OtherFields {
  readonly name: RegExp
  readonly expectedName: string
  /** Names that are refused although they match the pattern. */
  readonly refused: readonly string[]
  readonly shape: Shape
  readonly most: number
}

/** Returns a sentence that says what to write instead of an unknown name. */
type Advise = (name: string, value: unknown) => string

/** An object with more unknown names is refused as a whole. */
const MOST_UNKNOWN = 100

/** An object with fields. Any other name is a mistake. The message has the nearest known name as a hint. */
export function object(
  owner: string,
  fields: Readonly<Record<string, Field>>,
  { others, advise }: { readonly others?: OtherFields; readonly advise?: Advise } = {},
): Shape {
  const known = new Map(Object.entries(fields))
  const required = [...known].filter(([, field]) => field.required).map(([name]) => name)
  return {
    schema: objectSchema(fields, required, others),
    check(value, path, report) {
      if (!isObject(value)) return report(path, `expected ${owner}, got ${shown(value)}`)
      const names = Object.keys(value)
      const most = known.size + (others?.most ?? 0)
      if (names.length > most + MOST_UNKNOWN) return report(path, `expected at most ${most} names, got ${names.length}`)
      for (const name of names) {
        const shape = known.get(name)?.shape ?? otherShape(name, others)
        if (shape === undefined) report(join(path, name), unknown(name, value[name], [...known.keys()], others, advise))
        else if (value[name] !== undefined) shape.check(value[name], join(path, name), report)
      }
      requireFields(value, required, path, report)
      if (others !== undefined && names.length > most)
        report(path, `expected at most ${most} names, got ${names.length}`)
    },
  }
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

/** Returns the question "Did you mean …?", if there is a similar name. */
export function hintOf(near: string | undefined): string {
  return near === undefined ? '' : `. Did you mean ${shown(near)}?`
}

function otherShape(name: string, others: OtherFields | undefined): Shape | undefined {
  return others?.name.test(name) === true && !others.refused.includes(name) ? others.shape : undefined
}

function unknown(
  name: string,
  value: unknown,
  known: readonly string[],
  others: OtherFields | undefined,
  advise: Advise | undefined,
): string {
  const hint = hintOf(nearest(name, known))
  if (others !== undefined) return `expected ${[...known, others.expectedName].join(', ')}, got ${shown(name)}${hint}`
  const advice = advise === undefined ? '' : `${hint === '' ? '.' : ''} ${advise(name, value)}`
  return `is not known here; expected one of ${known.join(', ')}${hint}${advice}`
}

function objectSchema(
  fields: Readonly<Record<string, Field>>,
  required: readonly string[],
  others: OtherFields | undefined,
): JsonSchema {
  const properties = Object.fromEntries(
    Object.entries(fields).map(([name, { shape, description }]) => [
      name,
      description === undefined ? shape.schema : { description, ...shape.schema },
    ]),
  )
  return {
    type: 'object',
    ...(Object.keys(properties).length > 0 && { properties }),
    ...(required.length > 0 && { required }),
    ...(others === undefined
      ? { additionalProperties: false }
      : {
          additionalProperties: others.shape.schema,
          propertyNames: { pattern: others.name.source, not: { enum: others.refused } },
          maxProperties: Object.keys(fields).length + others.most,
        }),
  }
}
