import {
  type HeaderNames,
  type HeaderStyle,
  type HeaderValues,
  type HeaderWriter,
  type PartNames,
  partNames,
  type PolicyItem,
  type ResponseHeaders,
  type SetHeader,
  type StandardFormat,
  type StandardOptions,
} from './types.ts'
import type { Decision } from '../../limiter/decision.ts'
import type { CompiledLimit } from '../../engine/compiled-limit.ts'
import { countsSlots, findCompiled, type Limit } from '../../engine/limit.ts'
import { isCharge, type LimitStatus } from '../../stores/store.ts'
import { serializeBareItem, serializeItem } from 'structured-headers'
import { shown, SluiceError } from '../../util/errors.ts'
import { chosenNames, chosenStyles, type HeaderOptions, standardOptions } from './options.ts'

/**
 * Returns the value of `Access-Control-Expose-Headers`, or of `Vary`, with more names. Each name appears once. `*` stays as it is.
 * @example withNames('X-Foo', ['Retry-After', 'RateLimit']) // 'X-Foo, Retry-After, RateLimit'
 */
export function withNames(existing: string, names: readonly string[]): string {
  const exposed = existing
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '')
  if (exposed.includes('*')) return existing
  const known = new Set(exposed.map((name) => name.toLowerCase()))
  return [...exposed, ...names.filter((name) => !known.has(name.toLowerCase()))].join(', ')
}

/**
 * Returns true for a CORS preflight. An upgrade never is one. `getHeader` returns a header of the request by its lower-case
 * name.
 */
export function isPreflight(method: string | undefined, getHeader: (name: string) => unknown): boolean {
  return (
    method === 'OPTIONS' &&
    getHeader('origin') !== undefined &&
    getHeader('access-control-request-method') !== undefined &&
    getHeader('upgrade') === undefined
  )
}

/** Returns a function that adds names to `Access-Control-Expose-Headers` of a response with CORS headers. */
export function exposedWriter<Response>(
  adapter: ResponseHeaders<Response>,
): (response: Response, names: () => readonly string[]) => void {
  return function writeExposed(response, names) {
    const existing = adapter.getHeader(response, 'access-control-expose-headers') || undefined
    const cors = existing ?? adapter.getHeader(response, 'access-control-allow-origin')
    if (cors === undefined || cors === '') return
    adapter.setHeader(response, 'Access-Control-Expose-Headers', withNames(String(existing ?? ''), names()))
  }
}

/**
 * Returns the milliseconds until a denied request is admitted. Returns `undefined` when the request was admitted, and when it will
 * never be. When the store does not answer, the wait is unknown, and at least one second is returned.
 */
function waitOf({ allowed, retryAfter: ms, degraded }: Decision): number | undefined {
  if (allowed) return undefined
  if (degraded === 'closed') return ms > 1000 && ms !== Infinity ? ms : 1000
  return ms === Infinity ? undefined : ms
}

/** Returns the seconds for `Retry-After`: the longest wait of the violated limits, at least 1. `undefined` as in `waitOf`. */
export function retryAfter(decision: Decision): number | undefined {
  const wait = waitOf(decision)
  return wait === undefined ? undefined : Math.max(1, wholeSeconds(wait))
}

/** A `Retry-After` in milliseconds. The clients of language models read it first. */
export const RETRY_AFTER_MS = 'retry-after-ms'

/** Returns the milliseconds for `retry-after-ms`: the same wait as `Retry-After`, rounded up, at least 1. */
export function retryAfterMs(decision: Decision): number | undefined {
  const wait = waitOf(decision)
  return wait === undefined ? undefined : Math.max(1, wholeMilliseconds(wait))
}

/**
 * Returns the `retry-after-ms` beside a `Retry-After` that `mergeRetryAfter` returned. If that is not ours, it is the one of the
 * application, which is longer.
 * @param ours our own `Retry-After`
 * @param ms our own `retry-after-ms`
 * @example millisecondsBeside(120, 13, 12_200) // 120000
 */
export function millisecondsBeside<Ms>(seconds: number, ours: number | undefined, ms: Ms): Ms | number {
  return seconds === ours ? ms : seconds * 1000
}

/**
 * Returns the larger of an existing `Retry-After` and ours, in whole seconds. An HTTP date counts as the time until then. Any
 * other text is ignored.
 * @example mergeRetryAfter('120', 13, Date.now()) // 120
 */
