import { Ajv } from 'ajv'
import fc, { type Arbitrary } from 'fast-check'
import { describe, expect, it } from 'vitest'
import { knownAlgorithms } from '../../src/engine/all-algorithms.ts'
import { checkRules, rulesSchema } from '../../src/rules/index.ts'

type Schema = Readonly<Record<string, unknown>>

const schema = rulesSchema()
const path = new URL('../../rules.schema.json', import.meta.url)
const validate = new Ajv({
  strict: true,
  allowUnionTypes: true,
  strictRequired: false,
  formats: { 'date-time': true },
}).compile(schema)

describe('the schema', () => {
  it('is the file in the package', async () => {
    const text = `${JSON.stringify(schema, null, 2)}\n`
    await expect(text).toMatchFileSnapshot(path.pathname)
  })

  it('has every option of every algorithm', () => {
    const text = JSON.stringify(schema)
    for (const { options } of knownAlgorithms()) for (const option of options) expect(text).toContain(`"${option}":{`)
  })
})

/** Texts for the patterns of the schema that fast-check cannot generate by itself: they look ahead. */
const TEXTS: readonly Arbitrary<string>[] = [
  fc.constantFrom('1s', '10s', '1m', '15m', '1h', '1d', '500ms'),
  fc.constantFrom('/', '/login', '/users/:id', '/api/*', '/:a/:b', '/a.b/c+'),
  fc.constantFrom('ip', 'everyone', 'method', 'path', 'header:x-a', 'attribute:tenant'),
  fc.constantFrom('192.0.2.0/24', '2001:db8::/32', '198.51.100.7'),
  fc.constantFrom('2026-12-01T00:00:00Z', '2030-02-28T23:59:59.5+01:00'),
  fc.constantFrom('GET', 'POST', 'x-device', 'plan', 'region'),
]

/** Generates values of a schema. */
function valuesOf(part: Schema): Arbitrary<unknown> {
  if (typeof part['$ref'] === 'string')
    return valuesOf(
      part['$ref']
        .slice(2)
        .split('/')
        .reduce((each, name) => each[name] as Schema, schema),
    )
  if (part['anyOf'] !== undefined && part['type'] === undefined)
    return fc.oneof(...(part['anyOf'] as Schema[]).map(valuesOf))
  if (part['enum'] !== undefined) return fc.constantFrom(...(part['enum'] as unknown[]))
  switch ([part['type']].flat()[0]) {
    case 'array':
      return fc.array(valuesOf(part['items'] as Schema), { minLength: part['minItems'] as number, maxLength: 3 })
    case 'integer':
      return fc.integer({ min: part['minimum'] as number, max: 1000 })
    case 'number':
      return fc.constantFrom(
        part['minimum'] ?? part['maximum'],
        part['minimum'] === undefined ? 0.5 : 1.5,
        part['maximum'],
      )
    case 'boolean':
      return fc.boolean()
    case 'object':
      return objectsOf(part)
    default:
      return textsOf(part)
  }
}

function textsOf({ pattern, maxLength }: Schema): Arbitrary<string> {
  if (pattern === undefined) return fc.string({ minLength: 1, maxLength: Math.min(9, maxLength as number) })
  const expression = new RegExp(pattern as string)
  const plain = fc.constantFrom(...TEXTS).chain((texts) => texts)
  return plain.filter((text) => expression.test(text))
}

function objectsOf(part: Schema): Arbitrary<Record<string, unknown>> {
  const properties = Object.entries((part['properties'] ?? {}) as Record<string, Schema>)
  const fields = Object.fromEntries(properties.map(([name, each]) => [name, valuesOf(each)]))
  const required = (part['required'] ?? []) as string[]
  const known = fc.record(fields, { requiredKeys: required })
  if (part['additionalProperties'] === false) return known
  const names = textsOf({ pattern: (part['propertyNames'] as Schema)['pattern'] })
  const free = names.filter((name) => !Object.hasOwn(fields, name))
  const others = fc.dictionary(free, valuesOf(part['additionalProperties'] as Schema), { maxKeys: 2 })
  return fc.tuple(others, known).map(([more, own]) => Object.assign({}, more, own))
}

interface Document {
  policies: Record<string, unknown>[]
  otherwise?: unknown
}

const documents = (valuesOf(schema) as Arbitrary<Document>).map(made)

/** Changes what a schema cannot say: names are unique, options fit each other, and overrides fit their policy. */
function made(document: Document): Document {
  const policies = document.policies.map((policy, i) => {
    const named = { ...policy, name: `policy ${i}` }
    if (policy['allow'] === true || policy['key'] === undefined || policy['limits'] === undefined) {
      const { name, match, until } = named as Record<string, unknown>
      return clean({ name, match, until, allow: true })
    }
    return limited({ ...named, allow: undefined })
  })
  const { otherwise } = document
  return { ...document, policies, ...(isObject(otherwise) && { otherwise: limited(otherwise) }) }
}

function limited(policy: Record<string, unknown>): Record<string, unknown> {
  const limits = (policy['limits'] as Record<string, unknown>[]).map(fitting)
  return clean({ ...policy, key: 'attribute:tenant', limits, overrides: overridesOf(policy) })
}

