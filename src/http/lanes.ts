import type { Limiter } from '../limiter/contract.ts'
import { preflightLimiterOf } from '../limiter/adapted.ts'
import { countedFinder, type FindCounted } from './counted.ts'
import { type StackedHeaderWriter, stackedHeaderWriter } from './headers/stacked.ts'
import type { ResponseHeaders } from './headers/types.ts'
import type { Preflights } from './options.ts'

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
