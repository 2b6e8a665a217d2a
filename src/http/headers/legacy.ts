import type { FieldWriter } from './types.ts'
import { available, reset } from './figures.ts'
import type { PartNames } from './names.ts'
import { termsOf } from './values.ts'

export const LEGACY_NAMES = {
  limit: 'X-RateLimit-Limit',
  remaining: 'X-RateLimit-Remaining',
  reset: 'X-RateLimit-Reset',
} as const

/** `X-RateLimit-Limit`, `-Remaining` and `-Reset` of the binding limit, unless named otherwise; reset in seconds from now. */
export function legacy(names: PartNames<keyof typeof LEGACY_NAMES> = LEGACY_NAMES): FieldWriter {
  return function writeLegacy({ binding }, _now, set) {
    if (binding === undefined) return
    const terms = termsOf(binding.limit)
    const left = available(binding, terms)
    if (names.limit !== false) set(names.limit, '' + terms.quota)
    if (names.remaining !== false) set(names.remaining, '' + left)
    if (names.reset !== false) set(names.reset, '' + reset(binding, terms, left))
  }
}
