import type { Limit } from '../../limits/limit.ts'
import type { LimitStatus } from '../../stores/store.ts'
import { distinctNames, limiterNameOf, repeatsName } from './distinct-names.ts'
import { isShown } from './shown.ts'
import type { HeaderValues, PolicyItem } from './types.ts'
import { headerValuesOf } from './values.ts'

/** The policies of a decision, as the value of `RateLimit-Policy`. */
export interface PolicyList {
  /** One item for each limit, in the same order. Shadow limits have an item, too, but are not part of `text`. */
  readonly items: readonly PolicyItem[]
  /** The value of the header. It contains no item twice. */
  readonly text: string
  /** True when two of the limits have the same quota. */
  readonly repeatsQuota: boolean
}

/**
 * Returns a function that creates the item of a limit with `write`. It keeps the item under the limit's own name. `name` is
 * another name for the limit.
 */
export function policyItems(
  write: (values: HeaderValues, name: string) => Pick<PolicyItem, 'text' | 'start'>,
): (limit: Limit, name?: string) => PolicyItem {
  const items = new WeakMap<Limit, PolicyItem>()
  return function policyItem(limit, name = limit.name) {
    if (name !== limit.name) return { values: headerValuesOf(limit), ...write(headerValuesOf(limit), name) }
    let item = items.get(limit)
    if (item === undefined) {
      const values = headerValuesOf(limit)
      items.set(limit, (item = { values, ...write(values, name) }))
    }
    return item
  }
}

/** Returns a function that lists the policies of a decision. It keeps the latest list: most requests have the same limits. */
export function policyLists(
  itemOf: (limit: Limit, name?: string) => PolicyItem,
): (limits: readonly LimitStatus[]) => PolicyList {
  let latest = createList([])
  let limiters: readonly unknown[] | undefined
  return function policyList(limits) {
    if (!isListOf(latest.items, limits) || (limiters !== undefined && !areOf(limiters, limits))) {
      limiters = repeatsName(limits) ? limits.map(limiterNameOf) : undefined
      const names = distinctNames(limits)
      latest = createList(limits.map(({ limit }, i) => itemOf(limit, names?.[i])))
    }
    return latest
  }
}

/** With names of limiters in it, a list fits only the same limiters. */
function areOf(limiters: readonly unknown[], limits: readonly LimitStatus[]): boolean {
  return limits.every((status, i) => limiterNameOf(status) === limiters[i])
}

function isListOf(items: readonly PolicyItem[], limits: readonly LimitStatus[]): boolean {
  if (items.length !== limits.length) return false
  for (let i = 0; i < limits.length; i++) if (items[i]!.values.limit !== limits[i]!.limit) return false
  return true
}

function createList(items: readonly PolicyItem[]): PolicyList {
  const shown = items.filter(({ values }) => isShown(values.limit))
  const texts = new Set(shown.map(({ text }) => text))
  const quotas = new Set(shown.map(({ values }) => values.quota))
  return { items, text: [...texts].join(', '), repeatsQuota: quotas.size < shown.length }
}