function fitting(limit: Record<string, unknown>): Record<string, unknown> {
  const { block, buckets, initial, timeZone } = limit
  const hasCalendar = limit['anchor'] === 'calendar'
  const quota = limit['algorithm'] === 'spacing' ? 1 : limit['quota']
  return clean({
    ...limit,
    offset: undefined,
    quota,
    ...(limit['algorithm'] === 'concurrent' ? {} : { window: hasCalendar ? '1mo' : '1h' }),
    timeZone: hasCalendar && timeZone !== undefined ? 'Europe/Berlin' : undefined,
    name: undefined,
    strict: undefined,
    buckets: buckets && 10,
    initial: initial && 0,
    block: isObject(block) ? clean({ ...block, upTo: block['upTo'] && '36500d' }) : block,
  })
}

function overridesOf({ overrides }: Record<string, unknown>): unknown {
  return (overrides as Record<string, unknown>[] | undefined)?.map((each, i) => {
    return clean({ key: `key ${i}`, limits: [{ block: '1m' }], until: each['until'] })
  })
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

function clean(object: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined))
}

/** Wrong values for the fields of a document, by the last part of their paths. */
const WRONG: Readonly<Record<string, unknown>> = {
  name: 'é',
  key: '',
  window: '1 min',
  quota: 0.5,
  path: 'login',
  ip: '1.2.3',
  method: '',
  until: 'tomorrow',
  onOutage: 'no',
  shadow: 'yes',
  cost: -1,
  block: '0s',
  header: 7,
  burst: -1,
  capacity: -1,
  lease: '0s',
  retryAfter: 'soon',
  limits: [],
  overrides: {},
  match: [],
  allow: 1,
  refill: 'x',
  anchor: 'x',
  timeZone: 'no zone',
  shape: 1,
  buckets: 0,
  algorithm: 'x',
  after: 0,
  for: '0s',
  factor: 0.5,
  upTo: 'x',
}

/** The paths of all fields in a value, in the notation of mistakes. */
function fieldsIn(value: unknown, at = ''): string[] {
  if (Array.isArray(value)) return value.flatMap((each, i) => fieldsIn(each, `${at}[${i}]`))
  if (typeof value !== 'object' || value === null) return []
  const fields: string[] = []
  for (const [name, each] of Object.entries(value)) {
    const path = at === '' ? name : `${at}.${name}`
    fields.push(path, ...fieldsIn(each, path))
  }
  return fields
}

/** Returns a copy of a document with another value at a path. */
function withValue(document: unknown, path: string, value: unknown): unknown {
  const copy = structuredClone(document)
  const steps = path.match(/[^.[\]]+/g)!
  let target = copy as Record<string, unknown>
  for (const step of steps.slice(0, -1)) target = target[step] as Record<string, unknown>
  target[steps.at(-1)!] = value
  return copy
}

const runs = { numRuns: Number(process.env['RUNS'] ?? 200) }

describe('documents of the schema', () => {
  it('are all accepted by the checks, and by a validator', () => {
    fc.assert(
      fc.property(documents, (document) => {
        expect(checkRules(document)).toEqual([])
        expect(validate(document) ? [] : validate.errors).toEqual([])
      }),
      runs,
    )
  })

  it('are all refused with one wrong value, at its path, and by a validator', () => {
    const broken = documents
      .map((document) => ({ document, fields: fieldsIn(document).filter((each) => isBreakable(each)) }))
      .filter(({ fields }) => fields.length > 0)
      .chain(({ document, fields }) => fc.record({ document: fc.constant(document), path: fc.constantFrom(...fields) }))
    fc.assert(
      fc.property(broken, ({ document, path }) => {
        const wrong = withValue(document, path, WRONG[path.match(/\w+$/)![0]])
        const problems = checkRules(wrong)
        expect(problems.map((each) => each.path)).toContain(path)
        expect(validate(wrong)).toBe(false)
      }),
      runs,
    )
  })

  it('are all refused with one more name, at its path', () => {
    const places = documents.chain((document) => {
      const objects = [
        '',
        ...document.policies.flatMap((policy, i) => [
          `policies[${i}]`,
          ...(policy['limits'] === undefined ? [] : [`policies[${i}].limits[0]`]),
        ]),
      ]
      return fc.record({ document: fc.constant(document), at: fc.constantFrom(...objects) })
    })
    fc.assert(
      fc.property(places, ({ document, at }) => {
        const path = at === '' ? 'quotaa' : `${at}.quotaa`
        const wrong = withValue(document, path, 1)
        expect(checkRules(wrong).map((each) => each.path)).toEqual([path])
        expect(validate(wrong)).toBe(false)
      }),
      runs,
    )
  })
})

/** Fields with a wrong value, except for attributes that have the name of another field. */
function isBreakable(path: string): boolean {
  const name = /\w+$/.exec(path)?.[0] ?? ''
  if (!Object.hasOwn(WRONG, name) || /\.match\.(?:header|attributes)\./.test(path)) return false
  return name !== 'allow' || path.endsWith('.allow')
}
