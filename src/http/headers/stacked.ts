import type { Limiter } from '../../limiter/contract.ts'
import { combine, type Decision } from '../../limiter/decision.ts'
import { chargeSourcesOf } from '../../limiter/default-limiter.ts'
import { isCharge, type LimitStatus } from '../../stores/store.ts'
import { shared } from '../../util/copies.ts'
import type { HttpAdapter } from '../adapter.ts'
import { checksOf } from '../checking.ts'
import { withNames } from './cors.ts'
import { limiterNameOf } from './names.ts'
import type { HeaderOptions } from './options.ts'
import { isAnswered } from './standard.ts'
import {
  DEFAULT_CONFIG,
  exposedHeaders,
  hasMilliseconds,
  type HeaderConfig,
  headerConfig,
  headerWriter,
} from './styles.ts'
import type { StandardFormat } from './types.ts'

/** What a request has passed until one of its decisions, for later request limiters and for the headers of its response. */
export interface Pass {
  /** All limits that the headers describe, as one decision. */
  readonly shown: Decision
  /** The request limiters that were passed, in this order. */
  readonly parts: readonly HeaderPart[]
}

/** The decision of one request limiter, and its header options. */
export interface HeaderPart {
  readonly decision: Decision
  readonly config: HeaderConfig
}

/** The passes by their latest decisions. A first pass is not in it if the limiter implies the header options: `passOf` makes it again. */
const passes = shared('passes', () => new WeakMap<Decision, Pass>())

/**
 * The header options of the first request limiter of each limiter. With them, decisions of most request limiters need no entry: an entry for each request
 * takes 2.5 µs, which is more than writing the headers.
 */
const impliedConfigs = shared('configs of limiters', () => new WeakMap<object, HeaderConfig>())

const NO_LIMITS: Decision = combine([], undefined)

/** Returns a function that makes the pass of a decision and keeps it. */
export function passRecorder(
  limiter: Limiter<never>,
  config: HeaderConfig,
): (earlier: Pass | undefined, decision: Decision) => Pass {
  const homes = chargeSourcesOf(limiter).map(({ home }) => home)
  for (const home of homes) if (!impliedConfigs.has(home)) impliedConfigs.set(home, config)
  const isImplied = homes.length > 0 && homes.every((home) => impliedConfigs.get(home) === config)
  return function recordPass(earlier, decision) {
    const pass = passAfter(earlier, { decision, config })
    const isKnown = isImplied && earlier === undefined && isCharge(decision.limits[0])
    if (!isKnown) passes.set(decision, pass)
    return pass
  }
}

function passAfter(earlier: Pass | undefined, part: HeaderPart): Pass {
  const isSilent = part.config.styles.length === 0
  if (earlier === undefined) return { shown: isSilent ? NO_LIMITS : part.decision, parts: [part] }
  const shown = isSilent ? earlier.shown : mergeDecisions(earlier.shown, part.decision)
  return { shown, parts: [...earlier.parts, part] }
}

/** Returns the latest pass of a request. Other packages also store a value as `rateLimit`, so it is only used if it is a decision. */
export function latestPass<Request>(
  adapter: Pick<HttpAdapter<Request, never, never, never>, 'getDecision'>,
  request: Request,
): Pass | undefined {
  const found = adapter.getDecision(request) as Partial<Decision> | null | undefined
  return Array.isArray(found?.limits) ? passOf(found as Decision) : undefined
}

/** Returns the pass of a decision, also if no request limiter made it. */
function passOf(decision: Decision): Pass {
  const [first] = decision.limits
  const config = isCharge(first) ? impliedConfigs.get(first.policy.home) : undefined
  return passes.get(decision) ?? passAfter(undefined, { decision, config: config ?? DEFAULT_CONFIG })
}

/**
 * Merges two decisions about one request. A limit that both have applied to the same key, under the same name of a limiter, appears once, with the stricter
 * status. Limits of a store that did not answer do not appear.
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

/** Returns all limits that the headers of a response show after a decision, as one decision. */
export function shownTogether(decision: Decision): Decision {
  return passOf(decision).shown
}

