import { combine, type Decision } from '../decision.ts'
import { shown, SluiceError } from '../errors.ts'
import type { LimitStatus } from '../store.ts'
import { oneOf, refuse } from '../validate.ts'
import type { FieldWriter } from './field-writer.ts'
import type { HeaderNames } from './header-names.ts'
import { type HeaderStyle, NAMEABLE, STYLES } from './header-styles.ts'
import { partitioner } from './partition.ts'
import type { StandardOptions } from './styles/standard.ts'

const NAMES = Object.keys(STYLES) as HeaderStyle[]

/** One style, several at once, or none. */
export type Headers = HeaderStyle | readonly HeaderStyle[] | false

/** What the fields tell beyond the limits themselves, and under which names. */
export interface FieldOptions {
  /**
   * Names of your own for the fields of `'legacy'` and `'github'`, such as those that clients of yours read already.
   * @example rateLimit({ keyer, limits, headers: 'legacy', headerNames: { limit: 'X-Quota', remaining: 'X-Quota-Left' } })
   */
  readonly headerNames?: HeaderNames
  /** The quota unit, of all limits or by the name of each. Default `'requests'`. Told by the newest draft alone. */
  readonly unit?: string | Readonly<Record<string, string>>
  /** Tell partitions apart, without telling keys. Default: no. Told by the newest draft alone. */
  readonly partitionKey?: { readonly secret: string }
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
  const names = chosenNames(chosen, options)
  refuseClashes(chosen, names)
  const told = standardOptions(options)
  const writers = chosen.map((name) => STYLES[name].make(told, names))
  return function writeFields(decision, now, set) {
    if (decision.degraded === 'open' || decision.degraded === 'closed') return
    for (let i = 0; i < writers.length; i++) writers[i]!(decision, now, set)
  }
}

/**
 * The names of the fields that these styles write, for `Access-Control-Expose-Headers`.
 * @example fieldNames('standard') // ['RateLimit', 'RateLimit-Policy']
 */
export function fieldNames(styles: Headers, options: FieldOptions = {}): readonly string[] {
  const chosen = chosenStyles(styles)
  const names = chosenNames(chosen, options)
  return [...new Set(chosen.flatMap((name) => Object.keys(STYLES[name].fields(names))))]
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

function chosenNames(styles: readonly HeaderStyle[], { headerNames = {} }: FieldOptions): HeaderNames {
  if (typeof headerNames !== 'object' || headerNames === null)
    refuse('headerNames', 'names such as { limit, remaining, reset }', headerNames)
  if (Object.keys(headerNames).length > 0 && !styles.some((style) => NAMEABLE.includes(style)))
    refuse('headerNames', `nothing unless headers are ${NAMEABLE.map(shown).join(' or ')}`, headerNames)
  return headerNames
}

function refuseClashes(styles: readonly HeaderStyle[], names: HeaderNames): void {
  const taken = new Map<string, readonly [style: HeaderStyle, syntax: string]>()
  for (const style of styles) {
    for (const [field, syntax] of Object.entries(STYLES[style].fields(names))) {
      const [other, theirs] = taken.get(field.toLowerCase()) ?? [style, syntax]
      if (theirs !== syntax) {
        throw new SluiceError(
          'INVALID_OPTION',
          `headers: ${shown(other)} and ${shown(style)} both write ${field}; choose one of them`,
        )
      }
      taken.set(field.toLowerCase(), [style, syntax])
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
