import { combine, type Decision } from '../decision.ts'
import { shown, SluiceError } from '../errors.ts'
import type { LimitStatus } from '../store.ts'
import { oneOf, refuse } from '../validate.ts'
import type { FieldWriter } from './field-writer.ts'
import { partitioner } from './partition.ts'
import { draft6 } from './styles/draft-6.ts'
import { draft7 } from './styles/draft-7.ts'
import { github } from './styles/github.ts'
import { legacy } from './styles/legacy.ts'
import { standard, type StandardOptions } from './styles/standard.ts'

/** Which header fields tell the client where it stands; `'standard'` is the newest draft. */
export type HeaderStyle = 'standard' | 'draft-8' | 'draft-7' | 'draft-6' | 'legacy' | 'github'

/** One style, several at once, or none. */
export type Headers = HeaderStyle | readonly HeaderStyle[] | false

/** What the fields tell beyond the limits themselves. */
export interface FieldOptions {
  /** The quota unit, of all limits or by the name of each. Default `'requests'`. Told by the newest draft alone. */
  readonly unit?: string | Readonly<Record<string, string>>
  /** Tell partitions apart, without telling keys. Default: no. Told by the newest draft alone. */
  readonly partitionKey?: { readonly secret: string }
}

interface Style {
  make(options: StandardOptions): FieldWriter
  /** The fields it writes, and in whose syntax: two styles may share a field only in the same one. */
  readonly fields: Readonly<Record<string, string>>
}

const newest: Style = { make: standard, fields: { RateLimit: 'items', 'RateLimit-Policy': 'items' } }
const STYLES: Readonly<Record<HeaderStyle, Style>> = {
  standard: newest,
  'draft-8': newest,
  'draft-7': { make: draft7, fields: { RateLimit: 'dictionary', 'RateLimit-Policy': 'numbers' } },
  'draft-6': { make: draft6, fields: { ...named('RateLimit-', 'seconds'), 'RateLimit-Policy': 'numbers' } },
  legacy: { make: legacy, fields: named('X-RateLimit-', 'seconds') },
  github: {
    make: github,
    fields: { ...named('X-RateLimit-', 'epoch'), 'X-RateLimit-Used': 'epoch', 'X-RateLimit-Resource': 'epoch' },
  },
}
const NAMES = Object.keys(STYLES) as HeaderStyle[]

function named(prefix: string, syntax: string): Readonly<Record<string, string>> {
  return { [`${prefix}Limit`]: syntax, [`${prefix}Remaining`]: syntax, [`${prefix}Reset`]: syntax }
}

/**
 * Makes what writes the fields of a decision, in one style or several. Shadow limits are not told of, nor is anything when the
 * store gave no answer. Throws `INVALID_OPTION` for an unknown style, and for two that write one field in two ways.
 *
 * @example
 * const write = fieldWriter('standard')
 * write(decision, Date.now(), (name, value) => response.setHeader(name, value))
 */
export function fieldWriter(styles: Headers, options: FieldOptions = {}): FieldWriter {
  const chosen = chosenStyles(styles)
  refuseClashes(chosen)
  const told = standardOptions(options)
  const writers = chosen.map((name) => STYLES[name].make(told))
  return function writeFields(decision, now, set) {
    if (decision.degraded === 'open' || decision.degraded === 'closed') return
    for (let i = 0; i < writers.length; i++) writers[i]!(decision, now, set)
  }
}

/**
 * The names of the fields that these styles write, for `Access-Control-Expose-Headers`.
 * @example fieldNames('standard') // ['RateLimit', 'RateLimit-Policy']
 */
export function fieldNames(styles: Headers): readonly string[] {
  return [...new Set(chosenStyles(styles).flatMap((name) => Object.keys(STYLES[name].fields)))]
}

/**
 * What two limiters of one request decided, as one decision, so that their fields merge. Of a limit that both put to one key the
 * tighter word stands.
 */
export function mergeDecisions(earlier: Decision, later: Decision): Decision {
  const before = earlier.limits.filter((status) => !later.limits.some((again) => covers(again, status)))
  const after = later.limits.filter((status) => !before.some((other) => sameBucket(other, status)))
  return combine([...before, ...after], later.degraded ?? earlier.degraded)
}

function covers(later: LimitStatus, earlier: LimitStatus): boolean {
  return sameBucket(later, earlier) && (!later.allowed || later.remaining <= earlier.remaining)
}

function sameBucket(a: LimitStatus, b: LimitStatus): boolean {
  return a.limit === b.limit && a.key === b.key
}

function chosenStyles(styles: Headers): readonly HeaderStyle[] {
  if (styles === false) return []
  const list = typeof styles === 'string' ? [styles] : styles
  if (!Array.isArray(list)) refuse('headers', `false, ${NAMES.map(shown).join(', ')}, or a list of these`, styles)
  return list.map((style: unknown) => oneOf('headers', style, NAMES))
}

function refuseClashes(styles: readonly HeaderStyle[]): void {
  const taken = new Map<string, HeaderStyle>()
  for (const style of styles) {
    for (const [field, syntax] of Object.entries(STYLES[style].fields)) {
      const other = taken.get(field)
      if (other !== undefined && STYLES[other].fields[field] !== syntax) {
        throw new SluiceError(
          'INVALID_OPTION',
          `headers: ${shown(other)} and ${shown(style)} both write ${field}; choose one of them`,
        )
      }
      taken.set(field, style)
    }
  }
}

function standardOptions({ unit, partitionKey }: FieldOptions): StandardOptions {
  const units = typeof unit === 'object' ? Object.values(unit) : unit === undefined ? [] : [unit]
  for (const each of units) {
    if (typeof each !== 'string' || !/^[\x20-\x7e]+$/.test(each)) refuse('unit', 'printable ASCII', each)
  }
  return {
    ...(unit !== undefined && {
      unit: (name: string) => (typeof unit === 'string' ? unit : Object.hasOwn(unit, name) ? unit[name] : undefined),
    }),
    ...(partitionKey !== undefined && { partition: partitioner(partitionKey.secret) }),
  }
}
