import { knownAlgorithms } from '../engine/all-algorithms.ts'
import { HEADER_NAME, hintOf, nearest, ownOptions } from '../util/validate.ts'
import { madeOnce } from '../util/copies.ts'
import { shown } from '../util/errors.ts'
import { parseDuration } from '../util/duration.ts'
import {
  anything,
  dictionary,
  either,
  type Field,
  flag,
  isObject,
  join,
  type JsonSchema,
  list,
  object,
  oneOf,
  oneOrMany,
  optional,
  required,
  requireFields,
  type Shape,
  text,
  where,
  whole,
} from './shape.ts'
import type { Report } from './document.ts'
import { isNetwork } from '../http/keys/networks.ts'
import { isPathPattern, PATH_PATTERN } from './paths.ts'

type Algorithm = ReturnType<typeof knownAlgorithms>[number]
type OptionField = NonNullable<Algorithm['optionFields']>[string]

/** The pattern of a duration. It allows as many digits as a safe number of milliseconds has. */
const DURATION = '^(?=\\d*[1-9])(?:\\d{1,15}ms|\\d{1,12}s|\\d{1,10}m|\\d{1,9}h|\\d{1,8}d|\\d{1,7}w)$'

/** The pattern of a duration up to an hour. */
const DURATION_TO_HOUR =
  '^(?=\\d*[1-9])(?:(?:\\d{1,6}|[12]\\d{6}|3[0-5]\\d{5}|3600000)ms|(?:\\d{1,3}|[12]\\d{3}|3[0-5]\\d\\d|3600)s|(?:[1-5]?\\d|60)m|1h)$'

/** Returns the shape of a duration from 1 to `most` milliseconds. `pattern` is for a text. */
function durationUpTo(most: number, pattern: string, expected: string): Shape {
  const schema = {
    anyOf: [
      { type: 'integer', minimum: 1, maximum: most },
      { type: 'string', pattern },
    ],
  }
  return where(schema, expected, (value) => {
    const ms = typeof value === 'string' ? new RegExp(pattern).test(value) && parseDuration(value) : value
    return Number.isSafeInteger(ms) && (ms as number) >= 1 && (ms as number) <= most
  })
}

const duration: Shape = durationUpTo(Number.MAX_SAFE_INTEGER, DURATION, 'a duration such as "1m"')

/** The window of an algorithm with a calendar. */
const windowOrUnit: Field = required(
  either(duration, oneOf(['1mo', '1y']), (value) => value === '1mo' || value === '1y'),
  'Such as 10s, 1m, 1h, 1d, 1w, or milliseconds. With anchor "calendar": 1d, 1w, 1mo or 1y.',
)

const factor: Shape = where(
  { type: 'number', minimum: 1, maximum: 1000 },
  'a number from 1 to 1000',
  (value) => typeof value === 'number' && value >= 1 && value <= 1000,
)

const part: Shape = where(
  { type: 'number', exclusiveMinimum: 0, maximum: 1 },
  'a number above 0 and at most 1',
  (value) => typeof value === 'number' && value > 0 && value <= 1,
)

const block: Shape = either(
  duration,
  object('a block such as { after, for, factor, upTo }', {
    after: optional(whole(1), 'Denials before each lock-out. Default 1.'),
    for: required(duration, 'The first lock-out.'),
    factor: optional(factor, 'How many times longer each further lock-out is. Default 1.'),
    upTo: optional(duration, 'The longest lock-out. Default: 1d, or `for` with factor 1.'),
  }),
  isObject,
)

/** The options that every limit has, except for its algorithm. */
const COMMON: Readonly<Record<string, Field>> = {
  quota: required(whole(0), 'Units per window. A quota of 0 admits nothing.'),
  window: required(duration, 'Such as 10s, 1m, 1h, 1d, 1w, or milliseconds.'),
  name: optional(
    text(/^[\x20-\x7e]{1,256}$/, '1 to 256 characters of printable ASCII'),
    'The identity of its state. Default: the name of the policy and, from the second limit on, its place.',
  ),
  strict: optional(flag(), 'True: denied requests are charged, too.'),
  block: optional(block, 'Locks the key out for this long after a denial, or after several, and longer each time.'),
  shadow: optional(flag(), 'True: reports, and never denies.'),
  capCost: optional(flag(), 'True: a cost above the capacity counts as the capacity.'),
  exact: optional(flag(), 'True: never leased.'),
  notifyAt: optional(
    list(part, 'a list of numbers', 10, 0),
    'Parts of the capacity at which an event is published, such as [0.8, 1].',
  ),
}

