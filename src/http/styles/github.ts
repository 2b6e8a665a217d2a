import type { FieldWriter } from '../field-writer.ts'
import { available, wait } from '../figures.ts'
import { LARGEST, termsOf } from '../terms.ts'

/** GitHub's own: lower-case, reset in epoch seconds, with what is used and of which limit. */
export function github(): FieldWriter {
  return function writeGithub({ binding }, now, set) {
    if (binding === undefined) return
    const terms = termsOf(binding.limit)
    const left = available(binding, terms)
    set('x-ratelimit-limit', '' + terms.quota)
    set('x-ratelimit-remaining', '' + left)
    set('x-ratelimit-used', '' + (terms.quota - left))
    set('x-ratelimit-reset', '' + Math.min(Math.ceil((now + wait(binding, terms, left)) / 1000), LARGEST))
    set('x-ratelimit-resource', binding.limit.name)
  }
}
