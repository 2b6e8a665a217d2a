import { RateLimiterMemory } from 'rate-limiter-flexible'

/** Nobody is denied. */
export const QUOTA = 1_000_000_000
export const WINDOW_MS = 60_000

/** Headers as long as ours. */
export const POLICY = '"1000000000-per-1m";q=1000000000;w=60'
export const REMAINING = '"1000000000-per-1m";r=999999999;t=1'

/** Our options, for an adapter of a build. */
export function options({ byIP }, { gcra }) {
  return { keyer: byIP, limits: gcra({ quota: QUOTA, window: WINDOW_MS }) }
}

/** The options of ours that a job names. */
export function optionsIn({ headers }) {
  return headers === undefined ? {} : { headers }
}

/** A limiter without headers. */
export function flexible() {
  return new RateLimiterMemory({ points: QUOTA, duration: WINDOW_MS / 1000 })
}