export function mergeRetryAfter(existing: unknown, ours: number | undefined, now: number): number | undefined {
  let largest = ours
  for (const value of Array.isArray(existing) ? existing : [existing]) {
    const theirs = secondsOf(value, now)
    if (theirs !== undefined && (largest === undefined || theirs > largest)) largest = theirs
  }
  return largest
}

function secondsOf(value: unknown, now: number): number | undefined {
  const text = String(value).trim()
  if (/^\d+(\.\d+)?$/.test(text)) return Math.max(1, Math.min(Math.ceil(Number(text)), MAX_HEADER_INTEGER))
  // Date.parse accepts many formats. An HTTP date always ends in GMT.
  const date = text.endsWith('GMT') ? Date.parse(text) : NaN
  return Number.isNaN(date) ? undefined : Math.max(1, wholeSeconds(date - now))
}

/** The largest integer in a structured field: 15 digits (RFC 9651). */
const MAX_HEADER_INTEGER = 999_999_999_999_999

const valuesByLimit = new WeakMap<Limit, HeaderValues>()

/** Returns the header values of a limit. They are computed once for each limit. */
function headerValuesOf(limit: Limit): HeaderValues {
  let values = valuesByLimit.get(limit)
  if (values === undefined) valuesByLimit.set(limit, (values = computeValues(limit)))
  return values
}

function computeValues(limit: Limit): HeaderValues {
  const compiled = findCompiled(limit)
  const quota = compiled?.capacity === 0 ? 0 : Math.max(limit.quota, compiled?.capacity ?? 0)
  const window = Math.min(Math.max(1, secondsFor(quota, limit)), MAX_HEADER_INTEGER)
  return {
    limit,
    quota: Math.min(quota, MAX_HEADER_INTEGER),
    window: countsSlots(limit) ? undefined : window,
    lag: lagOf(compiled),
  }
}

/**
 * Returns the seconds in which `units` come back, rounded up, and the window for a limit that admits nothing. The product of a quota and
 * a window needs more than 53 bits.
 */
function secondsFor(units: number, { quota, window }: Limit): number {
  if (units === 0 || quota === 0) return wholeSeconds(window)
  const divisor = BigInt(quota) * 1000n
  return Number((BigInt(window) * BigInt(units) + divisor - 1n) / divisor)
}

/** Returns `HeaderValues.lag`: `resetAfter` refers to the last unit, but a client without units waits for the first one. */
function lagOf(compiled: CompiledLimit | undefined): number {
  if (compiled === undefined) return 0
  const { algorithm, parameters } = compiled
  return (algorithm.resetLag?.(parameters) ?? 0) / parameters.perMs
}

/** Rounds milliseconds up to whole seconds, at least 0. Ignores the last 1e-6 ms, which may be a rounding error. */
export function wholeSeconds(ms: number): number {
  return ms > 1e-6 ? Math.min(Math.ceil((ms - 1e-6) / 1000), MAX_HEADER_INTEGER) : 0
}

/** Rounds milliseconds up as `wholeSeconds` does. */
function wholeMilliseconds(ms: number): number {
  return ms > 1e-6 ? Math.min(Math.ceil(ms - 1e-6), MAX_HEADER_INTEGER) : 0
}

/** Returns the whole units that are left, from 0 to the quota. */
function unitsLeft(status: LimitStatus, values: HeaderValues): number {
  return status.remaining > 0 ? Math.min(Math.floor(status.remaining), values.quota) : 0
}

/**
 * Returns the milliseconds until the state improves, or `undefined` for a limit of slots: nobody knows when requests end. For a limit that denies it is the same time as `Retry-After`; with no unit
 * left it is the time until the first unit is back. For a request that is never admitted it is the time until all units are back, and
 * for a limit that admits nothing it is the window.
 */
function resetIn(status: LimitStatus, values: HeaderValues, left: number): number | undefined {
  if (values.window === undefined) return undefined
  if (values.quota === 0) return (values.window ?? 0) * 1000
  if (!status.allowed && status.retryAfter !== Infinity) return status.retryAfter
  const ms = left === 0 ? status.resetAfter - values.lag : status.resetAfter
  return ms > 0 ? ms : 0
}

