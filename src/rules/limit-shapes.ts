import { knownAlgorithms } from '../limits/limit.ts'
import { nearest } from '../util/validate.ts'
import { shown } from '../util/errors.ts'
import { parseDuration } from '../util/duration.ts'
import {
  either,
  type Field,
  flag,
  isObject,
  join,
  object,
  oneOf,
  type Report,
  type Shape,
  text,
  where,
  whole,
} from './shape.ts'

type Algorithm = ReturnType<typeof knownAlgorithms>[number]
type OptionField = NonNullable<Algorithm['optionFields']>[string]

/** As many digits as a safe number of milliseconds has. */
const DURATION = '^(?=\\d*[1-9])(?:\\d{1,15}ms|\\d{1,12}s|\\d{1,10}m|\\d{1,9}h|\\d{1,8}d|\\d{1,7}w)$'

const duration: Shape = where(
  {
    anyOf: [
      { type: 'integer', minimum: 1, maximum: Number.MAX_SAFE_INTEGER },
      { type: 'string', pattern: DURATION },
    ],
  },
  'a duration such as "1m"',
  (value) => {
    const ms = typeof value === 'string' ? new RegExp(DURATION).test(value) && parseDuration(value) : value
    return Number.isSafeInteger(ms) && (ms as number) >= 1
  },
)

/** Of an algorithm with a calendar. */
const WINDOW_OR_UNIT: Field = {
  shape: either(duration, oneOf(['1mo', '1y']), (value) => value === '1mo' || value === '1y'),
  required: true,
  description: 'Such as 10s, 1m, 1h, 1d, 1w, or milliseconds. With anchor "calendar": 1d, 1w, 1mo or 1y.',
}

const factor: Shape = where(
  { type: 'number', minimum: 1, maximum: 1000 },
  'a number from 1 to 1000',
  (value) => typeof value === 'number' && value >= 1 && value <= 1000,
)

/** A duration, or a block that grows. */
const block: Shape = either(
  duration,
  object('a block such as { after, for, factor, upTo }', {
    after: { shape: whole(1), description: 'Denials before each lock-out. Default 1.' },
    for: { shape: duration, required: true, description: 'The first lock-out.' },
    factor: { shape: factor, description: 'How many times longer each further lock-out is. Default 1.' },
    upTo: { shape: duration, description: 'The longest lock-out. Default: 1d, or `for` with factor 1.' },
  }),
  isObject,
)

/** The options that every limit has, except for its algorithm. */
const COMMON: Readonly<Record<string, Field>> = {
  quota: { shape: whole(0), required: true, description: 'Units per window. A quota of 0 admits nothing.' },
  window: { shape: duration, required: true, description: 'Such as 10s, 1m, 1h, 1d, 1w, or milliseconds.' },
  name: {
    shape: text(/^[\x20-\x7e]{1,256}$/, '1 to 256 characters of printable ASCII'),
    description: 'The identity of its state. Default: the name of the policy and, from the second limit on, its place.',
  },
  strict: { shape: flag(), description: 'True: denied requests are charged, too.' },
  block: {
    shape: block,
    description: 'Locks the key out for this long after a denial, or after several, and longer each time.',
  },
  shadow: { shape: flag(), description: 'True: reports, and never denies.' },
}

/** Returns the shape of an option of one algorithm. */
function fieldOf({ kind, least = 1, choices = [], pattern = /^/, meaning, fallback }: OptionField): Field {
  const shapes: Readonly<Record<OptionField['kind'], () => Shape>> = {
    count: () => whole(least),
    duration: () => (least === 0 ? either(duration, oneOf([0]), (value) => value === 0) : duration),
    flag,
    choice: () => oneOf(choices),
    text: () => text(pattern, `a text such as ${JSON.stringify(fallback)}`),
  }
  return { shape: shapes[kind](), description: `${meaning} Default: ${fallback}.` }
}

/** An option that is checked when the limit is made. */
const ANY: Field = { shape: where({}, '', () => true) }

