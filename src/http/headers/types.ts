import type { Decision } from '../../limiter/decision.ts'
import type { Limit } from '../../limits/limit.ts'
import type { LimitStatus } from '../../stores/store.ts'

/** The styles of rate-limit headers. `'standard'` is the newest draft. */
export const HEADER_STYLES = ['standard', 'draft-8', 'draft-7', 'draft-6', 'legacy', 'github'] as const
export type HeaderStyle = (typeof HEADER_STYLES)[number]

/** One style, several styles, or no headers. */
export type HeaderStyles = HeaderStyle | readonly HeaderStyle[] | false

/** The headers of a response. An `HttpAdapter` is one. */
export interface ResponseHeaders<Response> {
  getHeader(response: Response, name: string): string | number | readonly string[] | undefined
  setHeader(response: Response, name: string, value: string): void
}

/** Sets a header of the response and replaces its earlier value. */
export type SetHeader = (name: string, value: string) => void

/**
 * Writes the headers of a decision. `now` is in epoch milliseconds. `formatOf` is given when the limits belong to several request
 * limiters.
 */
export type HeaderWriter = (
  decision: Decision,
  now: number,
  set: SetHeader,
  formatOf?: (status: LimitStatus) => StandardFormat,
) => void

/** The values of a limit that are the same in every header. */
export interface HeaderValues {
  readonly limit: Limit
  /** The units that are available at once: the quota, or the capacity if that is larger. */
  readonly quota: number
  /** The seconds in which as many units come back. */
  readonly window: number
  /** The milliseconds between the return of the first unit and the return of the last one, when no unit is left. */
  readonly lag: number
}

/** A limit as an item of `RateLimit-Policy` and of `RateLimit`. */
export interface PolicyItem {
  readonly values: HeaderValues
  /** The item of `RateLimit-Policy`. */
  readonly text: string
  /** The beginning of the item of `RateLimit`. */
  readonly start: string
}

/** How the newest draft describes the limits of one request limiter. */
export interface StandardFormat {
  /** `name` is the limit's name in this response. */
  itemOf(limit: Limit, name?: string): PolicyItem
  /** Returns the partition of a key as a byte sequence. Absent when partitions are not shown. */
  readonly partition?: ((key: string) => string) | undefined
}
