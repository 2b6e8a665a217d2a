import type { Limit } from '../../limits/limit.ts'
import { learn, type Terms } from './values.ts'

/**
 * What a field says of a list of limits, made once per list: a tree with a limit on each branch, so that a decision finds its text by
 * following its limits, whichever LimitFunc brought them together. Shadow limits lead on without adding anything.
 */
export interface Policies {
  readonly terms: Terms | undefined
  /** False for a shadow limit, which no client is told of. */
  readonly told: boolean
  /** How an item of this limit begins in the field that changes. */
  readonly head: string
  /** The list up to here. */
  readonly text: string
  /** Its items, none of them twice. */
  readonly items: readonly string[]
  /** Two of them have one quota. */
  readonly twins: boolean
  readonly quotas: readonly number[]
  /** Made when there is a branch: where a LimitFunc makes a limit for each request, most lists end at once. */
  branches: WeakMap<Limit, Policies> | undefined
  /** The branch taken last: mostly the only one. */
  latest: Policies | undefined
}

/** How a limit is written: its item in the policy field, and how its item in the other field begins. */
export interface Wording {
  item(terms: Terms): string
  head?(terms: Terms): string
}

/** The empty list, from which all others branch. */
export function policies(): Policies {
  return branch(undefined, false, '', [], false, [])
}

/** The list with one more limit. */
export function follow(from: Policies, limit: Limit, wording: Wording): Policies {
  const { latest } = from
  if (latest !== undefined && latest.terms!.limit === limit) return latest
  return (from.latest = from.branches?.get(limit) ?? grow(from, limit, wording))
}

function grow(from: Policies, limit: Limit, wording: Wording): Policies {
  // Not kept beside the branch, which keeps them already.
  const terms = learn(limit)
  const { items, twins, quotas } = from
  const grown = limit.shadow === true ? branch(terms, false, '', items, twins, quotas) : extended(from, terms, wording)
  from.branches ??= new WeakMap()
  from.branches.set(limit, grown)
  return grown
}

function extended({ items, twins, quotas }: Policies, terms: Terms, wording: Wording): Policies {
  const item = wording.item(terms)
  const longer = items.includes(item) ? items : [...items, item]
  const twin = quotas.includes(terms.quota)
  return branch(terms, true, wording.head?.(terms) ?? '', longer, twins || twin, [...quotas, terms.quota])
}

function branch(
  terms: Terms | undefined,
  told: boolean,
  head: string,
  items: readonly string[],
  twins: boolean,
  quotas: readonly number[],
): Policies {
  return { terms, told, head, text: items.join(', '), items, twins, quotas, branches: undefined, latest: undefined }
}
