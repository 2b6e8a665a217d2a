import type { Decision } from '../limiter/decision.ts'
import { shared } from '../util/copies.ts'
import type { HttpAdapter } from './adapter.ts'
import { exposedIn, impliedHeaders, type MergedHeaders } from './headers/stacked.ts'
import { exposedHeaders, hasMilliseconds, type HeaderConfig } from './headers/styles.ts'

/** The decision of one request limiter about a request. The passes of a request are a linked list, the latest first. */
export interface Pass {
  readonly decision: Decision
  readonly earlier: Pass | undefined
  /** The headers of the response after this pass. */
  readonly headers: MergedHeaders
}

/** The passes by their decisions. A first pass is not in it if the limiter implies the header options: `passOf` derives it. */
const passes = shared('passes', () => new WeakMap<Decision, Pass>())

/** Returns the latest pass of a request. Other packages also store a value as `rateLimit`, so it is only used if it is a decision. */
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

/** Returns all limits that the headers of a response show after a decision, as one decision. */
export function shownTogether(decision: Decision): Decision {
  return passOf(decision).headers.decision
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

/** Keeps a pass for later request limiters. It is not called for a pass with only the implied headers of its decision. */
export function recordPass(decision: Decision, earlier: Pass | undefined, headers: MergedHeaders): void {
  passes.set(decision, { decision, earlier, headers })
}
