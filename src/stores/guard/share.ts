import { LARGEST } from '../../algorithms/arithmetic.ts'
import { compiled, type Limit, limitFromData } from '../../engine/limit.ts'
import { ownOptions } from '../../util/validate.ts'

/** Options of limits that are in units, as `quota` is. */
const UNITS = ['burst', 'capacity'] as const
const CALENDAR = ['anchor', 'timeZone'] as const

/**
 * Returns a limit with a share of the quota, and of `burst`, `capacity` and `initial`. Units are rounded down, and to at least
 * 1. A limit that admits nothing is returned unchanged. A quota below 1 becomes 1 in a window that is longer by a whole factor, so that no limit admits
 * more than its share.
 * @param share more than 0; above 1 only for slots
 * @example shareOf(perMinute(5), 0.1) // 1 per 2 minutes
 */
export function shareOf(given: Limit, share: number): Limit {
  if (share === 1 || compiled(given).capacity === 0) return given
  const scaled: Record<string, unknown> = ownOptions(given)
  scaled['quota'] = atLeastOne(given.quota * share)
  // The window of a slot is its lease, which does not depend on the share.
  const factor = compiled(given).slots ? 1 : factorOf(given, share)
  if (factor > 1) scaled['window'] = given.window * factor
  // A calendar window cannot be longer.
  if (factor > 1 && scaled['anchor'] === 'calendar') for (const name of CALENDAR) delete scaled[name]
  for (const name of UNITS) if (typeof scaled[name] === 'number') scaled[name] = atLeastOne(scaled[name] * share)
  if (typeof scaled['initial'] === 'number') scaled['initial'] = Math.floor(scaled['initial'] * share)
  return limitFromData(scaled as Limit)
}

/** Returns how many times longer the window is. It is bounded, so that times stay exact. */
function factorOf({ quota, window }: Limit, share: number): number {
  const longest = Math.max(1, Math.floor(LARGEST / 2 / window))
  return Math.min(Math.max(1, Math.ceil(1 / (quota * share) - 1e-9)), longest)
}

/** Rounds down to at least 1. Adds a small number first, because products such as 100 × 0.29 may be just below a whole number. */
function atLeastOne(units: number): number {
  return Math.max(1, Math.floor(units + 1e-9))
}
