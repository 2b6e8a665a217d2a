import type { FieldWriter } from './types.ts'
import { available, reset } from './figures.ts'
import { termsOf } from './values.ts'
import { numberedPolicies } from './numbered.ts'

/** `RateLimit-Limit`, `-Remaining` and `-Reset` of the binding limit, and `RateLimit-Policy`. */
export function draft6(): FieldWriter {
  return function writeDraft6(decision, _now, set) {
    const { binding } = decision
    if (binding === undefined) return
    const terms = termsOf(binding.limit)
    const left = available(binding, terms)
    set('RateLimit-Policy', numberedPolicies(decision))
    set('RateLimit-Limit', '' + terms.quota)
    set('RateLimit-Remaining', '' + left)
    set('RateLimit-Reset', '' + reset(binding, terms, left))
  }
}