/** Returns `resetIn` in whole seconds. It is at least 1 while no unit is left. */
function resetSeconds(status: LimitStatus, values: HeaderValues, left: number): number | undefined {
  const ms = resetIn(status, values, left)
  if (ms === undefined) return undefined
  const seconds = wholeSeconds(ms)
  return left === 0 && seconds === 0 ? 1 : seconds
}

/** Writes the header of a reset. A limit of slots has none: that of an earlier request limiter is about another limit. */
function writeReset(name: string, seconds: number | undefined, set: SetHeader, remove?: (name: string) => void): void {
  if (seconds === undefined) remove?.(name)
  else set(name, '' + seconds)
}

/** Returns false for a shadow limit, which no header shows. */
function isShown(limit: Limit): boolean {
  return limit.shadow !== true
}

/**
 * Returns the names of limits in the headers of one response, where each name may appear once. A name that several limits have
 * gets the name of the limiter before it, such as `api:burst`, and a number if that is not enough. Returns `undefined` when all
 * names differ already. The result has a name for each limit, in the same order.
 */
export function distinctNames(limits: readonly LimitStatus[]): readonly string[] | undefined {
  if (!repeatsName(limits)) return undefined
  const shown = limits.filter(({ limit }) => isShown(limit))
  const isRepeated = ({ limit }: LimitStatus): boolean =>
    shown.filter((other) => other.limit.name === limit.name).length > 1
  const taken = new Set(shown.filter((status) => !isRepeated(status)).map(({ limit }) => limit.name))
  return limits.map((status) => {
    if (!isShown(status.limit) || !isRepeated(status)) return status.limit.name
    const name = unused(prefixed(status), taken)
    taken.add(name)
    return name
  })
}

/** Returns true when two limits that headers show have the same name. */
function repeatsName(limits: readonly LimitStatus[]): boolean {
  for (let i = 1; i < limits.length; i++) {
    const { limit } = limits[i]!
    if (!isShown(limit)) continue
    for (let j = 0; j < i; j++) if (limits[j]!.limit.name === limit.name && isShown(limits[j]!.limit)) return true
  }
  return false
}

/** Returns the name of the limiter of a status, or `undefined` for a limiter that is not from this package. */
export function limiterNameOf(status: LimitStatus): string | undefined {
  return isCharge(status) ? status.policy.limiter : undefined
}

function prefixed(status: LimitStatus): string {
  const limiter = limiterNameOf(status)
  return limiter === undefined ? status.limit.name : `${limiter}:${status.limit.name}`
}

