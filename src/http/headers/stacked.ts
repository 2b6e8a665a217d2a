import { combine, type Decision } from '../../limiter/decision.ts'
import { isCharge, type LimitStatus } from '../../stores/store.ts'

import { warn } from '../../util/warn.ts'
import { exposedWriter } from './cors.ts'
import { limiterNameOf } from './distinct-names.ts'
import type { HeaderOptions } from './options.ts'
import type { ResponseHeaders, StandardFormat } from './types.ts'
import {
  clashBetween,
  DEFAULT_CONFIG,
  type HeaderConfig,
  headerConfig,
  headerWriter,
  isAnswered,
  writtenHeaders,
} from './write-headers.ts'

/** The rate-limit headers of a response that passes several request limiters. */
export interface MergedHeaders {
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
 * @returns the merged headers, or `undefined` when they are just `defaultHeaders(decision)`
 */
export type StackedHeaderWriter<Response> = (
  decision: Decision,
  earlier: MergedHeaders | undefined,
  response: Response | undefined,
) => MergedHeaders | undefined

const NO_LIMITS: Decision = combine([], undefined)

/** Creates the header writer of a request limiter. Throws `INVALID_OPTION`, `UNKNOWN_OPTION`. */
export function stackedHeaderWriter<Response>(
  options: HeaderOptions,
  adapter: ResponseHeaders<Response>,
): StackedHeaderWriter<Response> {
  const config = headerConfig(options)
  // Not `config.write`, which all request limiters without header options share: a writer keeps its latest list of policies.
  const write = headerWriter(config)
  const writeExposed = exposedWriter(['Retry-After', ...writtenHeaders(config)], adapter)
  const warnOfClashes = clashWarner(config)
  const needsTime = config.styles.includes('github')
  // One function for all requests: headers are written synchronously, so that no other response can come between.
  let current: Response
  const set = (name: string, value: string): void => adapter.setHeader(current, name, value)

  function writeMerged({ decision, parts }: MergedHeaders, latest: Decision, response: Response): void {
    current = response
    const now = timeOf(latest)
    const formatOf = parts.every((part) => part.config === config) ? undefined : formatsOf(parts)
    // Earlier headers may be in another style. They describe an admitted request, so a denial replaces them.
    if (!latest.allowed) for (const each of otherConfigs(parts, config)) each.write(decision, now, set, formatOf)
    write(decision, now, set, formatOf)
  }

  return function writeHeaders(decision, earlier, response) {
    if (response !== undefined) writeExposed(response)
    if (earlier === undefined) {
      current = response as Response
      if (response !== undefined) write(decision, needsTime ? timeOf(decision) : 0, set)
      return config === DEFAULT_CONFIG ? undefined : headersOf(decision, config)
    }
    warnOfClashes(earlier.parts)
    const merged = mergeHeaders(earlier, { decision, config })
    if (response !== undefined && !isSilent(config)) writeMerged(merged, decision, response)
    return merged
  }
}

/** Returns the headers of a decision that was made without any header option. */
export function defaultHeaders(decision: Decision): MergedHeaders {
  return headersOf(decision, DEFAULT_CONFIG)
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

/** Returns a function that warns, once for each, of earlier request limiters that write the same header in another way. */
function clashWarner(config: HeaderConfig): (earlier: readonly HeaderPart[]) => void {
  const compared = new WeakSet([config])
  return function warnOfClashes(earlier) {
    for (const { config: other } of earlier) {
      if (compared.has(other)) continue
      compared.add(other)
      const clash = clashBetween(other, config)
      if (clash !== undefined)
        warn(
          'SLUICE_STYLES_CLASH',
          `Two rate limits of one request write the same header in two styles: ${clash}. Give both the same \`headers\`.`,
        )
    }
  }
}

/** Returns epoch milliseconds by the clock of the store that decided, or by `Date` when the store has no clock. */
export function timeOf({ limits: [first] }: Decision): number {
  const clock = isCharge(first) ? first.policy.store.clock : undefined
  return clock?.given === true ? clock.now() : Date.now()
}