/** Returns the names of the headers that scripts may read, in the styles of all request limiters. */
export function exposedIn({ shown, parts }: Pass): readonly string[] {
  return [...new Set(parts.flatMap(({ config }) => exposedHeaders(config, shown.limits)))]
}

/** Returns these names for the latest pass of a request; none for a request that was not limited. */
export function exposedAfter<Request>(
  adapter: Pick<HttpAdapter<Request, never, never, never>, 'getDecision'>,
  request: Request,
): readonly string[] {
  const latest = latestPass(adapter, request)
  return latest === undefined ? [] : exposedIn(latest)
}

/** Returns true if a response shows a denial in a style with `retry-after-ms`. */
export function showsMilliseconds(decision: Decision): boolean {
  return passOf(decision).parts.some(({ config }) => hasMilliseconds(config))
}

/**
 * Writes the headers of a decision, merged with the headers of earlier request limiters. Writes nothing without a response.
 */
export type StackedHeaderWriter<Response> = (
  decision: Decision,
  earlier: Pass | undefined,
  response: Response | undefined,
  request: object,
) => void

export type ResponseHeaders<Response> = Pick<
  HttpAdapter<never, Response, never, never>,
  'getHeader' | 'setHeader' | 'removeHeader'
>

/** Creates the header writer of a request limiter. Throws `INVALID_OPTION`, `UNKNOWN_OPTION`. */
export function stackedHeaderWriter<Response>(
  options: HeaderOptions,
  adapter: ResponseHeaders<Response>,
  limiter: Limiter<never>,
): StackedHeaderWriter<Response> {
  const config = headerConfig(options)
  const recordPass = passRecorder(limiter, config)
  // `config.write` is not used: all request limiters without header options share it, and a writer keeps its latest list of policies.
  const write = headerWriter(config)
  // There is one function for all requests. Headers are written synchronously, so no other response can come between.
  let current: Response
  const set = (name: string, value: string): void => adapter.setHeader(current, name, value)
  const remove = (name: string): void => adapter.removeHeader?.(current, name)

  /** Adds names to `Access-Control-Expose-Headers` of a response with CORS headers. */
  function writeExposed(response: Response, names: () => readonly string[]): void {
    const existing = adapter.getHeader(response, 'access-control-expose-headers') || undefined
    const cors = existing ?? adapter.getHeader(response, 'access-control-allow-origin')
    if (cors === undefined || cors === '') return
    adapter.setHeader(response, 'Access-Control-Expose-Headers', withNames(String(existing ?? ''), names()))
  }

  function writeMerged({ shown, parts }: Pass, latest: Decision, response: Response): void {
    current = response
    const now = parts.some(({ config: { needsTime } }) => needsTime) ? timeOf(latest) : 0
    const formatOf = parts.every((part) => part.config === config) ? undefined : formatsOf(parts)
    // Earlier headers may be in another style. They describe an admitted request, so a denial replaces them.
    if (!latest.allowed) for (const each of otherConfigs(parts, config)) each.write(shown, now, set, formatOf, remove)
    write(shown, now, set, formatOf, remove)
  }

  return function writeHeaders(decision, earlier, response, request) {
    if (earlier !== undefined) checksOf(request)?.warnOfClashes(write, config, earlier.parts)
    const pass = recordPass(earlier, decision)
    if (response === undefined) return
    writeExposed(response, () => exposedIn(pass))
    if (config.styles.length > 0) writeMerged(pass, decision, response)
  }
}

/** Returns a function from a status to the format of its request limiter. */
function formatsOf(parts: readonly HeaderPart[]): (status: LimitStatus) => StandardFormat {
  return function formatOf(status) {
    const part = parts.find(({ decision }) => decision.limits.includes(status))
    return (part?.config ?? DEFAULT_CONFIG).format
  }
}

function otherConfigs(parts: readonly HeaderPart[], own: HeaderConfig): readonly HeaderConfig[] {
  return [...new Set(parts.map(({ config }) => config))].filter((config) => config !== own)
}

/** Returns epoch milliseconds by the clock of the store that decided, or by `Date` if the user has given no clock. */
export function timeOf({ limits: [first] }: Decision): number {
  const clock = isCharge(first) ? first.policy.store.clock : undefined
  return clock?.given === true ? clock.now() : Date.now()
}
