import { serializeItem } from 'structured-headers'
import type { Decision } from '../../limiter/decision.ts'
import type { LimitStatus } from '../../stores/store.ts'
import { policyItems, policyLists } from './policy-list.ts'
import { isShown } from './shown.ts'
import type { HeaderWriter } from './types.ts'
import { headerValuesOf, resetSeconds, unitsLeft } from './values.ts'

/** The names of draft 6, except `RateLimit-Policy`. */
export const DRAFT_6_NAMES = {
  limit: 'RateLimit-Limit',
  remaining: 'RateLimit-Remaining',
  reset: 'RateLimit-Reset',
} as const

const policyItem = policyItems(({ quota, window }) => ({
  text: serializeItem(quota, new Map([['w', window]])),
  start: '',
}))

/** Writes `RateLimit-Limit`, `-Remaining` and `-Reset` of the binding limit, and `RateLimit-Policy`, as in draft 6. */
export function draft6(): HeaderWriter {
  const policiesOf = numberedPolicies()
  return function writeDraft6(decision, _now, set) {
    const { binding } = decision
    if (binding === undefined) return
    const values = headerValuesOf(binding.limit)
    const left = unitsLeft(binding, values)
    set('RateLimit-Policy', policiesOf(decision))
    set(DRAFT_6_NAMES.limit, '' + values.quota)
    set(DRAFT_6_NAMES.remaining, '' + left)
    set(DRAFT_6_NAMES.reset, '' + resetSeconds(binding, values, left))
  }
}

/** Writes `RateLimit` as a dictionary of the binding limit, and `RateLimit-Policy`, as in draft 7. */
export function draft7(): HeaderWriter {
  const policiesOf = numberedPolicies()
  return function writeDraft7(decision, _now, set) {
    const { binding } = decision
    if (binding === undefined) return
    const values = headerValuesOf(binding.limit)
    const left = unitsLeft(binding, values)
    set('RateLimit-Policy', policiesOf(decision))
    set('RateLimit', 'limit=' + values.quota + ', remaining=' + left + ', reset=' + resetSeconds(binding, values, left))
  }
}

/**
 * Returns a function that writes `RateLimit-Policy` of drafts 6 and 7: quotas with their windows. These drafts allow each quota
 * once, so of two limits with the same quota the list contains the one that is used up sooner.
 */
function numberedPolicies(): (decision: Decision) => string {
  const listOf = policyLists(policyItem)
  return function writePolicies(decision) {
    const list = listOf(decision.limits)
    return list.repeatsQuota ? withDistinctQuotas(decision) : list.text
  }
}

function withDistinctQuotas({ limits, binding }: Decision): string {
  const kept = new Map<number, LimitStatus>()
  for (const status of limits) {
    if (!isShown(status.limit)) continue
    const { quota } = headerValuesOf(status.limit)
    const other = kept.get(quota)
    if (other === undefined || goesBefore(status, other, binding)) kept.set(quota, status)
  }
  return Array.from(kept.values(), ({ limit }) => policyItem(limit).text).join(', ')
}

/** The binding limit goes before all others, since the other headers describe it. */
function goesBefore(status: LimitStatus, other: LimitStatus, binding: LimitStatus | undefined): boolean {
  return other !== binding && (status === binding || isUsedUpSooner(status, other))
}

/** A limit that denies goes first, then the one with fewer units left, then the one that resets later. */
function isUsedUpSooner(a: LimitStatus, b: LimitStatus): boolean {
  if (a.allowed !== b.allowed) return b.allowed
  const less = unitsLeft(a, headerValuesOf(a.limit)) - unitsLeft(b, headerValuesOf(b.limit))
  return less === 0 ? a.resetAfter > b.resetAfter : less < 0
}
