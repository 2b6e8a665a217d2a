import { combine, type Decision } from '../limiter/decision.ts'
import { type Charge, isCharge, type LimitStatus } from '../stores/store.ts'
import { clashWarner, isChecked, warnMountedTwice, warnSamePlace } from './checks.ts'
import {
  DEFAULT_CONFIG,
  exposedHeaders,
  exposedWriter,
  hasMilliseconds,
  type HeaderConfig,
  headerConfig,
  headerWriter,
  isAnswered,
  limiterNameOf,
  needsTime,
} from './headers/styles.ts'
import type { HeaderOptions } from './headers/options.ts'
import type { ResponseHeaders, StandardFormat } from './headers/types.ts'
import type { ChargeSource } from '../limiter/charges.ts'
import type { Limiter } from '../limiter/contract.ts'
import { chargeSourcesOf } from '../limiter/default-limiter.ts'
import { isSharedHome } from '../limiter/registration.ts'
import { preflightLimiterOf } from '../limiter/adapted.ts'
import { isMemoryPlace } from '../stores/memory/key-counts.ts'
import { shared } from '../util/copies.ts'
import { chain, collect, type MaybePromise } from '../util/maybe-promise.ts'
import type { HttpAdapter } from './adapter.ts'
import type { Preflights } from './options.ts'

/** The rate-limit headers of a response that passes several request limiters. */
interface MergedHeaders {
  /** All limits that the headers describe, as one decision. */
  readonly decision: Decision
  /** The request limiters that were passed, in this order. */
  readonly parts: readonly HeaderPart[]
}

/** The decision of one request limiter, and its header options. */
interface HeaderPart {
  readonly decision: Decision
  readonly config: HeaderConfig
}

/**
 * Writes the headers of a decision, merged with the headers of earlier request limiters. Writes nothing without a response.
 * @returns the merged headers, or `undefined` when they are just `impliedHeaders(decision)`
 */
type StackedHeaderWriter<Response> = (
  decision: Decision,
  earlier: MergedHeaders | undefined,
  response: Response | undefined,
  request: object,
) => MergedHeaders | undefined

const NO_LIMITS: Decision = combine([], undefined)

/** Creates the header writer of a request limiter. Throws `INVALID_OPTION`, `UNKNOWN_OPTION`. */
export function stackedHeaderWriter<Response>(
  options: HeaderOptions,
  adapter: ResponseHeaders<Response>,
  limiter: Limiter<never>,
): StackedHeaderWriter<Response> {
  const config = headerConfig(options)
  const isImplied = implyConfig(limiter, config)
  // Not `config.write`, which all request limiters without header options share: a writer keeps its latest list of policies.
  const write = headerWriter(config)
  const writeExposed = exposedWriter(adapter)
  const warnOfClashes = clashWarner(config)
  const readsTime = needsTime(config)
  // One function for all requests: headers are written synchronously, so that no other response can come between.
  let current: Response
  const set = (name: string, value: string): void => adapter.setHeader(current, name, value)
  const remove = (name: string): void => adapter.removeHeader?.(current, name)

  function writeMerged({ decision, parts }: MergedHeaders, latest: Decision, response: Response): void {
    current = response
    const now = timeOf(latest)
    const formatOf = parts.every((part) => part.config === config) ? undefined : formatsOf(parts)
    // Earlier headers may be in another style. They describe an admitted request, so a denial replaces them.
    if (!latest.allowed)
      for (const each of otherConfigs(parts, config)) each.write(decision, now, set, formatOf, remove)
    write(decision, now, set, formatOf, remove)
  }

  return function writeHeaders(decision, earlier, response, request) {
    if (earlier === undefined) {
      current = response as Response
      if (response !== undefined) {
        writeExposed(response, () => exposedHeaders(config, decision.limits))
        write(decision, readsTime ? timeOf(decision) : 0, set)
      }
      return isImplied && (config === DEFAULT_CONFIG || decision.limits.length > 0)
        ? undefined
        : headersOf(decision, config)
    }
    if (isChecked(request)) warnOfClashes(earlier.parts)
    const merged = mergeHeaders(earlier, { decision, config })
    if (response !== undefined) {
      writeExposed(response, () => exposedIn(merged))
      if (!isSilent(config)) writeMerged(merged, decision, response)
    }
    return merged
  }
}

/**
 * The header options of the first request limiter of each limiter. So nothing has to be stored for a decision of most request limiters:
 * an entry for each request costs more than writing the headers.
 */
const impliedConfigs = shared('configs of limiters', () => new WeakMap<object, HeaderConfig>())

