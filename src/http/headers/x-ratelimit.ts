import { distinctNames } from './distinct-names.ts'
import type { PartNames } from './names.ts'
import type { HeaderWriter } from './types.ts'
import { headerValuesOf, MAX_HEADER_INTEGER, resetIn, resetSeconds, unitsLeft } from './values.ts'

export const LEGACY_NAMES = {
  limit: 'X-RateLimit-Limit',
  remaining: 'X-RateLimit-Remaining',
  reset: 'X-RateLimit-Reset',
} as const

export const GITHUB_NAMES = {
  limit: 'x-ratelimit-limit',
  remaining: 'x-ratelimit-remaining',
  used: 'x-ratelimit-used',
  reset: 'x-ratelimit-reset',
  resource: 'x-ratelimit-resource',
} as const

/** Writes `X-RateLimit-Limit`, `-Remaining` and `-Reset` of the binding limit. The reset is in seconds from now. */
export function legacy(names: PartNames<keyof typeof LEGACY_NAMES>): HeaderWriter {
  return function writeLegacy({ binding }, _now, set) {
    if (binding === undefined) return
    const values = headerValuesOf(binding.limit)
    const left = unitsLeft(binding, values)
    if (names.limit !== false) set(names.limit, '' + values.quota)
    if (names.remaining !== false) set(names.remaining, '' + left)
    if (names.reset !== false) set(names.reset, '' + resetSeconds(binding, values, left))
  }
}

/** Writes the headers of GitHub's API for the binding limit. The reset is in epoch seconds. */
export function github(names: PartNames<keyof typeof GITHUB_NAMES>): HeaderWriter {
  return function writeGithub({ binding, limits }, now, set) {
    if (binding === undefined) return
    const values = headerValuesOf(binding.limit)
    const left = unitsLeft(binding, values)
    if (names.limit !== false) set(names.limit, '' + values.quota)
    if (names.remaining !== false) set(names.remaining, '' + left)
    if (names.used !== false) set(names.used, '' + (values.quota - left))
    if (names.reset !== false) set(names.reset, '' + epochSeconds(now + resetIn(binding, values, left)))
    if (names.resource !== false)
      set(names.resource, distinctNames(limits)?.[limits.indexOf(binding)] ?? binding.limit.name)
  }
}

function epochSeconds(ms: number): number {
  return Math.min(Math.ceil(ms / 1000), MAX_HEADER_INTEGER)
}
