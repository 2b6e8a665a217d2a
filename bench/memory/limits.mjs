import { gcra } from 'sluice'

/**
 * What everybody is held to in a run.
 * @typedef {{ quota: number, windowMs: number, limit: (name?: string) => import('sluice').Limit }} Terms
 */

/** More decisions on one key than this would be denied by ours. */
export const MOST_ON_ONE_KEY = 20_000_000

/**
 * Admits everything that a run asks for, and forgets nothing while it lasts: a unit of ours takes a minute and a half to drain,
 * and the burst is larger than any loop is long.
 * @type {Terms}
 */
export const roomy = {
  quota: 1_000_000_000,
  windowMs: 86_400_000,
  limit: (name = 'roomy') => gcra({ name, quota: 1000, window: '1d', burst: MOST_ON_ONE_KEY }),
}

/**
 * Denies nearly everything that one key asks for in a loop.
 * @type {Terms}
 */
export const tight = {
  quota: 100,
  windowMs: 60_000,
  limit: (name = 'tight') => gcra({ name, quota: 100, window: '1m' }),
}
