import { RateLimiterMemory } from 'rate-limiter-flexible'

/** Nobody is denied. */
export const QUOTA = 1_000_000_000
export const WINDOW_MS = 60_000

/** Fields of the same length as those that ours writes. */
export const POLICY = '"1000000000-per-1m";q=1000000000;w=60'
export const REMAINING = '"1000000000-per-1m";r=999999999;t=1'

/** A limiter without headers and without a framework. */
export function flexible() {
  return new RateLimiterMemory({ points: QUOTA, duration: WINDOW_MS / 1000 })
}
