import type { FieldWriter } from '../field-writer.ts'
import { available, reset } from '../figures.ts'
import { termsOf } from '../terms.ts'

/** `X-RateLimit-Limit`, `-Remaining` and `-Reset` of the binding limit; reset in seconds from now. */
export function legacy(): FieldWriter {
  return function writeLegacy({ binding }, _now, set) {
    if (binding === undefined) return
    const terms = termsOf(binding.limit)
    const left = available(binding, terms)
    set('X-RateLimit-Limit', '' + terms.quota)
    set('X-RateLimit-Remaining', '' + left)
    set('X-RateLimit-Reset', '' + reset(binding, terms, left))
  }
}
