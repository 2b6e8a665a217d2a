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
import { DEFAULT_CONFIG, exposedHeaders, type HeaderConfig, headerConfig, headerWriter, needsTime } from './styles.ts'
import type { StandardFormat } from './types.ts'

/** The rate-limit headers of a response that passes several request limiters. */
export interface MergedHeaders {
  /** All limits that the headers describe, as one decision. */
  readonly decision: Decision
  /** The request limiters that were passed, in this order. */
  readonly parts: readonly HeaderPart[]
}

/** The decision of one request limiter, and its header options. */
export interface HeaderPart {
  readonly decision: Decision
  readonly config: HeaderConfig
}

/**
 * Writes the headers of a decision, merged with the headers of earlier request limiters. Writes nothing without a response.
 * @returns the merged headers, or `undefined` if they are equal to `impliedHeaders(decision)`
 */
export type StackedHeaderWriter<Response> = (
  decision: Decision,
  earlier: MergedHeaders | undefined,
  response: Response | undefined,
  request: object,
) => MergedHeaders | undefined

export type ResponseHeaders<Response> = Pick<
  HttpAdapter<never, Response, never, never>,
  'getHeader' | 'setHeader' | 'removeHeader'
>

const NO_LIMITS: Decision = combine([], undefined)

/** Creates the header writer of a request limiter. Throws `INVALID_OPTION`, `UNKNOWN_OPTION`. */
export function stackedHeaderWriter<Response>(
  options: HeaderOptions,
  adapter: ResponseHeaders<Response>,
  limiter: Limiter<never>,
): StackedHeaderWriter<Response> {
  const config = headerConfig(options)
  const isImplied = implyConfig(limiter, config)
  // `config.write` is not used: all request limiters without header options share it, and a writer keeps its latest list of policies.
  const write = headerWriter(config)
  const readsTime = needsTime(config)
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
    checksOf(request)?.warnOfClashes(write, config, earlier.parts)
    const merged = mergeHeaders(earlier, { decision, config })
    if (response !== undefined) {
      writeExposed(response, () => exposedIn(merged))
      if (!isSilent(config)) writeMerged(merged, decision, response)
    }
    return merged
  }
}

/**
 * The header options of the first request limiter of each limiter. With them, decisions of most request limiters need no entry: an entry for each request
 * costs more than writing the headers.
 */
const impliedConfigs = shared('configs of limiters', () => new WeakMap<object, HeaderConfig>())

/** Returns true if the decisions of a limiter imply these header options, because no earlier request limiter of it has others. */
function implyConfig(limiter: Limiter<never>, config: HeaderConfig): boolean {
  const homes = chargeSourcesOf(limiter).map(({ home }) => home)
  for (const home of homes) if (!impliedConfigs.has(home)) impliedConfigs.set(home, config)
  return homes.length === 0 ? config === DEFAULT_CONFIG : homes.every((home) => impliedConfigs.get(home) === config)
}

/** Returns the headers of a decision whose pass was not stored. */
export function impliedHeaders(decision: Decision): MergedHeaders {
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

function isSilent({ styles }: HeaderConfig): boolean {
  return styles.length === 0
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

/** Returns the names of the headers that scripts may read, in the styles of all request limiters. */
export function exposedIn({ decision, parts }: MergedHeaders): readonly string[] {
  return [...new Set(parts.flatMap(({ config }) => exposedHeaders(config, decision.limits)))]
}
