import type { LimitStatus } from '../../stores/store.ts'
import { shown, SluiceError } from '../../util/errors.ts'
import { ownOptions } from '../../util/validate.ts'
import { BINDING_STYLES, type BindingStyle, bindingWriter } from './binding.ts'
import { chosenNames, chosenStyles, type HeaderOptions } from './options.ts'
import { ANTHROPIC, goDuration, type LimitHeaderNames, OPENAI, perLimit, rfc3339 } from './per-limit.ts'
import { RETRY_AFTER_MS } from './retry-after.ts'
import { standard, standardFormat } from './standard.ts'
import {
  type HeaderNames,
  type HeaderStyle,
  type HeaderWriter,
  type PartNames,
  partNames,
  type StandardFormat,
} from './types.ts'

interface Style {
  writer(format: StandardFormat, names: HeaderNames): HeaderWriter
  /** Returns the syntax of each header by its name. Two styles can share a header only if its syntax is the same. */
  syntaxes(names: HeaderNames): Readonly<Record<string, string>>
  /** True if the writer reads the time. */
  readonly needsTime?: true
  /** Set for the styles of language models: their header names contain the names of limits, and a denial also has `retry-after-ms`. */
  readonly perLimit?: LimitHeaderNames
}

const NEWEST: Style = { writer: standard, syntaxes: () => ({ RateLimit: 'items', 'RateLimit-Policy': 'items' }) }

/** All styles. A new style needs a writer and an entry here. */
const STYLES: Readonly<Record<HeaderStyle, Style>> = {
  standard: NEWEST,
  'draft-8': NEWEST,
  'draft-7': bindingStyle(BINDING_STYLES['draft-7']),
  'draft-6': bindingStyle(BINDING_STYLES['draft-6']),
  legacy: bindingStyle(BINDING_STYLES.legacy),
  github: bindingStyle(BINDING_STYLES.github),
  openai: { writer: () => perLimit(OPENAI, goDuration), syntaxes: () => ({}), perLimit: OPENAI },
  anthropic: {
    writer: () => perLimit(ANTHROPIC, (ms, now) => rfc3339(now + ms)),
    syntaxes: () => ({}),
    needsTime: true,
    perLimit: ANTHROPIC,
  },
}

/** Returns a style that describes the binding limit. Styles without policies belong to no standard, so their headers can be renamed. */
function bindingStyle(style: BindingStyle): Style {
  const { names: defaults, reset, dictionary, hasPolicies } = style
  const namesOf = (names: HeaderNames): PartNames => partNames(defaults, hasPolicies ? {} : names)
  const policies = hasPolicies && { 'RateLimit-Policy': 'numbers' }
  return {
    writer: (_format, names) => bindingWriter(style, namesOf(names)),
    syntaxes: (names) => ({
      ...(dictionary === undefined ? partSyntaxes(namesOf(names), reset) : { [dictionary]: 'dictionary' }),
      ...policies,
    }),
    ...(reset === 'epoch' && { needsTime: true }),
  }
}

/** Returns the syntax of each part. A part has the same text in all styles with the same unit of time. */
function partSyntaxes(names: Readonly<Record<string, string | false>>, unit: string): Readonly<Record<string, string>> {
  const written = Object.entries(names).filter((entry): entry is [string, string] => entry[1] !== false)
  return Object.fromEntries(written.map(([part, name]) => [name, `${part} in ${unit}`]))
}

/** The checked header options of a request limiter. */
export interface HeaderConfig {
  readonly styles: readonly HeaderStyle[]
  readonly names: HeaderNames
  readonly format: StandardFormat
  /** True if the headers depend on the time of day. Reading it takes 0.2 µs. */
  readonly needsTime: boolean
  readonly write: HeaderWriter
}

/** The configuration of request limiters without any header option. */
export const DEFAULT_CONFIG: HeaderConfig = createConfig(['standard'], {}, standardFormat({}))

function createConfig(styles: readonly HeaderStyle[], names: HeaderNames, format: StandardFormat): HeaderConfig {
  const needsTime = styles.some((style) => STYLES[style].needsTime === true)
  return { styles, names, format, needsTime, write: headerWriter({ styles, names, format }) }
}

