import type { Decision } from '../../limiter/decision.ts'
import { seconds } from './figures.ts'
import { LARGEST } from './values.ts'

/**
 * Seconds for `Retry-After`: the longest wait among the violated limits, at least 1. `undefined` when the request was admitted, and
 * when it never will be; nobody knows how long a store will not answer.
 */
export function retryAfter({ allowed, retryAfter: ms, degraded }: Decision): number | undefined {
  if (allowed) return undefined
  if (ms === Infinity) return degraded === 'closed' ? 1 : undefined
  return Math.max(1, seconds(ms))
}

/**
 * The larger of what a handler has set already and ours, in whole seconds. A date counts as the time until then; what is neither
 * counts for nothing.
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
  if (/^\d+(\.\d+)?$/.test(text)) return Math.max(1, Math.min(Math.ceil(Number(text)), LARGEST))
  // Date.parse reads nearly anything; an HTTP date ends in its zone.
  const date = text.endsWith('GMT') ? Date.parse(text) : NaN
  return Number.isNaN(date) ? undefined : Math.max(1, seconds(date - now))
}
