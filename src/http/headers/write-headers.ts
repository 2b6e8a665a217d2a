import type { Decision } from '../../limiter/decision.ts'
import { shown, SluiceError } from '../../util/errors.ts'
import { draft6, DRAFT_6_NAMES, draft7 } from './draft-6-7.ts'
import { type HeaderNames, partNames } from './names.ts'
import { chosenNames, chosenStyles, type HeaderOptions, standardOptions } from './options.ts'
import { standard, standardFormat } from './standard.ts'
import type { HeaderStyle, HeaderWriter, StandardFormat } from './types.ts'
import { github, GITHUB_NAMES, legacy, LEGACY_NAMES } from './x-ratelimit.ts'

/** A style of headers. */
interface Style {
  writer(format: StandardFormat, names: HeaderNames): HeaderWriter
  /** Returns the syntax of each header by its name. Two styles can share a header only if its syntax is the same. */
  syntaxes(names: HeaderNames): Readonly<Record<string, string>>
}

const NEWEST: Style = { writer: standard, syntaxes: () => ({ RateLimit: 'items', 'RateLimit-Policy': 'items' }) }

/** All styles. A new style is a file with its writer, and an entry here. */
const STYLES: Readonly<Record<HeaderStyle, Style>> = {
  standard: NEWEST,
  'draft-8': NEWEST,
  'draft-7': { writer: draft7, syntaxes: () => ({ RateLimit: 'dictionary', 'RateLimit-Policy': 'numbers' }) },
  'draft-6': {
    writer: draft6,
    syntaxes: () => ({ ...partSyntaxes(DRAFT_6_NAMES, 'seconds'), 'RateLimit-Policy': 'numbers' }),
  },
  legacy: {
    writer: (_format, names) => legacy(partNames(LEGACY_NAMES, names)),
    syntaxes: (names) => partSyntaxes(partNames(LEGACY_NAMES, names), 'seconds'),
  },
  github: {
    writer: (_format, names) => github(partNames(GITHUB_NAMES, names)),
    syntaxes: (names) => partSyntaxes(partNames(GITHUB_NAMES, names), 'epoch'),
  },
}

/** The same part is the same text in all styles with the same unit of time. */
function partSyntaxes(names: Readonly<Record<string, string | false>>, unit: string): Readonly<Record<string, string>> {
  const written = Object.entries(names).filter((entry): entry is [string, string] => entry[1] !== false)
  return Object.fromEntries(written.map(([part, name]) => [name, `${part} in ${unit}`]))
}

/** The checked header options of a request limiter. */
export interface HeaderConfig {
  readonly styles: readonly HeaderStyle[]
  readonly names: HeaderNames
  readonly format: StandardFormat
  readonly write: HeaderWriter
}

/** The configuration of request limiters without any header option. */
export const DEFAULT_CONFIG: HeaderConfig = createConfig(['standard'], {}, standardFormat())

function createConfig(styles: readonly HeaderStyle[], names: HeaderNames, format: StandardFormat): HeaderConfig {
  return { styles, names, format, write: headerWriter({ styles, names, format }) }
}

/** Checks header options. Throws `INVALID_OPTION`, also for two styles that write the same header in different ways. */
export function headerConfig(options: HeaderOptions): HeaderConfig {
  const styles = chosenStyles(options)
  const names = chosenNames(options, styles)
  const format = standardOptions(options)
  const clash = clashIn(writtenBy({ styles, names }))
  if (clash !== undefined) throw new SluiceError('INVALID_OPTION', `headers: ${clash}; choose one of them`)
  const isDefault = styles.join() === 'standard' && format.unit === undefined && format.partition === undefined
  return isDefault ? DEFAULT_CONFIG : createConfig(styles, names, standardFormat(format))
}

/**
 * Returns a function that writes the headers of a decision. It writes nothing about shadow limits, and nothing when the store
 * did not answer.
 * @example
 * const write = headerWriter(headerConfig({ headers: 'legacy' }))
 * write(decision, Date.now(), (name, value) => response.setHeader(name, value))
 */
export function headerWriter({ styles, names, format }: Omit<HeaderConfig, 'write'>): HeaderWriter {
  const writers = styles.map((style) => STYLES[style].writer(format, names))
  return function writeHeaders(decision, now, set, formatOf) {
    if (!isAnswered(decision)) return
    for (let i = 0; i < writers.length; i++) writers[i]!(decision, now, set, formatOf)
  }
}

/** Returns false when the store did not answer, so that nothing is known about the limits. */
export function isAnswered({ degraded }: Decision): boolean {
  return degraded !== 'open' && degraded !== 'closed'
}

/**
 * Returns the names of the headers that are written, for `Access-Control-Expose-Headers`.
 * @example writtenHeaders(headerConfig({})) // ['RateLimit', 'RateLimit-Policy']
 */
export function writtenHeaders(config: HeaderConfig): readonly string[] {
  return [...new Set(writtenBy(config).map(({ header }) => header))]
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

/** Returns a description of two styles that write the same header in different ways, if there are such. */
function clashIn(written: readonly WrittenHeader[]): string | undefined {
  const seen = new Map<string, WrittenHeader>()
  for (const each of written) {
    const name = each.header.toLowerCase()
    const other = seen.get(name) ?? each
    if (other.syntax !== each.syntax) return `${shown(other.style)} and ${shown(each.style)} both write ${each.header}`
    seen.set(name, each)
  }
  return undefined
}

/** Returns a description of two request limiters' styles that write the same header in different ways, if there are such. */
export function clashBetween(...configs: readonly HeaderConfig[]): string | undefined {
  return clashIn(configs.flatMap(writtenBy))
}
