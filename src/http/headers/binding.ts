import type { Decision } from '../../limiter/decision.ts'
import type { LimitStatus } from '../../stores/store.ts'
import { epochSeconds } from '../../util/seconds.ts'
import { distinctNames } from './names.ts'
import { isAnswered, policyItems, policyLists, resetIn, resetSeconds, unitsLeft } from './standard.ts'
import type { HeaderNames, HeaderValues, HeaderWriter, PartNames } from './types.ts'
import { structuredString } from './structured.ts'
import { headerValuesOf, SLOTS } from './values.ts'

/** The limit that a response describes, with the values that its headers share. */
interface Binding {
  readonly status: LimitStatus
  readonly values: HeaderValues
  readonly left: number
  readonly decision: Decision
  /** Epoch milliseconds. */
  readonly now: number
}

type Part = keyof HeaderNames

/** Returns the value of a part; `undefined` for the reset of a limit of slots. */
type PartValue = (binding: Binding) => number | string | undefined

const COMMON: Readonly<Record<Exclude<Part, 'reset'>, PartValue>> = {
  limit: ({ values }) => values.quota,
  remaining: ({ left }) => left,
  used: ({ values, left }) => values.quota - left,
  resource: ({ status, decision: { limits } }) => distinctNames(limits)?.[limits.indexOf(status)] ?? status.limit.name,
}

/** The forms of a reset: seconds from now, and epoch seconds as in GitHub's API. */
const RESETS: Readonly<Record<'seconds' | 'epoch', PartValue>> = {
  seconds: ({ status, values, left }) => resetSeconds(status, values, left),
  epoch({ status, values, left, now }) {
    const reset = resetIn(status, values, left)
    return reset === undefined ? undefined : epochSeconds(now + reset)
  },
}

/** A style that describes the binding limit in a few parts. */
export interface BindingStyle {
  /** The names of the parts, by default the names of `headerNames`. */
  readonly names: Readonly<Partial<Record<Part, string>>>
  readonly reset: keyof typeof RESETS
  /** A header with all parts, as a dictionary. Absent: each part is a header. */
  readonly dictionary?: string
  /** True for `RateLimit-Policy` as in drafts 6 and 7. */
  readonly hasPolicies?: true
}

/** Drafts 6 and 7, the headers before any draft, and those of GitHub's API. */
export const BINDING_STYLES: Readonly<Record<'draft-7' | 'draft-6' | 'legacy' | 'github', BindingStyle>> = {
  'draft-7': {
    names: { limit: 'limit', remaining: 'remaining', reset: 'reset' },
    reset: 'seconds',
    dictionary: 'RateLimit',
    hasPolicies: true,
  },
  'draft-6': {
    names: { limit: 'RateLimit-Limit', remaining: 'RateLimit-Remaining', reset: 'RateLimit-Reset' },
    reset: 'seconds',
    hasPolicies: true,
  },
  legacy: {
    names: { limit: 'X-RateLimit-Limit', remaining: 'X-RateLimit-Remaining', reset: 'X-RateLimit-Reset' },
    reset: 'seconds',
  },
  github: {
    names: {
      limit: 'x-ratelimit-limit',
      remaining: 'x-ratelimit-remaining',
      used: 'x-ratelimit-used',
      reset: 'x-ratelimit-reset',
      resource: 'x-ratelimit-resource',
    },
    reset: 'epoch',
  },
}

/**
 * Creates the writer of a style that describes the binding limit.
 * @param names the names to write; false omits a part
 */
export function bindingWriter({ reset, dictionary, hasPolicies }: BindingStyle, names: PartNames): HeaderWriter {
  const values = { ...COMMON, reset: RESETS[reset] }
  const parts = Object.entries(names).flatMap(([part, name]) =>
    name === false ? [] : [{ name, valueOf: values[part as Part] }],
  )
  const policiesOf = hasPolicies ? numberedPolicies() : undefined
  return function writeBinding(decision, now, set, _formatOf, remove) {
    const { binding: status } = decision
    if (status === undefined || !isAnswered(decision)) return
    const limitValues = headerValuesOf(status.limit)
    const binding = { status, values: limitValues, left: unitsLeft(status, limitValues), decision, now }
    if (policiesOf !== undefined) set('RateLimit-Policy', policiesOf(decision))
    const known = parts.map(({ name, valueOf }) => [name, valueOf(binding)] as const)
    if (dictionary !== undefined) {
      const members = known.filter(([, value]) => value !== undefined)
      return set(dictionary, members.map(([name, value]) => `${name}=${value}`).join(', '))
    }
    for (const [name, value] of known) {
      // A header of an earlier request limiter would describe another limit.
      if (value === undefined) remove?.(name)
      else set(name, String(value))
    }
  }
}

const policyItem = policyItems(({ quota, window }) => ({
  text: quota + (window === undefined ? `;qu=${structuredString(SLOTS)}` : `;w=${window}`),
  start: '',
}))

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
    if (status.limit.shadow === true) continue
    const { quota } = headerValuesOf(status.limit)
    const other = kept.get(quota)
    if (other === undefined || goesBefore(status, other, binding)) kept.set(quota, status)
  }
  return Array.from(kept.values(), ({ limit }) => policyItem(limit).text).join(', ')
}

/** Returns true if a limit replaces another one in the list. The binding limit replaces all others, because the other headers describe it. */
function goesBefore(status: LimitStatus, other: LimitStatus, binding: LimitStatus | undefined): boolean {
  return other !== binding && (status === binding || isUsedUpSooner(status, other))
}

/**
 * Returns true if `a` is more restrictive than `b`. A limit that denies comes first, and of two such limits the one with the longer wait. Then comes the one
 * with fewer units left, and then the one that resets later.
 */
export function isUsedUpSooner(a: LimitStatus, b: LimitStatus): boolean {
  if (a.allowed !== b.allowed) return b.allowed
  if (!a.allowed && a.retryAfter !== b.retryAfter) return a.retryAfter > b.retryAfter
  const less = unitsLeft(a, headerValuesOf(a.limit)) - unitsLeft(b, headerValuesOf(b.limit))
  return less === 0 ? a.resetAfter > b.resetAfter : less < 0
}
