import type { Decision } from '../../limiter/decision.ts'
import { MAX_HEADER_INTEGER, wholeSeconds } from './values.ts'

/**
 * Returns the seconds for `Retry-After`: the longest wait of the violated limits, at least 1. Returns `undefined` when the
 * request was admitted, and when it will never be. When the store does not answer, the wait is unknown and 1 is returned.
 */
export function retryAfter({ allowed, retryAfter: ms, degraded }: Decision): number | undefined {
  if (allowed) return undefined
  if (ms === Infinity) return degraded === 'closed' ? 1 : undefined
  return Math.max(1, wholeSeconds(ms))
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