export const DEFAULT_ALGORITHM = 'gcra'

/** The algorithms that come with the package, for the schema. */
const builtIn = knownAlgorithms()

const algorithmNames: Field = {
  shape: oneOf(builtIn.map(({ name }) => name)),
  description: 'Default: gcra.',
}

/** A limit of a policy: the options of `limit()`. */
export const limitShape: Shape = {
  schema: {
    anyOf: builtIn.map((each) => {
      const { name } = each
      const algorithm = { shape: oneOf([name]), required: name !== DEFAULT_ALGORITHM }
      return object('', { algorithm, ...COMMON, ...fieldsOf([each]) }).schema
    }),
  },
  check: (value, path, report) => checkLimit(value, path, report, true),
}

/** A limit of an override: what it does not give is taken from the limit that it replaces. */
export const overrideLimitShape: Shape = {
  schema: object('', { algorithm: algorithmNames, ...optional({ ...COMMON, ...fieldsOf(builtIn) }) }).schema,
  check: (value, path, report) => checkLimit(value, path, report, false),
}

/** Checks the options that are given. An algorithm of the application's own checks its options when the limit is made. */
function checkLimit(value: unknown, path: string, report: Report, isWhole: boolean): void {
  if (!isObject(value)) return report(path, `expected a limit such as { quota, window }, got ${shown(value)}`)
  const { algorithm = isWhole ? DEFAULT_ALGORITHM : undefined } = value
  const known = knownAlgorithms()
  const found = known.find(({ name }) => name === algorithm)
  if (algorithm !== undefined && found === undefined) return report(`${path}.algorithm`, unknownAlgorithm(algorithm))
  shapeFor(found === undefined ? known : [found], isWhole).check(value, path, report)
}

/** By the names of the algorithms that the limit may have. */
const shapesByAlgorithms = new Map<string, Shape>()

function shapeFor(algorithms: readonly Algorithm[], isWhole: boolean): Shape {
  const id = `${isWhole} ${algorithms.map(({ name }) => name).join()}`
  const known = shapesByAlgorithms.get(id)
  if (known !== undefined) return known
  const fields = { ...COMMON, ...fieldsOf(algorithms) }
  const made = object('a limit', { algorithm: ANY, ...(isWhole ? fields : optional(fields)) })
  shapesByAlgorithms.set(id, made)
  return made
}

function unknownAlgorithm(given: unknown): string {
  const names = knownAlgorithms().map(({ name }) => name)
  const near = typeof given === 'string' ? nearest(given, names) : undefined
  const hint = near === undefined ? '' : `. Did you mean ${shown(near)}?`
  return `expected one of ${names.join(', ')}, got ${shown(given)}${hint}`
}

/** Returns the fields of the options that these algorithms have, and of their window. An option that one of them does not describe takes anything. */
function fieldsOf(algorithms: readonly Algorithm[]): Readonly<Record<string, Field>> {
  const fields: Record<string, Field> = {}
  for (const { options, optionFields } of algorithms) {
    for (const name of options) {
      const described = optionFields?.[name]
      const own = described === undefined ? ANY : fieldOf(described)
      const other = fields[name] ?? own
      fields[name] = JSON.stringify(other.shape.schema) === JSON.stringify(own.shape.schema) ? other : ANY
    }
  }
  return algorithms.some(({ windowUnit }) => windowUnit !== undefined) ? { ...fields, window: WINDOW_OR_UNIT } : fields
}

function optional(fields: Readonly<Record<string, Field>>): Readonly<Record<string, Field>> {
  return Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, { ...field, required: false }]))
}

/** Returns where in a limit an error of `limit()` is: it begins with the name of an option. */
export function pathOfError(message: string, path: string, given: Readonly<Record<string, unknown>>): string {
  const [, option, part] = /^(\w+)(?:\.(\w+))?: /.exec(message) ?? []
  if (option === undefined || given[option] === undefined) return path
  return part === undefined ? join(path, option) : join(join(path, option), part)
}
