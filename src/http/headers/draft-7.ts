import type { FieldWriter } from './types.ts'
import { available, reset } from './figures.ts'
import { termsOf } from './values.ts'
import { numberedPolicies } from './numbered.ts'

/** `RateLimit` as a dictionary of the binding limit, and `RateLimit-Policy`. */
export function draft7(): FieldWriter {
  return function writeDraft7(decision, _now, set) {
    const { binding } = decision
    if (binding === undefined) return
    const terms = termsOf(binding.limit)
    const left = available(binding, terms)
    set('RateLimit-Policy', numberedPolicies(decision))
    set('RateLimit', 'limit=' + terms.quota + ', remaining=' + left + ', reset=' + reset(binding, terms, left))
  }
}
