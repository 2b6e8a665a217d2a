import { shown, SluiceError } from '../../util/errors.ts'
import { HEADER_NAME, knownOptions, refuse } from '../../util/validate.ts'

/**
 * Names of your own for the fields of `'legacy'` and `'github'`, by what they tell; `false` leaves a field out, and what is not
 * named keeps the name it has.
 * @example { limit: 'X-Quota', remaining: 'X-Quota-Left', reset: false }
 */
export interface HeaderNames {
  /** Default `X-RateLimit-Limit`. */
  readonly limit?: string | false
  /** Default `X-RateLimit-Remaining`. */
  readonly remaining?: string | false
  /** Default `X-RateLimit-Reset`. */
  readonly reset?: string | false
  /** Default `x-ratelimit-used`. Of `'github'` alone. */
  readonly used?: string | false
  /** Default `x-ratelimit-resource`. Of `'github'` alone. */
  readonly resource?: string | false
}

/** The field that tells each part. */
export type PartNames<Part extends keyof HeaderNames> = Readonly<Record<Part, string | false>>

/** What a denial sets besides, what frames a message, and what means something else to every client. */
const TAKEN = new Set(
  [
    'retry-after cache-control content-type access-control-expose-headers',
    'content-length content-encoding transfer-encoding connection trailer upgrade date',
    'set-cookie location vary access-control-allow-origin access-control-allow-credentials',
  ].flatMap((names) => names.split(' ')),
)

/** Names as they were asked for, the others as they are. Throws `INVALID_OPTION`, `UNKNOWN_OPTION`. */
export function named<Part extends keyof HeaderNames>(
  defaults: Readonly<Record<Part, string>>,
  names: HeaderNames,
): PartNames<Part> {
  const parts = Object.keys(defaults) as Part[]
  knownOptions('headerNames', names, parts)
  const all = parts.map((part) => [part, nameOf(part, names[part], defaults[part])] as const)
  const told = all.flatMap(([, name]) => (name === false ? [] : [name.toLowerCase()]))
  const twice = told.find((name, i) => told.indexOf(name) !== i)
  if (twice !== undefined) {
    throw new SluiceError(
      'INVALID_OPTION',
      `headerNames: two parts are told in ${shown(twice)}; name each its own field`,
    )
  }
  return Object.fromEntries(all) as PartNames<Part>
}

function nameOf(part: string, given: unknown, unlessGiven: string): string | false {
  if (given === undefined) return unlessGiven
  if (given === false) return false
  if (typeof given !== 'string' || !HEADER_NAME.test(given))
    return refuse(`headerNames.${part}`, 'the name of a header field, or false', given)
  if (TAKEN.has(given.toLowerCase())) return refuse(`headerNames.${part}`, 'a name that no other field has', given)
  return given
}