function fieldOf({ kind, least = 1, choices = [], pattern = /^/, meaning, fallback }: OptionField): Field {
  const shapes: Readonly<Record<OptionField['kind'], () => Shape>> = {
    count: () => whole(least),
    duration: () => (least === 0 ? either(duration, oneOf([0]), (value) => value === 0) : duration),
    flag,
    choice: () => oneOf(choices),
    text: () => text(pattern, `a text such as ${JSON.stringify(fallback)}`),
  }
  return optional(shapes[kind](), `${meaning} Default: ${fallback}.`)
}

/** An option that is checked when the limit is made. */
const ANY: Field = optional(anything)

export const DEFAULT_ALGORITHM = 'gcra'

/** The algorithms that come with the package, for the schema. */
const builtIn = knownAlgorithms()

const algorithmNames: Field = optional(oneOf(builtIn.map(({ name }) => name)), 'Default: gcra.')

/** A limit of a policy: the options of `limit()`. */
const limitShape: Shape = {
  schema: {
    anyOf: builtIn.map((each) => {
      const { name } = each
      const algorithm = { ...optional(oneOf([name])), isRequired: name !== DEFAULT_ALGORITHM }
      return object('', { algorithm, ...fieldsOf([each]) }).schema
    }),
  },
  check: (value, path, report) => checkLimit(value, path, report, true),
}

/** A limit of an override. Missing options are taken from the limit that it replaces. */
const overrideLimitShape: Shape = {
  schema: object('', { algorithm: algorithmNames, ...allOptional(fieldsOf(builtIn)) }).schema,
  check: (value, path, report) => checkLimit(value, path, report, false),
}

/** Checks the given options. An algorithm of the application checks its options itself when the limit is made. */
function checkLimit(value: unknown, path: string, report: Report, isWhole: boolean): void {
  if (!isObject(value)) return report(path, `expected a limit such as { quota, window }, got ${shown(value)}`)
  const { algorithm = isWhole ? DEFAULT_ALGORITHM : undefined } = ownOptions(value)
  const known = knownAlgorithms()
  const found = known.find(({ name }) => name === algorithm)
  if (algorithm !== undefined && found === undefined) return report(`${path}.algorithm`, unknownAlgorithm(algorithm))
  shapeFor(found === undefined ? known : [found], isWhole).check(value, path, report)
}

/** Shapes by the names of the algorithms that the limit may have. */
const shapesByAlgorithms = new Map<string, Shape>()

function shapeFor(algorithms: readonly Algorithm[], isWhole: boolean): Shape {
  const id = `${isWhole} ${algorithms.map(({ name }) => name).join()}`
  return madeOnce(shapesByAlgorithms, id, () => {
    const fields = fieldsOf(algorithms)
    return object('a limit', { algorithm: ANY, ...(isWhole ? fields : allOptional(fields)) })
  })
}

function unknownAlgorithm(given: unknown): string {
  const names = knownAlgorithms().map(({ name }) => name)
  const hint = hintOf(typeof given === 'string' ? nearest(given, names) : undefined)
  return `expected one of ${names.join(', ')}, got ${shown(given)}${hint}`
}

/**
 * Returns the fields of the options of these algorithms, and of their window, which may have another name. If one of them does not describe an option, the
 * option accepts any value.
 */
