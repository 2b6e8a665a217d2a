import { shown, SluiceError } from '../../util/errors.ts'
import { HEADER_NAME, knownOptions, refuse } from '../../util/validate.ts'

/**
 * Your own names for the headers of `'legacy'` and `'github'`. `false` omits a header. A header without a name here keeps its
 * default name.
 * @example { limit: 'X-Quota', remaining: 'X-Quota-Left', reset: false }
 */
export interface HeaderNames {
  /** Default `X-RateLimit-Limit`. */
  readonly limit?: string | false
  /** Default `X-RateLimit-Remaining`. */
  readonly remaining?: string | false
  /** Default `X-RateLimit-Reset`. */
  readonly reset?: string | false
  /** Default `x-ratelimit-used`. Only in `'github'`. */
  readonly used?: string | false
  /** Default `x-ratelimit-resource`. Only in `'github'`. */
  readonly resource?: string | false
}

/** The header of each part of a style, or false when it is omitted. */
export type PartNames<Part extends keyof HeaderNames> = Readonly<Record<Part, string | false>>

/** Headers that a denial also sets, that frame a message, or that have another meaning for every client. */
const RESERVED = new Set(
  [
    'retry-after cache-control content-type access-control-expose-headers',
    'content-length content-encoding transfer-encoding connection trailer upgrade date',
    'set-cookie location vary access-control-allow-origin access-control-allow-credentials',
  ].flatMap((names) => names.split(' ')),
)

/** Returns the given names, and the defaults for the others. Throws `INVALID_OPTION`, `UNKNOWN_OPTION`. */
export function partNames<Part extends keyof HeaderNames>(
  defaults: Readonly<Record<Part, string>>,
  names: HeaderNames,
): PartNames<Part> {
  const parts = Object.keys(defaults) as Part[]
  knownOptions('headerNames', names, parts)
  const chosen = parts.map((part) => [part, partName(part, names[part], defaults[part])] as const)
  const used = chosen.flatMap(([, name]) => (name === false ? [] : [name.toLowerCase()]))
  const repeated = used.find((name, i) => used.indexOf(name) !== i)
  if (repeated !== undefined) {
    throw new SluiceError(
      'INVALID_OPTION',
      `headerNames: ${shown(repeated)} is used twice. Give each header its own name`,
    )
  }
  return Object.fromEntries(chosen) as PartNames<Part>
}

function partName(part: string, given: unknown, byDefault: string): string | false {
  if (given === undefined) return byDefault
  if (given === false) return false
  if (typeof given !== 'string' || !HEADER_NAME.test(given))
    return refuse(`headerNames.${part}`, 'the name of a header, or false', given)
  if (RESERVED.has(given.toLowerCase())) return refuse(`headerNames.${part}`, 'a name that no other header uses', given)
  return given
}
