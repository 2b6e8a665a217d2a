import { serializeItem } from 'structured-headers'
import type { Decision } from '../../limiter/decision.ts'
import type { LimitStatus } from '../../stores/store.ts'
import { available } from './figures.ts'
import { follow, policies, type Policies, type Wording } from './policy-list.ts'
import { termsOf } from './values.ts'

const wording: Wording = { item: ({ quota, window }) => serializeItem(quota, new Map([['w', window]])) }
const none: Policies = policies()

/**
 * `RateLimit-Policy` of drafts 6 and 7: quotas with their windows. A quota may stand there once, so of limits that share one only
 * the one that is used up sooner does.
 */
export function numberedPolicies(decision: Decision): string {
  const { limits } = decision
  let list = none
  for (let i = 0; i < limits.length; i++) list = follow(list, limits[i]!.limit, wording)
  return list.twins ? withoutTwins(decision) : list.text
}

function withoutTwins({ limits, binding }: Decision): string {
  const kept = new Map<number, LimitStatus>()
  for (const status of limits) {
    if (status.limit.shadow === true) continue
    const { quota } = termsOf(status.limit)
    const rival = kept.get(quota)
    if (rival === undefined || (rival !== binding && (status === binding || sooner(status, rival))))
      kept.set(quota, status)
  }
  return Array.from(kept.values(), ({ limit }) => wording.item(termsOf(limit))).join(', ')
}

/** Used up sooner: denying, else with less left, else giving back later. The binding limit goes before all, as it is the one told of. */
function sooner(a: LimitStatus, b: LimitStatus): boolean {
  if (a.allowed !== b.allowed) return b.allowed
  const less = available(a, termsOf(a.limit)) - available(b, termsOf(b.limit))
  return less === 0 ? a.resetAfter > b.resetAfter : less < 0
}
