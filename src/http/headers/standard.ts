import type { Limit } from '../../engine/limit.ts'
import type { Decision } from '../../limiter/decision.ts'
import type { LimitStatus } from '../../stores/store.ts'
import { wholeSeconds } from '../../util/seconds.ts'
import { distinctNames, limiterNameOf, repeatsName } from './names.ts'
import { type HeaderOptions, partitioner, unitOf, validateUnit } from './options.ts'
import { structuredString } from './structured.ts'
import type { HeaderValues, HeaderWriter, PolicyItem, SetHeader, StandardFormat } from './types.ts'
import { headerValuesOf, SLOTS } from './values.ts'

/** Throws `INVALID_OPTION`, `UNKNOWN_OPTION`. */
export function standardFormat({ unit, partitionKey }: HeaderOptions): StandardFormat {
  validateUnit(unit)
  return {
    itemOf: policyItems((values, name) => ({
      text: policyText(values, name, unitOf(values.limit.name, unit)),
      start: `${structuredString(name)};r=`,
    })),
    partition: partitionKey === undefined ? undefined : partitioner(partitionKey),
  }
}

function policyText({ quota, window }: HeaderValues, name: string, given: string | undefined): string {
  const unit = window === undefined ? SLOTS : given
  const ofUnit = unit === undefined || unit === 'requests' ? '' : `;qu=${structuredString(unit)}`
  return `${structuredString(name)};q=${quota}${ofUnit}${window === undefined ? '' : `;w=${window}`}`
}

/**
 * Writes `RateLimit-Policy` and `RateLimit` as in drafts 8 to 11. Both are lists with an item for each limit. On a denial
 * `RateLimit` has only the violated limits.
 * @see https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/
 */
export function standard(format: StandardFormat): HeaderWriter {
  const listOf = policyLists(format.itemOf)
  return function writeStandard(decision, _now, set, formatOf) {
    if (!isAnswered(decision)) return
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
    if (status.limit.shadow !== true && (allowed || !status.allowed))
      states = append(states, stateText(status, items[i]!))
  }
  writeBoth(text, states, set)
}

/** Writes policies that depend on the key, or on the request limiter. */
function writeItems(
  { allowed, limits }: Decision,
  formatOf: (status: LimitStatus) => StandardFormat,
  set: SetHeader,
): void {
  const policies = new Set<string>()
  const names = distinctNames(limits)
  let states = ''
  for (const [i, status] of limits.entries()) {
    if (status.limit.shadow === true) continue
    const { itemOf, partition } = formatOf(status)
    const item = itemOf(status.limit, names?.[i])
    const pk = partition === undefined ? '' : `;pk=${partition(status.key)}`
    policies.add(item.text + pk)
    if (allowed || !status.allowed) states = append(states, stateText(status, item) + pk)
  }
  writeBoth([...policies].join(', '), states, set)
}

/** The policies of a decision, as the value of `RateLimit-Policy`. */
interface PolicyList {
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
    const known = name === limit.name ? items.get(limit) : undefined
    if (known !== undefined) return known
    const values = headerValuesOf(limit)
    const item = { values, ...write(values, name), recent: [] }
    if (name === limit.name) items.set(limit, item)
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

/** Returns true if limits belong to these limiters. A list that contains names of limiters fits only the same limiters. */
function areOf(limiters: readonly unknown[], limits: readonly LimitStatus[]): boolean {
  return limits.every((status, i) => limiterNameOf(status) === limiters[i])
}

function isListOf(items: readonly PolicyItem[], limits: readonly LimitStatus[]): boolean {
  if (items.length !== limits.length) return false
  for (let i = 0; i < limits.length; i++) if (items[i]!.values.limit !== limits[i]!.limit) return false
  return true
}

function createList(items: readonly PolicyItem[]): PolicyList {
  const shown = items.filter(({ values }) => values.limit.shadow !== true)
  const texts = new Set(shown.map(({ text }) => text))
  const quotas = new Set(shown.map(({ values }) => values.quota))
  return { items, text: [...texts].join(', '), repeatsQuota: quotas.size < shown.length }
}

/** How many texts an item keeps. Most clients have used few units of a limit, and most requests of a client come within one second. */
const KEPT_TEXTS = 64

function stateText(status: LimitStatus, { start, values, recent }: PolicyItem): string {
  const left = unitsLeft(status, values)
  const seconds = resetSeconds(status, values, left)
  const place = (left + (seconds ?? 0)) % KEPT_TEXTS
  const known = recent[place]
  if (known?.left === left && known.seconds === seconds) return known.text
  const text = seconds === undefined ? start + left : start + left + ';t=' + seconds
  recent[place] = { left, seconds, text }
  return text
}

/** Returns the whole units that are left, from 0 to the quota. */
export function unitsLeft(status: LimitStatus, values: HeaderValues): number {
  return status.remaining > 0 ? Math.min(Math.floor(status.remaining), values.quota) : 0
}

/**
 * Returns the milliseconds until the state improves; `undefined` for a limit of slots, because the end of requests is unknown. For a limit that denies, it
 * is the same time as `Retry-After`. If no unit is left, it is the time until the first unit is back. For a request that is never admitted, it is the time
 * until all units are back, and for a limit that admits nothing, it is the window.
 */
export function resetIn(status: LimitStatus, values: HeaderValues, left: number): number | undefined {
  if (values.window === undefined) return undefined
  if (values.quota === 0) return values.window * 1000
  if (!status.allowed && status.retryAfter !== Infinity) return status.retryAfter
  const ms = left === 0 ? status.resetAfter - values.lag : status.resetAfter
  return ms > 0 ? ms : 0
}

/** Returns `resetIn` in whole seconds. It is at least 1 while no unit is left. */
export function resetSeconds(status: LimitStatus, values: HeaderValues, left: number): number | undefined {
  const ms = resetIn(status, values, left)
  if (ms === undefined) return undefined
  const seconds = wholeSeconds(ms)
  return left === 0 && seconds === 0 ? 1 : seconds
}

function append(list: string, item: string): string {
  return list === '' ? item : list + ', ' + item
}

/** Writes both headers. An empty list is not sent. */
function writeBoth(policies: string, states: string, set: SetHeader): void {
  if (policies !== '') set('RateLimit-Policy', policies)
  if (states !== '') set('RateLimit', states)
}

/** Returns false when the store did not answer, so that nothing is known about the limits. */
export function isAnswered({ degraded }: Decision): boolean {
  return degraded !== 'open' && degraded !== 'closed'
}
