import type { Decision } from '../../limiter/decision.ts'
import type { Limit } from '../../engine/limit.ts'
import type { LimitStatus } from '../../stores/store.ts'
import { shown, SluiceError } from '../../util/errors.ts'
import { HEADER_NAME, knownOptions, refuse } from '../../util/validate.ts'

/**
 * The styles of rate-limit headers. `'standard'` is the newest draft.
 *
 * `'openai'` and `'anthropic'` have three headers for each limit, with the name of the limit, as clients of language models read them:
 * - `'openai'`: `x-ratelimit-limit-<name>` (the quota), `x-ratelimit-remaining-<name>`, and `x-ratelimit-reset-<name>`, the time until the
 *   whole quota is available, as a duration of Go such as `6m0s`, `1.5s` or `12ms`. Usual names are `requests` and `tokens`.
 * - `'anthropic'`: `anthropic-ratelimit-<name>-limit`, `-remaining`, and `-reset`, the time at which the whole quota is available, as in
 *   RFC 3339, such as `2026-01-01T00:01:00Z`. Usual names are `requests`, `tokens`, `input-tokens` and `output-tokens`.
 *
 * The name is in lower case, with `-` for each character that the name of a header cannot have. Of several limits with the same name, the
 * most restrictive one is shown. In both styles a denial also has `retry-after-ms`, which is `Retry-After` in whole milliseconds.
 * @see https://platform.openai.com/docs/guides/rate-limits
 * @see https://docs.anthropic.com/en/api/rate-limits
 */
export const HEADER_STYLES = [
  'standard',
  'draft-8',
  'draft-7',
  'draft-6',
  'legacy',
  'github',
  'openai',
  'anthropic',
] as const
/** A set of headers: see the option `headers`. */
export type HeaderStyle = (typeof HEADER_STYLES)[number]

/** One style, several styles, or no headers. */
export type HeaderStyles = HeaderStyle | readonly HeaderStyle[] | false

/** Sets a header of the response and replaces its earlier value. */
export type SetHeader = (name: string, value: string) => void

/**
 * Writes the headers of a decision. `now` is in epoch milliseconds. `formatOf` is given when the limits belong to several request
 * limiters. `remove` removes what an earlier request limiter has written.
 */
export type HeaderWriter = (
  decision: Decision,
  now: number,
  set: SetHeader,
  formatOf?: (status: LimitStatus) => StandardFormat,
  remove?: (name: string) => void,
) => void

/** The values of a limit that are the same in every header. */
export interface HeaderValues {
  readonly limit: Limit
  /** The units that are available at once: the quota, or the capacity if that is larger. */
  readonly quota: number
  /** The seconds in which this number of units comes back. `undefined` for a limit of slots, which are free when requests end. */
  readonly window: number | undefined
  /** The milliseconds between the return of the first unit and the return of the last one, when no unit is left. */
  readonly lag: number
}

/** A limit as an item of `RateLimit-Policy` and of `RateLimit`. */
export interface PolicyItem {
  readonly values: HeaderValues
  /** The item of `RateLimit-Policy`. */
  readonly text: string
  /** The start of the item of `RateLimit`. */
  readonly start: string
  /** Some of the latest items of `RateLimit`. V8 has flattened a text that is used again, which saves 100 ns in `setHeader`. */
  readonly recent: StateText[]
}

/** An item of `RateLimit`: the units that are left, the seconds until the reset if there is one, and the text. */
export interface StateText {
  readonly left: number
  readonly seconds: number | undefined
  readonly text: string
}

/** How the newest draft describes the limits of one request limiter. */
export interface StandardFormat {
  /** `name` is the limit's name in this response. */
  itemOf(limit: Limit, name?: string): PolicyItem
  /** Returns the partition of a key as a byte sequence. Absent when partitions are not shown. */
  readonly partition?: ((key: string) => string) | undefined
}

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
export type PartNames = Readonly<Partial<Record<keyof HeaderNames, string | false>>>

/** Reserved headers: a denial sets them, they frame a message, or they have another meaning for every client. */
const RESERVED = new Set(
  [
    'retry-after retry-after-ms cache-control content-type access-control-expose-headers',
    'content-length content-encoding transfer-encoding connection trailer upgrade date',
    'set-cookie location vary access-control-allow-origin access-control-allow-credentials',
  ].flatMap((names) => names.split(' ')),
)

/** Returns the given names, and the defaults for the others. Throws `INVALID_OPTION`, `UNKNOWN_OPTION`. */
export function partNames(
  defaults: Readonly<Partial<Record<keyof HeaderNames, string>>>,
  names: HeaderNames,
): PartNames {
  const parts = Object.keys(defaults) as (keyof HeaderNames)[]
  names = knownOptions('headerNames', names, parts)
  const chosen = parts.map((part) => [part, partName(part, names[part], defaults[part]!)] as const)
  const used = chosen.flatMap(([, name]) => (name === false ? [] : [name.toLowerCase()]))
  const repeated = used.find((name, i) => used.indexOf(name) !== i)
  if (repeated !== undefined) {
    throw new SluiceError(
      'INVALID_OPTION',
      `headerNames: ${shown(repeated)} is used twice. Give each header its own name`,
    )
  }
  return Object.fromEntries(chosen)
}

function partName(part: string, given: unknown, byDefault: string): string | false {
  if (given === undefined) return byDefault
  if (given === false) return false
  if (typeof given !== 'string' || !HEADER_NAME.test(given))
    return refuse(`headerNames.${part}`, 'the name of a header, or false', given)
  if (RESERVED.has(given.toLowerCase())) return refuse(`headerNames.${part}`, 'a name that no other header uses', given)
  return given
}
