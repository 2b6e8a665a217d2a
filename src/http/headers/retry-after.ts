import type { Decision } from '../../limiter/decision.ts'
import { MAX_HEADER_INTEGER, wholeMilliseconds, wholeSeconds } from '../../util/seconds.ts'

/**
 * Returns the milliseconds until a denied request is admitted. Returns `undefined` if the request was admitted, or will never be. If the store does not
 * answer, the wait is unknown, and at least one second is returned.
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

/** The name of a `Retry-After` in milliseconds. Clients of language models prefer it. */
export const RETRY_AFTER_MS = 'retry-after-ms'

/** Returns the milliseconds for `retry-after-ms`: the same wait as `Retry-After`, rounded up, at least 1. */
export function retryAfterMs(decision: Decision): number | undefined {
  const wait = waitOf(decision)
  return wait === undefined ? undefined : Math.max(1, wholeMilliseconds(wait))
}

/**
 * Returns the `retry-after-ms` for a `Retry-After` that `mergeRetryAfter` has returned. If this is not our own, it is the longer one of the application.
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