function unused(name: string, taken: ReadonlySet<string>): string {
  let free = name
  for (let number = 2; taken.has(free); number++) free = `${name}:${number}`
  return free
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
function policyItems(
  write: (values: HeaderValues, name: string) => Pick<PolicyItem, 'text' | 'start'>,
): (limit: Limit, name?: string) => PolicyItem {
  const items = new WeakMap<Limit, PolicyItem>()
  return function policyItem(limit, name = limit.name) {
    if (name !== limit.name) return { values: headerValuesOf(limit), ...write(headerValuesOf(limit), name), recent: [] }
    let item = items.get(limit)
    if (item === undefined) {
      const values = headerValuesOf(limit)
      items.set(limit, (item = { values, ...write(values, name), recent: [] }))
    }
    return item
  }
}

/** Returns a function that lists the policies of a decision. It keeps the latest list: most requests have the same limits. */
function policyLists(
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

/** Creates the format of one request limiter. */
function standardFormat({ unit, partition }: StandardOptions = {}): StandardFormat {
  return {
    itemOf: policyItems((values, name) => ({
      text: policyText(values, name, unit?.(values.limit.name)),
      start: `${serializeBareItem(name)};r=`,
    })),
    partition,
  }
}

/** The unit of limits of slots in the draft of the headers. */
const SLOTS = 'concurrent-requests'

function policyText({ quota, window }: HeaderValues, name: string, given: string | undefined): string {
  const parameters = new Map<string, number | string>([['q', quota]])
  const unit = window === undefined ? SLOTS : given
  if (unit !== undefined && unit !== 'requests') parameters.set('qu', unit)
  if (window !== undefined) parameters.set('w', window)
  return serializeItem(name, parameters)
}

/**
 * Writes `RateLimit-Policy` and `RateLimit` as in drafts 8 to 11. Both are lists with an item for each limit. On a denial
 * `RateLimit` has only the violated limits.
 * @see https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/
 */
function standard(format: StandardFormat): HeaderWriter {
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

/** The texts that an item keeps. Most clients of a limit have few units used, and most requests of a client come in one second. */
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

function append(list: string, item: string): string {
  return list === '' ? item : list + ', ' + item
}

/** An empty list is not sent. */
function writeBoth(policies: string, states: string, set: SetHeader): void {
  if (policies !== '') set('RateLimit-Policy', policies)
  if (states !== '') set('RateLimit', states)
}

/** The names of draft 6, except `RateLimit-Policy`. */
const DRAFT_6_NAMES = {
  limit: 'RateLimit-Limit',
  remaining: 'RateLimit-Remaining',
  reset: 'RateLimit-Reset',
} as const

const policyItem = policyItems(({ quota, window }) => ({
  text: serializeItem(quota, new Map<string, number | string>([window === undefined ? ['qu', SLOTS] : ['w', window]])),
  start: '',
}))

/** Writes `RateLimit-Limit`, `-Remaining` and `-Reset` of the binding limit, and `RateLimit-Policy`, as in draft 6. */
function draft6(): HeaderWriter {
  const policiesOf = numberedPolicies()
  return function writeDraft6(decision, _now, set, _formatOf, remove) {
    const { binding } = decision
    if (binding === undefined) return
    const values = headerValuesOf(binding.limit)
    const left = unitsLeft(binding, values)
    set('RateLimit-Policy', policiesOf(decision))
    set(DRAFT_6_NAMES.limit, '' + values.quota)
    set(DRAFT_6_NAMES.remaining, '' + left)
    writeReset(DRAFT_6_NAMES.reset, resetSeconds(binding, values, left), set, remove)
  }
}

/** Writes `RateLimit` as a dictionary of the binding limit, and `RateLimit-Policy`, as in draft 7. */
function draft7(): HeaderWriter {
  const policiesOf = numberedPolicies()
  return function writeDraft7(decision, _now, set) {
    const { binding } = decision
    if (binding === undefined) return
    const values = headerValuesOf(binding.limit)
    const left = unitsLeft(binding, values)
    set('RateLimit-Policy', policiesOf(decision))
    const seconds = resetSeconds(binding, values, left)
    const reset = seconds === undefined ? '' : ', reset=' + seconds
    set('RateLimit', 'limit=' + values.quota + ', remaining=' + left + reset)
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

/**
 * A limit that denies goes first, and of two such limits the one with the longer wait. Then comes the one with fewer units left, then the
 * one that resets later.
 */
function isUsedUpSooner(a: LimitStatus, b: LimitStatus): boolean {
  if (a.allowed !== b.allowed) return b.allowed
  if (!a.allowed && a.retryAfter !== b.retryAfter) return a.retryAfter > b.retryAfter
  const less = unitsLeft(a, headerValuesOf(a.limit)) - unitsLeft(b, headerValuesOf(b.limit))
  return less === 0 ? a.resetAfter > b.resetAfter : less < 0
}

const LEGACY_NAMES = {
  limit: 'X-RateLimit-Limit',
  remaining: 'X-RateLimit-Remaining',
  reset: 'X-RateLimit-Reset',
} as const

const GITHUB_NAMES = {
  limit: 'x-ratelimit-limit',
  remaining: 'x-ratelimit-remaining',
  used: 'x-ratelimit-used',
  reset: 'x-ratelimit-reset',
  resource: 'x-ratelimit-resource',
} as const

/** Writes `X-RateLimit-Limit`, `-Remaining` and `-Reset` of the binding limit. The reset is in seconds from now. */
function legacy(names: PartNames<keyof typeof LEGACY_NAMES>): HeaderWriter {
  return function writeLegacy({ binding }, _now, set, _formatOf, remove) {
    if (binding === undefined) return
    const values = headerValuesOf(binding.limit)
    const left = unitsLeft(binding, values)
    if (names.limit !== false) set(names.limit, '' + values.quota)
    if (names.remaining !== false) set(names.remaining, '' + left)
    if (names.reset !== false) writeReset(names.reset, resetSeconds(binding, values, left), set, remove)
  }
}

/** Writes the headers of GitHub's API for the binding limit. The reset is in epoch seconds. */
function github(names: PartNames<keyof typeof GITHUB_NAMES>): HeaderWriter {
  return function writeGithub({ binding, limits }, now, set, _formatOf, remove) {
    if (binding === undefined) return
    const values = headerValuesOf(binding.limit)
    const left = unitsLeft(binding, values)
    if (names.limit !== false) set(names.limit, '' + values.quota)
    if (names.remaining !== false) set(names.remaining, '' + left)
    if (names.used !== false) set(names.used, '' + (values.quota - left))
    const reset = resetIn(binding, values, left)
    if (names.reset !== false)
      writeReset(names.reset, reset === undefined ? undefined : epochSeconds(now + reset), set, remove)
    if (names.resource !== false)
      set(names.resource, distinctNames(limits)?.[limits.indexOf(binding)] ?? binding.limit.name)
  }
}

function epochSeconds(ms: number): number {
  return Math.min(Math.ceil(ms / 1000), MAX_HEADER_INTEGER)
}

/** The headers of one limit, in a style with headers for each limit. `reset` is absent for a limit without a promised time. */
interface LimitHeaders {
  readonly limit: string
  readonly remaining: string
  readonly reset: string | undefined
}

/** The names of the headers in a style with headers for each limit. */
interface LimitHeaderNames {
  namesOf(limit: Limit): LimitHeaders
  /** Matches all names that the style can write. */
  readonly pattern: RegExp
}

/** Keeps the names, since most requests have the same limits. */
function limitHeaderNames(
  pattern: RegExp,
  nameOf: (part: keyof LimitHeaders, limit: string) => string,
): LimitHeaderNames {
  const known = new WeakMap<Limit, LimitHeaders>()
  return {
    pattern,
    namesOf(limit) {
      let names = known.get(limit)
      if (names === undefined) {
        const token = headerToken(limit.name)
        // Nobody knows when a slot of a running request is released.
        const reset = findCompiled(limit)?.slots === true ? undefined : nameOf('reset', token)
        names = { limit: nameOf('limit', token), remaining: nameOf('remaining', token), reset }
        known.set(limit, names)
      }
      return names
    },
  }
}

/**
 * Returns the name of a limit as a part of a header's name: in lower case, with `-` for each character that is not allowed there.
 * @example headerToken('Tokens per day') // 'tokens-per-day'
 */
function headerToken(name: string): string {
  return name.toLowerCase().replace(/[^!#$%&'*+.^_`|~\da-z-]/g, '-')
}

const OPENAI = limitHeaderNames(
  /^x-ratelimit-(?:limit|remaining|reset)-./,
  (part, name) => `x-ratelimit-${part}-${name}`,
)

const ANTHROPIC = limitHeaderNames(
  /^anthropic-ratelimit-.+-(?:limit|remaining|reset)$/,
  (part, name) => `anthropic-ratelimit-${name}-${part}`,
)

/**
 * Creates a writer of three headers for each limit: the quota, the units that are left, and when the whole quota is available. If several
 * limits have the same headers, it writes the one that is used up sooner.
 * @param resetText writes milliseconds from now
 */
function perLimit({ namesOf }: LimitHeaderNames, resetText: (ms: number, now: number) => string): HeaderWriter {
  return function writePerLimit({ limits }, now, set) {
    const kept = new Map<string, LimitStatus>()
    for (const status of limits) {
      if (!isShown(status.limit)) continue
      const { limit } = namesOf(status.limit)
      const other = kept.get(limit)
      if (other === undefined || isUsedUpSooner(status, other)) kept.set(limit, status)
    }
    for (const status of kept.values()) {
      const names = namesOf(status.limit)
      const values = headerValuesOf(status.limit)
      const left = unitsLeft(status, values)
      set(names.limit, '' + values.quota)
      set(names.remaining, '' + left)
      if (names.reset !== undefined) set(names.reset, resetText(wholeQuotaIn(status, values, left), now))
    }
  }
}

/**
 * Returns the milliseconds until the whole quota is available, at least the wait of a limit that denies. It is at least 1 while no unit is
 * left. For a limit that admits nothing it is the window.
 */
function wholeQuotaIn({ retryAfter: wait, resetAfter }: LimitStatus, values: HeaderValues, left: number): number {
  if (values.quota === 0) return (values.window ?? 0) * 1000
  const ms = Math.max(resetAfter, wait === Infinity ? 0 : wait)
  const least = left === 0 ? 1 : 0
  return ms > least ? ms : least
}

/** The longest duration of Go in whole seconds, in milliseconds: 292 years. */
const LONGEST_GO_DURATION = 9_223_372_036_000

/**
 * Returns a duration as Go writes it, in whole milliseconds, rounded up. OpenAI's API does so.
 * @example goDuration(360_000) // '6m0s'
 * @example goDuration(12) // '12ms'
 */
function goDuration(ms: number): string {
  const whole = Math.min(wholeMilliseconds(ms), LONGEST_GO_DURATION)
  if (whole > 0 && whole < 1000) return `${whole}ms`
  const [hours, minutes] = [Math.floor(whole / 3_600_000), Math.floor(whole / 60_000) % 60]
  const seconds = `${(whole % 60_000) / 1000}s`
  if (hours > 0) return `${hours}h${minutes}m${seconds}`
  return minutes > 0 ? `${minutes}m${seconds}` : seconds
}

/** The last second of year 9999. Years of RFC 3339 have four digits. */
const LAST_SECOND = 253_402_300_799

/** Returns a time as in RFC 3339, in whole seconds of UTC, rounded up. */
function rfc3339(ms: number): string {
  const seconds = Math.max(0, Math.min(epochSeconds(ms), LAST_SECOND))
  return new Date(seconds * 1000).toISOString().replace('.000Z', 'Z')
}

/** A style of headers. */
interface Style {
  writer(format: StandardFormat, names: HeaderNames): HeaderWriter
  /** Returns the syntax of each header by its name. Two styles can share a header only if its syntax is the same. */
  syntaxes(names: HeaderNames): Readonly<Record<string, string>>
  /** True when the writer reads the time. */
  readonly needsTime?: true
  /** Set for the styles of language models: their headers have the names of limits, and a denial also has `retry-after-ms`. */
  readonly perLimit?: LimitHeaderNames
}

const NEWEST: Style = { writer: standard, syntaxes: () => ({ RateLimit: 'items', 'RateLimit-Policy': 'items' }) }

/** All styles. A new style is a writer, and an entry here. */
const STYLES: Readonly<Record<HeaderStyle, Style>> = {
  standard: NEWEST,
  'draft-8': NEWEST,
  'draft-7': { writer: draft7, syntaxes: () => ({ RateLimit: 'dictionary', 'RateLimit-Policy': 'numbers' }) },
  'draft-6': {
    writer: draft6,
    syntaxes: () => ({ ...partSyntaxes(DRAFT_6_NAMES, 'seconds'), 'RateLimit-Policy': 'numbers' }),
  },
  legacy: {
    writer: (_format, names) => legacy(partNames(LEGACY_NAMES, names)),
    syntaxes: (names) => partSyntaxes(partNames(LEGACY_NAMES, names), 'seconds'),
  },
  github: {
    writer: (_format, names) => github(partNames(GITHUB_NAMES, names)),
    syntaxes: (names) => partSyntaxes(partNames(GITHUB_NAMES, names), 'epoch'),
    needsTime: true,
  },
  openai: { writer: () => perLimit(OPENAI, goDuration), syntaxes: () => ({}), perLimit: OPENAI },
  anthropic: {
    writer: () => perLimit(ANTHROPIC, (ms, now) => rfc3339(now + ms)),
    syntaxes: () => ({}),
    needsTime: true,
    perLimit: ANTHROPIC,
  },
}

/** The same part is the same text in all styles with the same unit of time. */
function partSyntaxes(names: Readonly<Record<string, string | false>>, unit: string): Readonly<Record<string, string>> {
  const written = Object.entries(names).filter((entry): entry is [string, string] => entry[1] !== false)
  return Object.fromEntries(written.map(([part, name]) => [name, `${part} in ${unit}`]))
}

/** The checked header options of a request limiter. */
export interface HeaderConfig {
  readonly styles: readonly HeaderStyle[]
  readonly names: HeaderNames
  readonly format: StandardFormat
  readonly write: HeaderWriter
}

/** The configuration of request limiters without any header option. */
export const DEFAULT_CONFIG: HeaderConfig = createConfig(['standard'], {}, standardFormat())

function createConfig(styles: readonly HeaderStyle[], names: HeaderNames, format: StandardFormat): HeaderConfig {
  return { styles, names, format, write: headerWriter({ styles, names, format }) }
}

/** Checks header options. Throws `INVALID_OPTION`, also for two styles that write the same header in different ways. */
export function headerConfig(options: HeaderOptions): HeaderConfig {
  const styles = chosenStyles(options)
  const names = chosenNames(options, styles)
  const format = standardOptions(options)
  const clash = clashBetween({ styles, names })
  if (clash !== undefined) throw new SluiceError('INVALID_OPTION', `headers: ${clash}; choose one of them`)
  const isDefault = styles.join() === 'standard' && format.unit === undefined && format.partition === undefined
  return isDefault ? DEFAULT_CONFIG : createConfig(styles, names, standardFormat(format))
}

/**
 * Returns a function that writes the headers of a decision. It writes nothing about shadow limits, and nothing when the store
 * did not answer.
 * @example
 * const write = headerWriter(headerConfig({ headers: 'legacy' }))
 * write(decision, Date.now(), (name, value) => response.setHeader(name, value))
 */
export function headerWriter({ styles, names, format }: Omit<HeaderConfig, 'write'>): HeaderWriter {
  const writers = styles.map((style) => STYLES[style].writer(format, names))
  return function writeHeaders(decision, now, set, formatOf, remove) {
    if (!isAnswered(decision)) return
    for (let i = 0; i < writers.length; i++) writers[i]!(decision, now, set, formatOf, remove)
  }
}

/** Returns false when the store did not answer, so that nothing is known about the limits. */
export function isAnswered({ degraded }: Decision): boolean {
  return degraded !== 'open' && degraded !== 'closed'
}

/** Returns true when the headers of a decision depend on the time of day. */
export function needsTime({ styles }: HeaderConfig): boolean {
  return styles.some((style) => STYLES[style].needsTime === true)
}

/** Returns true when a denial has `retry-after-ms` beside `Retry-After`. */
export function hasMilliseconds({ styles }: HeaderConfig): boolean {
  return styles.some((style) => STYLES[style].perLimit !== undefined)
}

/**
 * Returns the names of the headers that are written for limits. `Retry-After` and `retry-after-ms` are not among them.
 * @example writtenHeaders(headerConfig({}), decision.limits) // ['RateLimit', 'RateLimit-Policy']
 */
export function writtenHeaders(config: HeaderConfig, limits: readonly LimitStatus[]): readonly string[] {
  const fixed = writtenBy(config).map(({ header }) => header)
  const shown = limits.filter(({ limit }) => isShown(limit))
  const ofLimits = perLimitStyles(config).flatMap((style) =>
    shown.flatMap(({ limit }) => Object.values(STYLES[style].perLimit!.namesOf(limit)) as (string | undefined)[]),
  )
  return [...new Set([...fixed, ...ofLimits.filter((name) => name !== undefined)])]
}

/** Returns the names of the headers that scripts may read, for `Access-Control-Expose-Headers`. */
export function exposedHeaders(config: HeaderConfig, limits: readonly LimitStatus[]): readonly string[] {
  return ['Retry-After', ...(hasMilliseconds(config) ? [RETRY_AFTER_MS] : []), ...writtenHeaders(config, limits)]
}

function perLimitStyles({ styles }: Pick<HeaderConfig, 'styles'>): readonly HeaderStyle[] {
  return styles.filter((style) => STYLES[style].perLimit !== undefined)
}

/** A header that a style writes. */
interface WrittenHeader {
  readonly style: HeaderStyle
  readonly header: string
  readonly syntax: string
}

function writtenBy({ styles, names }: Pick<HeaderConfig, 'styles' | 'names'>): readonly WrittenHeader[] {
  return styles.flatMap((style) =>
    Object.entries(STYLES[style].syntaxes(names)).map(([header, syntax]) => ({ style, header, syntax })),
  )
}

/** Returns a description of two styles that write the same header in different ways, if there are such. */
export function clashBetween(...configs: readonly Pick<HeaderConfig, 'styles' | 'names'>[]): string | undefined {
  const seen = new Map<string, WrittenHeader>()
  const forEachLimit = configs.flatMap(perLimitStyles)
  for (const each of configs.flatMap(writtenBy)) {
    const name = each.header.toLowerCase()
    const same = seen.get(name) ?? each
    const other = same.syntax === each.syntax ? forEachLimit.find((style) => canWrite(style, name)) : same.style
    if (other !== undefined) return `${shown(other)} and ${shown(each.style)} both write ${each.header}`
    seen.set(name, each)
  }
  return undefined
}

/** Returns true if a style with headers for each limit writes this header for some name of a limit. */
function canWrite(style: HeaderStyle, header: string): boolean {
  return STYLES[style].perLimit?.pattern.test(header) === true
}