function fieldsOf(algorithms: readonly Algorithm[]): Readonly<Record<string, Field>> {
  const { window: _, ...common } = COMMON
  const hasWindow = algorithms.some(({ windowOption }) => windowOption === undefined)
  const fields: Record<string, Field> = ownOptions(hasWindow ? COMMON : common)
  if (algorithms.some(({ windowUnit }) => windowUnit !== undefined)) fields['window'] = windowOrUnit
  for (const { options, optionFields, windowOption } of algorithms) {
    if (windowOption !== undefined) {
      const { name, meaning, fallback } = windowOption
      fields[name] = optional(duration, `${meaning} Default: ${fallback}.`)
    }
    for (const name of options) {
      const described = Object.hasOwn(optionFields ?? {}, name) ? optionFields![name] : undefined
      const own = described === undefined ? ANY : fieldOf(described)
      const other = fields[name] ?? own
      fields[name] = JSON.stringify(other.shape.schema) === JSON.stringify(own.shape.schema) ? other : ANY
    }
  }
  return fields
}

function allOptional(fields: Readonly<Record<string, Field>>): Readonly<Record<string, Field>> {
  return Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, { ...field, isRequired: false }]))
}

/** Returns the place of an error of `limit()` in a limit. Its message begins with the name of an option. */
export function pathOfError(message: string, path: string, given: Readonly<Record<string, unknown>>): string {
  const [, option, part] = /^(\w+)(?:\.(\w+))?: /.exec(message) ?? []
  if (option === undefined || given[option] === undefined) return path
  return part === undefined ? join(path, option) : join(join(path, option), part)
}

/** The most policies of a document, overrides of a policy, values of a list, and so on. */
export const MOST_POLICIES = 10_000
const MOST_OVERRIDES = 100_000
const MOST_VALUES = 10_000
const MOST_LIMITS = 16
const MOST_KEY_PARTS = 8
const MOST_CONDITIONS = 32

/** Names of JavaScript objects. They cannot be attributes. */
const REFUSED = ['constructor', 'prototype', '__proto__']
const ATTRIBUTE = /^[A-Za-z][\w.-]{0,63}$/
const VALUE = /^[^\0]{0,1024}$/

/** A rough pattern for editors. The check parses the address. */
const ADDRESS = '^(?:(?:\\d{1,3}\\.){3}\\d{1,3}(?:/\\d{1,2})?|[\\dA-Fa-f:.]*:[\\dA-Fa-f:.]*(?:/\\d{1,3})?)$'

const policyName: Shape = text(/^[\x20-\x7e]{1,128}$/, '1 to 128 characters of printable ASCII')

const method = text(/^[A-Za-z][A-Za-z-]{0,31}$/, 'a method such as "GET"')
const headerValue = text(VALUE, 'a text of at most 1024 characters')

const path: Shape = where(
  { type: 'string', pattern: PATH_PATTERN.source, maxLength: 1024 },
  'a path such as "/login", "/users/:id" or "/api/*"',
  isPathPattern,
)

const network: Shape = where(
  { type: 'string', pattern: ADDRESS },
  'an address or a network such as "192.0.2.0/24"',
  (value) => typeof value === 'string' && isNetwork(value),
)

/** The largest number whose text is the one in the document. */
const LARGEST_NUMBER = Number.MAX_SAFE_INTEGER

const attributeValue: Shape = where(
  { type: ['string', 'number', 'boolean'], maxLength: 1024, minimum: -LARGEST_NUMBER, maximum: LARGEST_NUMBER },
  `a text of at most 1024 characters, a number from ${-LARGEST_NUMBER} to ${LARGEST_NUMBER}, true or false`,
  (value) =>
    typeof value === 'boolean' ||
    (typeof value === 'number' && Math.abs(value) <= LARGEST_NUMBER) ||
    (typeof value === 'string' && value.length <= 1024),
)

const header: Shape = dictionary('an object from the name of a header to its value', {
  name: HEADER_NAME,
  expectedName: 'the name of a header',
  refused: ['__proto__'],
  most: MOST_CONDITIONS,
  shape: either(
    oneOrMany(headerValue, 'a text, a list of texts, or true', MOST_VALUES),
    oneOf([true]),
    (value) => typeof value === 'boolean',
  ),
})

const attributes: Shape = dictionary('an object from the name of an attribute to its value', {
  name: ATTRIBUTE,
  expectedName: 'the name of an attribute',
  refused: REFUSED,
  most: MOST_CONDITIONS,
  shape: oneOrMany(attributeValue, 'a value or a list of values', MOST_VALUES),
})

