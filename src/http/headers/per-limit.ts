import { findCompiled, type Limit } from '../../engine/limit.ts'
import type { LimitStatus } from '../../stores/store.ts'
import { epochSeconds, wholeMilliseconds } from '../../util/seconds.ts'
import { isUsedUpSooner } from './binding.ts'
import { isAnswered, unitsLeft } from './standard.ts'
import type { HeaderValues, HeaderWriter } from './types.ts'
import { headerValuesOf, onceForEach } from './values.ts'

/** The names of the headers of one limit, in a style with headers for each limit. `reset` is absent for a limit of slots. */
interface LimitHeaders {
  readonly limit: string
  readonly remaining: string
  readonly reset: string | undefined
}

/** The names of the headers in a style with headers for each limit. */
export interface LimitHeaderNames {
  namesOf(limit: Limit): LimitHeaders
  /** Matches all names that the style can write. */
  readonly pattern: RegExp
}

function limitHeaderNames(
  pattern: RegExp,
  nameOf: (part: keyof LimitHeaders, limit: string) => string,
): LimitHeaderNames {
  const namesOf = onceForEach((limit) => {
    const token = headerToken(limit.name)
    // The time at which a slot is released is unknown.
    const reset = findCompiled(limit)?.slots === true ? undefined : nameOf('reset', token)
    return { limit: nameOf('limit', token), remaining: nameOf('remaining', token), reset }
  })
  return { pattern, namesOf }
}

/**
 * Returns the name of a limit as a part of a header's name: in lower case, with `-` for each character that is not allowed there.
 * @example headerToken('Tokens per day') // 'tokens-per-day'
 */
function headerToken(name: string): string {
  return name.toLowerCase().replace(/[^!#$%&'*+.^_`|~\da-z-]/g, '-')
}

export const OPENAI: LimitHeaderNames = limitHeaderNames(
  /^x-ratelimit-(?:limit|remaining|reset)-./,
  (part, name) => `x-ratelimit-${part}-${name}`,
)

export const ANTHROPIC: LimitHeaderNames = limitHeaderNames(
  /^anthropic-ratelimit-.+-(?:limit|remaining|reset)$/,
  (part, name) => `anthropic-ratelimit-${name}-${part}`,
)

/**
 * Creates a writer of three headers for each limit: the quota, the units that are left, and when the whole quota is available. If several
 * limits have the same headers, it writes the most restrictive one.
 * @param resetText writes milliseconds from now
 */
export function perLimit({ namesOf }: LimitHeaderNames, resetText: (ms: number, now: number) => string): HeaderWriter {
  return function writePerLimit(decision, now, set) {
    if (!isAnswered(decision)) return
    const { limits } = decision
    const kept = new Map<string, LimitStatus>()
    for (const status of limits) {
      if (status.limit.shadow === true) continue
      const { limit } = namesOf(status.limit)
      const other = kept.get(limit)
      if (other === undefined || isUsedUpSooner(status, other)) kept.set(limit, status)
    }
    for (const status of kept.values()) {
      const names = namesOf(status.limit)
      const values = headerValuesOf(status.limit)
      const left = unitsLeft(status, values)
      set(names.limit, '' + values.quota)
      set(names.remaining, '' + left)
      if (names.reset !== undefined) set(names.reset, resetText(wholeQuotaIn(status, values, left), now))
    }
  }
}

/**
 * Returns the milliseconds until the whole quota is available. It is at least the wait of a limit that denies, and at least 1 while no unit is left. For
 * a limit that admits nothing, it is the window.
 */
function wholeQuotaIn({ retryAfter: wait, resetAfter }: LimitStatus, values: HeaderValues, left: number): number {
  if (values.quota === 0) return (values.window ?? 0) * 1000
  const ms = Math.max(resetAfter, wait === Infinity ? 0 : wait)
  const least = left === 0 ? 1 : 0
  return ms > least ? ms : least
}

/** The longest duration of Go in whole seconds, in milliseconds: 292 years. */
const LONGEST_GO_DURATION = 9_223_372_036_000

/**
 * Returns a duration in the format of Go, in whole milliseconds, rounded up. OpenAI's API uses this format.
 * @example goDuration(360_000) // '6m0s'
 * @example goDuration(12) // '12ms'
 */
export function goDuration(ms: number): string {
  const whole = Math.min(wholeMilliseconds(ms), LONGEST_GO_DURATION)
  if (whole > 0 && whole < 1000) return `${whole}ms`
  const [hours, minutes] = [Math.floor(whole / 3_600_000), Math.floor(whole / 60_000) % 60]
  const seconds = `${(whole % 60_000) / 1000}s`
  if (hours > 0) return `${hours}h${minutes}m${seconds}`
  return minutes > 0 ? `${minutes}m${seconds}` : seconds
}

/** The last second of year 9999. Years of RFC 3339 have four digits. */
const LAST_SECOND = 253_402_300_799

/** Returns a time as in RFC 3339, in whole seconds of UTC, rounded up. */
export function rfc3339(ms: number): string {
  const seconds = Math.max(0, Math.min(epochSeconds(ms), LAST_SECOND))
  return new Date(seconds * 1000).toISOString().replace('.000Z', 'Z')
}
