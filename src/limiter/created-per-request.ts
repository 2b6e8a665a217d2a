import { isTestRun } from '../util/warn.ts'
import { warnLater, withWarnings } from '../util/warn-later.ts'
import type { ChargeBuilder } from './charge-builder.ts'
import type { DefaultLimiter } from './default-limiter.ts'

/** The number of limiters with counts of their own that are not watched. Few programs create more. */
const UNWATCHED = 100
let made = 0

/** Returns a limiter. If a program creates many, warns if each is dropped after one decision. */
export function watched<Input>(limiter: DefaultLimiter<Input>): DefaultLimiter<Input> {
  const [{ startsFromZero, keyer }] = limiter.sources as [ChargeBuilder<Input>]
  if (startsFromZero && ++made > UNWATCHED && !isTestRun())
    withWarnings(({ watchSingles }) => watchSingles(limiter, String(keyer), warnOfSingles))
  return limiter
}

/**
 * Whether the warning `SLUICE_CREATED_PER_REQUEST` was emitted, here or by the checks of requests. `doubtMs`: milliseconds in which a second request to one of the
 * limiters shows that the program keeps them, such as one for each tenant.
 */
export const createdPerRequest = { hasWarned: false, doubtMs: 3000 }

function warnOfSingles(): void {
  if (createdPerRequest.hasWarned) return
  createdPerRequest.hasWarned = true
  warnLater('SLUICE_CREATED_PER_REQUEST')
}