const match: Shape = object(
  'an object of conditions',
  {
    method: optional(oneOrMany(method, 'a list of methods', 32), 'A method or a list. GET matches HEAD, too.'),
    path: optional(
      oneOrMany(path, 'a list of paths', MOST_VALUES),
      '/login, /users/:id, or /api/* for /api and everything below it.',
    ),
    header: optional(header, 'From the name of a header to its value, a list of values, or true for any.'),
    ip: optional(oneOrMany(network, 'a list of addresses and networks', MOST_VALUES), 'Addresses and networks.'),
    attributes: optional(
      attributes,
      'From the name of an attribute of the application to its value, or a list of values.',
    ),
  },
  'For an attribute of the application, write attributes: { … }',
)

const keyPattern = text(
  /^(?:ip|everyone|method|path|header:[!#$%&'*+.^_`|~\dA-Za-z-]{1,128}|attribute:(?!(?:constructor|prototype)$)[A-Za-z][\w.-]{0,63})$/,
  '"ip", "everyone", "method", "path", "header:NAME" or "attribute:NAME"',
)

const key: Shape = {
  schema: keyPattern.schema,
  check: (value, path, report) => keyPattern.check(value, path, (at, message) => report(at, message + keyHint(value))),
}

/** Returns a hint for a wrong key, such as the name of an attribute without `attribute:`. */
function keyHint(value: unknown): string {
  if (typeof value !== 'string') return ''
  const colon = value.indexOf(':')
  const kind = colon === -1 ? value : value.slice(0, colon)
  const near = nearest(kind, colon === -1 ? ['ip', 'everyone', 'method', 'path'] : ['header', 'attribute'])
  const hint = hintOf(near === undefined || near === kind ? undefined : near + value.slice(kind.length))
  if (!ATTRIBUTE.test(value) || REFUSED.includes(value)) return hint
  return `${hint === '' ? '.' : hint} For an attribute of the application, write "attribute:${value}"`
}

/** A date and time with a zone. */
const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,3})?(?:Z|[+-]\d\d:\d\d)$/

const until: Shape = where(
  { type: 'string', format: 'date-time', pattern: INSTANT.source },
  'a date and time with its zone, such as "2026-12-01T00:00:00Z"',
  (value) => typeof value === 'string' && !Number.isNaN(instant(value)),
)

const keyText: Shape = where(
  { anyOf: [{ type: 'string', minLength: 1, maxLength: 1024 }, { type: 'integer' }] },
  'a key: a text of 1 to 1024 characters, or a whole number',
  (value) => Number.isSafeInteger(value) || (typeof value === 'string' && value.length > 0 && value.length <= 1024),
)

const override: Shape = object('an override such as { key, limits }', {
  key: required(
    oneOrMany(keyText, 'a key, or the list of its parts', MOST_KEY_PARTS),
    'A key, or a list of its parts where the key of the policy is a list.',
  ),
  limits: required(
    list(overrideLimitShape, 'a list of limits', MOST_LIMITS),
    'Each replaces the limit with the same name or, without a name, at the same place.',
  ),
  until: optional(until, 'When the override ends.'),
})

const lease = object('a lease such as { for, share, from }', {
  for: optional(
    durationUpTo(3_600_000, DURATION_TO_HOUR, 'a duration such as "250ms", at most "1h"'),
    'How long a lease lasts, at most 1h. Default 250ms.',
  ),
  share: optional(part, 'The largest part of the remaining quota that a process leases. Default 0.1.'),
  from: optional(whole(1), 'Decisions within `for` before a key is leased. Default 4.'),
})