/** Returns true if the decisions of a limiter imply these header options, as no earlier request limiter of it has others. */
function implyConfig(limiter: Limiter<never>, config: HeaderConfig): boolean {
  const homes = chargeSourcesOf(limiter).map(({ home }) => home)
  for (const home of homes) if (!impliedConfigs.has(home)) impliedConfigs.set(home, config)
  return homes.length === 0 ? config === DEFAULT_CONFIG : homes.every((home) => impliedConfigs.get(home) === config)
}

/** Returns the headers of a decision whose pass was not stored. */
function impliedHeaders(decision: Decision): MergedHeaders {
  const [first] = decision.limits
  const config = isCharge(first) ? impliedConfigs.get(first.policy.home) : undefined
  return headersOf(decision, config ?? DEFAULT_CONFIG)
}

function headersOf(decision: Decision, config: HeaderConfig): MergedHeaders {
  return { decision: isSilent(config) ? NO_LIMITS : decision, parts: [{ decision, config }] }
}

function mergeHeaders({ decision, parts }: MergedHeaders, part: HeaderPart): MergedHeaders {
  return {
    decision: isSilent(part.config) ? decision : mergeDecisions(decision, part.decision),
    parts: [...parts, part],
  }
}

/** Returns true for a request limiter without headers. */
function isSilent({ styles }: HeaderConfig): boolean {
  return styles.length === 0
}

/**
 * Returns two decisions about one request as one decision. A limit that both applied to the same key, under one name of a limiter, appears
 * once, with the stricter status. Limits of a store that did not answer do not appear.
 */
export function mergeDecisions(earlier: Decision, later: Decision): Decision {
  if (!isAnswered(later)) return earlier
  if (!isAnswered(earlier)) return later
  const before = earlier.limits.filter((status) => !later.limits.some((again) => isStricter(again, status)))
  const after = later.limits.filter((status) => !before.some((other) => hasSameLimitAndKey(other, status)))
  return combine([...before, ...after], later.degraded ?? earlier.degraded)
}

function isStricter(later: LimitStatus, earlier: LimitStatus): boolean {
  return hasSameLimitAndKey(later, earlier) && (!later.allowed || later.remaining <= earlier.remaining)
}

function hasSameLimitAndKey(a: LimitStatus, b: LimitStatus): boolean {
  return a.limit === b.limit && a.key === b.key && limiterNameOf(a) === limiterNameOf(b)
}

/** Returns a function that finds the format of the request limiter that a status belongs to. */
function formatsOf(parts: readonly HeaderPart[]): (status: LimitStatus) => StandardFormat {
  return function formatOf(status) {
    const part = parts.find(({ decision }) => decision.limits.includes(status))
    return (part?.config ?? DEFAULT_CONFIG).format
  }
}

function otherConfigs(parts: readonly HeaderPart[], own: HeaderConfig): readonly HeaderConfig[] {
  return [...new Set(parts.map(({ config }) => config))].filter((config) => config !== own)
}

/** Returns epoch milliseconds by the clock of the store that decided, or by `Date` when the store has no clock. */
export function timeOf({ limits: [first] }: Decision): number {
  const clock = isCharge(first) ? first.policy.store.clock : undefined
  return clock?.given === true ? clock.now() : Date.now()
}

/** What one request limiter decided about a request. The passes of a request are a list, the latest first. */
export interface Pass {
  readonly decision: Decision
  readonly earlier: Pass | undefined
  /** The headers that the response has since this pass. */
  readonly headers: MergedHeaders
}

/** By decision. A first pass is not in it if the limiter implies the header options: `passOf` derives it. */
const passes = shared('passes', () => new WeakMap<Decision, Pass>())

/** Returns the latest pass of a request. Other packages, too, store a value as `rateLimit`; only a decision counts. */
export function latestPass<Request>(
  adapter: Pick<HttpAdapter<Request, never, never, never>, 'getDecision'>,
  request: Request,
): Pass | undefined {
  const found = adapter.getDecision(request) as Partial<Decision> | null | undefined
  return Array.isArray(found?.limits) ? passOf(found as Decision) : undefined
}

function passOf(decision: Decision): Pass {
  return passes.get(decision) ?? { decision, earlier: undefined, headers: impliedHeaders(decision) }
}

/** Returns all limits that the headers of a response show since a decision. */
export function shownTogether(decision: Decision): Decision {
  return passOf(decision).headers.decision
}

/** Returns the names of the headers that scripts may read, in the styles of all request limiters. */
function exposedIn({ decision, parts }: MergedHeaders): readonly string[] {
  return [...new Set(parts.flatMap(({ config }) => exposedHeaders(config, decision.limits)))]
}

/**
 * Returns the names of the headers that scripts may read on a response that exists only after its decision.
 * @param decision the latest decision, or `undefined` for a request that was not limited
 */
export function exposedAfter(config: HeaderConfig, decision: Decision | undefined): readonly string[] {
  const own = exposedHeaders(config, [])
  return decision === undefined ? own : [...new Set([...own, ...exposedIn(passOf(decision).headers)])]
}