/** Checks header options. Throws `INVALID_OPTION`, also for two styles that write the same header in different ways. */
export function headerConfig(given: HeaderOptions): HeaderConfig {
  const options = ownOptions(given)
  const styles = chosenStyles(options)
  const names = chosenNames(options, styles)
  const format = standardFormat(options)
  const clash = clashBetween({ styles, names })
  if (clash !== undefined) throw new SluiceError('INVALID_OPTION', `headers: ${clash}; choose one of them`)
  const isDefault = styles.join() === 'standard' && (options.unit ?? options.partitionKey) === undefined
  return isDefault ? DEFAULT_CONFIG : createConfig(styles, names, format)
}

/**
 * Returns a function that writes the headers of a decision. It writes nothing about shadow limits, and nothing when the store
 * did not answer.
 * @example
 * const write = headerWriter(headerConfig({ headers: 'legacy' }))
 * write(decision, Date.now(), (name, value) => response.setHeader(name, value))
 */
export function headerWriter({
  styles,
  names,
  format,
}: Pick<HeaderConfig, 'styles' | 'names' | 'format'>): HeaderWriter {
  const writers = styles.map((style) => STYLES[style].writer(format, names))
  if (writers.length === 1) return writers[0]!
  return function writeHeaders(decision, now, set, formatOf, remove) {
    for (let i = 0; i < writers.length; i++) writers[i]!(decision, now, set, formatOf, remove)
  }
}

/** Returns true if a denial has `retry-after-ms` in addition to `Retry-After`. */
export function hasMilliseconds({ styles }: HeaderConfig): boolean {
  return styles.some((style) => STYLES[style].perLimit !== undefined)
}

/**
 * Returns the names of the headers that are written for limits. `Retry-After` and `retry-after-ms` are not among them.
 * @example writtenHeaders(headerConfig({}), decision.limits) // ['RateLimit', 'RateLimit-Policy']
 */
export function writtenHeaders(config: HeaderConfig, limits: readonly LimitStatus[]): readonly string[] {
  const fixed = writtenBy(config).map(({ header }) => header)
  const shown = limits.filter(({ limit }) => limit.shadow !== true)
  const ofLimits = perLimitStyles(config).flatMap((style) =>
    shown.flatMap(({ limit }) => Object.values(STYLES[style].perLimit!.namesOf(limit)) as (string | undefined)[]),
  )
  return [...new Set([...fixed, ...ofLimits.filter((name) => name !== undefined)])]
}

/** Returns the names of the headers that scripts may read, for `Access-Control-Expose-Headers`. */
export function exposedHeaders(config: HeaderConfig, limits: readonly LimitStatus[]): readonly string[] {
  return ['Retry-After', ...(hasMilliseconds(config) ? [RETRY_AFTER_MS] : []), ...writtenHeaders(config, limits)]
}

function perLimitStyles({ styles }: Pick<HeaderConfig, 'styles'>): readonly HeaderStyle[] {
  return styles.filter((style) => STYLES[style].perLimit !== undefined)
}

/** A header that a style writes. */
interface WrittenHeader {
  readonly style: HeaderStyle
  readonly header: string
  readonly syntax: string
}

function writtenBy({ styles, names }: Pick<HeaderConfig, 'styles' | 'names'>): readonly WrittenHeader[] {
  return styles.flatMap((style) =>
    Object.entries(STYLES[style].syntaxes(names)).map(([header, syntax]) => ({ style, header, syntax })),
  )
}

/** Returns a text about two styles that write the same header in different ways; `undefined` if there are none. */
export function clashBetween(...configs: readonly Pick<HeaderConfig, 'styles' | 'names'>[]): string | undefined {
  const seen = new Map<string, WrittenHeader>()
  // The name of a limit may make any header of their pattern.
  const forEachLimit = configs.flatMap(perLimitStyles)
  for (const each of configs.flatMap(writtenBy)) {
    const name = each.header.toLowerCase()
    const same = seen.get(name) ?? each
    const matching = forEachLimit.find((style) => STYLES[style].perLimit!.pattern.test(name))
    const other = same.syntax === each.syntax ? matching : same.style
    if (other !== undefined) return `${shown(other)} and ${shown(each.style)} both write ${each.header}`
    seen.set(name, each)
  }
  return undefined
}
