import type { FieldWriter } from './types.ts'
import { available, wait } from './figures.ts'
import type { PartNames } from './names.ts'
import { LARGEST, termsOf } from './values.ts'

export const GITHUB_NAMES = {
  limit: 'x-ratelimit-limit',
  remaining: 'x-ratelimit-remaining',
  used: 'x-ratelimit-used',
  reset: 'x-ratelimit-reset',
  resource: 'x-ratelimit-resource',
} as const

/** GitHub's own: lower-case unless named otherwise, reset in epoch seconds, with what is used and of which limit. */
export function github(names: PartNames<keyof typeof GITHUB_NAMES> = GITHUB_NAMES): FieldWriter {
  return function writeGithub({ binding }, now, set) {
    if (binding === undefined) return
    const terms = termsOf(binding.limit)
    const left = available(binding, terms)
    if (names.limit !== false) set(names.limit, '' + terms.quota)
    if (names.remaining !== false) set(names.remaining, '' + left)
    if (names.used !== false) set(names.used, '' + (terms.quota - left))
    if (names.reset !== false)
      set(names.reset, '' + Math.min(Math.ceil((now + wait(binding, terms, left)) / 1000), LARGEST))
    if (names.resource !== false) set(names.resource, binding.limit.name)
  }
}