/** Returns true if a response shows a denial in a style with `retry-after-ms`. */
export function showsMilliseconds(decision: Decision): boolean {
  return passOf(decision).headers.parts.some(({ config }) => hasMilliseconds(config))
}

/** Keeps a pass for the request limiters that follow. `headers` is `undefined` for the implied headers of the decision alone. */
export function recordPass(decision: Decision, earlier: Pass | undefined, headers: MergedHeaders | undefined): void {
  if (headers !== undefined) passes.set(decision, { decision, earlier, headers })
}

/**
 * Finds the decision that already counted what a limiter is about to count for a request. Returns `undefined` when the limiter
 * would count anything else. If the request is checked, it warns when a limit would count the same request twice.
 */
type FindCounted<Request> = (request: Request, latest: Pass) => MaybePromise<Decision | undefined>

/** Creates the function for one limiter. It asks no store: the same limit and the same key are enough. */
function countedFinder<Request>(limiter: Limiter<Request>): FindCounted<Request> {
  const builders = chargeSourcesOf(limiter)
  const homes = builders.map(({ home }) => home)

  function findIn(request: object, latest: Pass, charges: readonly Charge[]): Decision | undefined {
    const warns = isChecked(request)
    let isCountedInPart = false
    for (let pass: Pass | undefined = latest; pass !== undefined; pass = pass.earlier) {
      const { limits } = pass.decision
      const common = charges.filter((charge) => limits.some((status) => countsTogether(charge, status)))
      if (common.length > 0 && common.length === charges.length) {
        if (warns) warnMountedTwice(limiter, builders, true)
        return pass.decision
      }
      isCountedInPart ||= common.length > 0
      if (warns && charges.some((charge) => limits.some((status) => countsApart(charge, status))))
        warnSamePlace(limiter, builders)
    }
    if (warns && isCountedInPart) warnMountedTwice(limiter, builders, false)
    return undefined
  }

  return function findCounted(request, latest) {
    if (!hasCountedFor(homes, builders, latest)) return undefined
    const charges = collect(builders, (builder) => builder.charges(request, undefined))
    return chain(charges, (known) => findIn(request as object, latest, known.flat()))
  }
}

/** Returns true when one of these limiters took part in a pass, or one of the same name, so that a closer look is needed. */
function hasCountedFor(homes: readonly object[], builders: readonly ChargeSource<never>[], latest: Pass): boolean {
  for (let pass: Pass | undefined = latest; pass !== undefined; pass = pass.earlier) {
    for (const status of pass.decision.limits) {
      if (!isCharge(status)) continue
      const { home, limiter } = status.policy
      if (homes.includes(home) || builders.some(({ name }) => limiter.startsWith(name))) return true
    }
  }
  return false
}

/** Returns true for the same limit of the same limiter and the same key. */
function countsTogether(charge: Charge, status: LimitStatus): boolean {
  if (!isCharge(status) || charge.policy.home !== status.policy.home) return false
  if (charge.policy.limiter !== status.policy.limiter) return false
  return charge.limit.name === status.limit.name && charge.key === status.key
}

/** Returns true for the same limit, name and key on two stores. Memory stores count in two places for sure. */
function countsApart(charge: Charge, status: LimitStatus): boolean {
  if (!isCharge(status) || charge.key !== status.key || charge.limit.name !== status.limit.name) return false
  const [one, other] = [charge.policy, status.policy]
  if (one.limiter !== other.limiter || one.store.place === other.store.place) return false
  if (isMemoryPlace(one.store.place) || isMemoryPlace(other.store.place)) return false
  return !isSharedHome(one.home) && !isSharedHome(other.home)
}

/** How a request limiter counts one kind of requests: preflights, or all others. */
export interface RequestLane<Request, Response> {
  readonly limiter: Limiter<Request>
  readonly findCounted: FindCounted<Request>
  readonly writeHeaders: StackedHeaderWriter<Response>
}

export function laneOf<Request, Response>(
  limiter: Limiter<Request>,
  writeHeaders: StackedHeaderWriter<Response>,
): RequestLane<Request, Response> {
  return { limiter, findCounted: countedFinder(limiter), writeHeaders }
}

/** Returns how preflights count: in their own buckets and without headers, like all requests, or not at all (`undefined`). */
export function preflightLaneOf<Request, Response>(
  preflights: Preflights = 'separate',
  requests: RequestLane<Request, Response>,
  adapter: ResponseHeaders<Response>,
): RequestLane<Request, Response> | undefined {
  if (preflights === 'skip') return undefined
  if (preflights === 'count') return requests
  const limiter = preflightLimiterOf(requests.limiter)
  return laneOf(limiter, stackedHeaderWriter({ headers: false }, adapter, limiter))
}
