import { combine, type Decision } from '../../limiter/decision.ts'
import { shown, SluiceError } from '../../util/errors.ts'
import type { LimitStatus } from '../../stores/store.ts'
import { oneOf, refuse } from '../../util/validate.ts'
import type { FieldWriter } from './types.ts'
import type { HeaderNames } from './names.ts'
import { type HeaderStyle, NAMEABLE, STYLES } from './styles.ts'
import { type FieldOptions, standardOptions } from './options.ts'
import type { StandardOptions } from './standard.ts'

const NAMES = Object.keys(STYLES) as HeaderStyle[]

/** One style, several at once, or none. */
export type Headers = HeaderStyle | readonly HeaderStyle[] | false

/**
 * Makes what writes the fields of a decision, in one style or several. Shadow limits are not told of, nor is anything when the
 * store gave no answer. Throws `INVALID_OPTION` for an unknown style, and for two that write one field in two ways.
 *
 * @param words what to tell of each limit beside it, where the decision is that of several gates; unless given, what `options` say
 * @example
 * const write = fieldWriter('standard')
 * write(decision, Date.now(), (name, value) => response.setHeader(name, value))
 */
export function fieldWriter(
  styles: Headers,
  options: FieldOptions = {},
  words: StandardOptions | ((status: LimitStatus) => StandardOptions) = standardOptions(options),
): FieldWriter {
  const chosen = chosenStyles(styles)
  const names = chosenNames(chosen, options)
  const clash = clashIn(fieldsOf(chosen, names))
  if (clash !== undefined) throw new SluiceError('INVALID_OPTION', `headers: ${clash}; choose one of them`)
  const writers = chosen.map((name) => STYLES[name].make(words, names))
  return function writeFields(decision, now, set) {
    if (!isAnswered(decision)) return
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
 * tighter word stands, and of one whose store gave no answer nothing is told.
 */
export function mergeDecisions(earlier: Decision, later: Decision): Decision {
  if (!isAnswered(later)) return earlier
  if (!isAnswered(earlier)) return later
  const before = earlier.limits.filter((status) => !later.limits.some((again) => covers(again, status)))
  const after = later.limits.filter((status) => !before.some((other) => sameBucket(other, status)))
  return combine([...before, ...after], later.degraded ?? earlier.degraded)
}

function isAnswered({ degraded }: Decision): boolean {
  return degraded !== 'open' && degraded !== 'closed'
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
  if (typeof headerNames !== 'object' || headerNames === null || Array.isArray(headerNames))
    refuse('headerNames', 'names such as { limit, remaining, reset }', headerNames)
  if (Object.keys(headerNames).length > 0 && !styles.some((style) => NAMEABLE.includes(style)))
    refuse('headerNames', `nothing unless headers are ${NAMEABLE.map(shown).join(' or ')}`, headerNames)
  return headerNames
}

/** A field that a style writes, and in whose syntax. */
interface Written {
  readonly style: HeaderStyle
  readonly field: string
  readonly syntax: string
}

function fieldsOf(styles: readonly HeaderStyle[], names: HeaderNames): readonly Written[] {
  return styles.flatMap((style) =>
    Object.entries(STYLES[style].fields(names)).map(([field, syntax]) => ({ style, field, syntax })),
  )
}

/** What two styles tell in one field in two ways, in words. */
function clashIn(written: readonly Written[]): string | undefined {
  const taken = new Map<string, Written>()
  for (const each of written) {
    const other = taken.get(each.field.toLowerCase()) ?? each
    if (other.syntax !== each.syntax) return `${shown(other.style)} and ${shown(each.style)} both write ${each.field}`
    taken.set(each.field.toLowerCase(), each)
  }
  return undefined
}

/** What two limiters of one request tell in one field in two ways, in words. */
export function clashBetween(...gates: readonly { headers: Headers; options: FieldOptions }[]): string | undefined {
  return clashIn(
    gates.flatMap(({ headers, options }) => {
      const styles = chosenStyles(headers)
      return fieldsOf(styles, chosenNames(styles, options))
    }),
  )
}
