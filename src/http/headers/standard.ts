import { serializeBareItem, serializeItem } from 'structured-headers'
import type { Decision } from '../../limiter/decision.ts'
import type { LimitStatus } from '../../stores/store.ts'
import { distinctNames } from './distinct-names.ts'
import { policyItems, type PolicyList, policyLists } from './policy-list.ts'
import { isShown } from './shown.ts'
import type { HeaderValues, HeaderWriter, PolicyItem, SetHeader, StandardFormat } from './types.ts'
import { resetSeconds, unitsLeft } from './values.ts'

/** What the newest draft can show of a limit, except quota and window. */
export interface StandardOptions {
  /** Returns the quota unit of a limit, by its name. Default: requests. */
  readonly unit?: ((name: string) => string | undefined) | undefined
  /** Returns the partition of a key, as a byte sequence. */
  readonly partition?: ((key: string) => string) | undefined
}

/** Creates the format of one request limiter. */
export function standardFormat({ unit, partition }: StandardOptions = {}): StandardFormat {
  return {
    itemOf: policyItems((values, name) => ({
      text: policyText(values, name, unit?.(values.limit.name)),
      start: `${serializeBareItem(name)};r=`,
    })),
    partition,
  }
}

function policyText({ quota, window }: HeaderValues, name: string, unit: string | undefined): string {
  const parameters = new Map<string, number | string>([['q', quota]])
  if (unit !== undefined && unit !== 'requests') parameters.set('qu', unit)
  return serializeItem(name, parameters.set('w', window))
}

/**
 * Writes `RateLimit-Policy` and `RateLimit` as in drafts 8 to 11. Both are lists with an item for each limit. On a denial
 * `RateLimit` has only the violated limits.
 * @see https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/
 */
export function standard(format: StandardFormat): HeaderWriter {
  const listOf = policyLists(format.itemOf)
  return function writeStandard(decision, _now, set, formatOf) {
    if (formatOf !== undefined) writeItems(decision, formatOf, set)
    else if (format.partition !== undefined) writeItems(decision, () => format, set)
    else writeList(decision, listOf(decision.limits), set)
  }
}

/** Writes a list of policies that is the same for every key. */
function writeList({ allowed, limits }: Decision, { items, text }: PolicyList, set: SetHeader): void {
  let states = ''
  for (let i = 0; i < limits.length; i++) {
    const status = limits[i]!
    if (isShown(status.limit) && (allowed || !status.allowed)) states = append(states, stateText(status, items[i]!))
  }
  writeBoth(text, states, set)
}

/** Writes policies that differ between keys, or between the request limiters of a request. */
function writeItems(
  { allowed, limits }: Decision,
  formatOf: (status: LimitStatus) => StandardFormat,
  set: SetHeader,
): void {
  const policies = new Set<string>()
  const names = distinctNames(limits)
  let states = ''
  for (const [i, status] of limits.entries()) {
    if (!isShown(status.limit)) continue
    const { itemOf, partition } = formatOf(status)
    const item = itemOf(status.limit, names?.[i])
    const pk = partition === undefined ? '' : `;pk=${partition(status.key)}`
    policies.add(item.text + pk)
    if (allowed || !status.allowed) states = append(states, stateText(status, item) + pk)
  }
  writeBoth([...policies].join(', '), states, set)
}

function stateText(status: LimitStatus, { start, values }: PolicyItem): string {
  const left = unitsLeft(status, values)
  return start + left + ';t=' + resetSeconds(status, values, left)
}

function append(list: string, item: string): string {
  return list === '' ? item : list + ', ' + item
}

/** An empty list is not sent. */
function writeBoth(policies: string, states: string, set: SetHeader): void {
  if (policies !== '') set('RateLimit-Policy', policies)
  if (states !== '') set('RateLimit', states)
}