const POLICY: Readonly<Record<string, Field>> = {
  name: required(policyName, 'The identity of its state. Unique.'),
  match: optional(match, 'Every part that is given must match. Default: every request.'),
  key: optional(oneOrMany(key, 'a name or a list of names', MOST_KEY_PARTS), 'Who is counted.'),
  limits: optional(list(limitShape, 'a list of limits', MOST_LIMITS), 'How often.'),
  overrides: optional(list(override, 'a list of overrides', MOST_OVERRIDES, 0), 'Other limits for single keys.'),
  allow: optional(flag(), 'True: requests that match pass every policy uncounted.'),
  shadow: optional(flag(), 'True: reports, and never denies.'),
  cost: optional(
    either(
      text(ATTRIBUTE, 'a whole number from 0, or the name of an attribute'),
      whole(0),
      (value) => typeof value === 'number',
    ),
    'What a request costs: a whole number, or the name of an attribute with the cost. Default 1.',
  ),
  onOutage: optional(oneOf(['local', 'open', 'closed']), 'What happens while the store cannot answer.'),
  lease: optional(
    either(flag('true, false, or { for, share, from }'), lease, isObject),
    'Charges a part of the limits ahead and spends it in the process: true, or { for, share, from }.',
  ),
  until: optional(until, 'When the policy ends.'),
}

/** The options that a policy with `allow: true` may not have. */
const NOT_BESIDE_ALLOW = ['key', 'limits', 'overrides', 'cost', 'shadow', 'onOutage', 'lease'] as const

const policyObject = object('a policy such as { name, match, key, limits }', POLICY)

export const policyShape: Shape = {
  schema: {
    ...policyObject.schema,
    anyOf: [
      {
        properties: {
          allow: { const: true },
          ...Object.fromEntries(NOT_BESIDE_ALLOW.map((name) => [name, false])),
        },
        required: ['allow'],
      },
      { properties: { allow: { const: false } }, required: ['key', 'limits'] },
    ],
  },
  check(value, path, report) {
    policyObject.check(value, path, report)
    if (!isObject(value)) return
    if (value['allow'] !== true) return requireFields(value, ['key', 'limits'], path, report)
    for (const name of NOT_BESIDE_ALLOW)
      if (value[name] !== undefined)
        report(join(path, name), `expected nothing together with allow, got ${shown(value[name])}`)
  },
}

/** Returns a field of a policy for `otherwise`. Its schema is a reference, so that the description is in the schema once. */
function sharedField(name: string, isRequired: boolean): Field {
  const { check } = POLICY[name]!.shape
  return { shape: { schema: { $ref: `#/properties/policies/items/properties/${name}` }, check }, isRequired }
}

const REQUIRED_IN_OTHERWISE = ['key', 'limits']
const IN_OTHERWISE = [...REQUIRED_IN_OTHERWISE, 'overrides', 'shadow', 'cost', 'onOutage', 'lease']

export const otherwiseShape: Shape = either(
  object(
    'limits such as { key, limits }, or "allow"',
    Object.fromEntries(IN_OTHERWISE.map((name) => [name, sharedField(name, REQUIRED_IN_OTHERWISE.includes(name))])),
  ),
  oneOf(['allow']),
  (value) => value === 'allow' || (isObject(value) && value['allow'] === true),
)

/** Returns the shape of a document, from the shapes of its policies and of `otherwise`. */
export function documentOf(policy: Shape, otherwise: Shape): Shape {
  return object('a document such as { policies: […] }', {
    $schema: optional(text(/^[^\0]{0,1024}$/, 'a text')),
    policies: required(list(policy, 'a list of policies', MOST_POLICIES, 0)),
    otherwise: optional(otherwise, 'What happens to requests that no policy matches: { key, limits }, or "allow".'),
  })
}

/** Returns the epoch milliseconds of a date and time with a zone, or `NaN`. */
export function instant(value: string): number {
  if (!INSTANT.test(value)) return Number.NaN
  const [year, month, day] = value.slice(0, 10).split('-').map(Number)
  // `Date` reads the 31st of February as the 3rd of March.
  const daysInMonth = new Date(Date.UTC(year!, month!, 0)).getUTCDate()
  return day! > daysInMonth ? Number.NaN : Date.parse(value)
}

/**
 * Returns the JSON Schema of rules documents, for editors. It comes from the same shapes as the checks.
 * @example writeFileSync('rules.schema.json', JSON.stringify(rulesSchema()))
 */
export function rulesSchema(): JsonSchema {
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: 'Rules of sluice',
    ...documentOf(policyShape, otherwiseShape).schema,
  }
}
