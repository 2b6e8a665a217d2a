import type { Charge, Policy } from '../store.ts'
import { denyLocked } from './locks.ts'
import { Attempt, ticks } from './state.ts'
import type { Tables } from './tables.ts'

/** A key under one limit, as the requests before leave it. */
interface Bucket {
  readonly policy: Policy
  readonly key: string
  readonly attempt: Attempt
}

/**
 * Returns the milliseconds from `now` (in microseconds) until the last request of a queue would be admitted, when each is
 * admitted as soon as it can be after the one before it; `Infinity` when never. Charges nothing.
 */
export function forecast(queue: readonly (readonly Charge[])[], tables: Tables, now: number): number {
  const buckets: Bucket[] = []
  let time = now
  let last = 0
  for (const charges of queue) {
    const attempts = charges.map((charge) => attemptOf(buckets, charge, tables, time))
    last = admission(charges, attempts, time)
    // A request that is never admitted delays no other.
    if (last === Infinity) continue
    time = last
    charges.forEach((charge, i) => charge.cost > 0 && attempts[i]!.assume(charge.policy.compiled))
  }
  return last === Infinity ? Infinity : (last - now) / 1000
}

function attemptOf(buckets: Bucket[], { policy, key }: Charge, tables: Tables, now: number): Attempt {
  const known = buckets.find((each) => each.policy === policy && each.key === key)
  if (known !== undefined) return known.attempt
  const attempt = new Attempt()
  const table = tables.of(policy)
  attempt.read(policy.compiled, table.slab, table.slotOf(key), now)
  buckets.push({ policy, key, attempt })
  return attempt
}

/** Returns the microsecond, from `now` on, at which all enforced limits admit. */
function admission(charges: readonly Charge[], attempts: readonly Attempt[], now: number): number {
  let time = now
  for (;;) {
    let wait = 0
    charges.forEach((charge, i) => {
      const retryAfter = retryAt(attempts[i]!, charge, time)
      if (charge.policy.compiled.enforced) wait = Math.max(wait, retryAfter)
    })
    if (wait === 0 || wait === Infinity) return wait === 0 ? time : Infinity
    time += Math.ceil(wait * 1000)
  }
}

/** Decides again, at a later time, on the state read and on whatever was assumed since. Returns the wait in milliseconds. */
function retryAt(attempt: Attempt, charge: Charge, now: number): number {
  const { compiled } = charge.policy
  attempt.tick = ticks(compiled, now)
  if (attempt.lockedUntil > now) {
    denyLocked(attempt, charge, now)
    return charge.retryAfter
  }
  attempt.step(compiled, compiled.nonStrict, charge.cost)
  return attempt.outcome.retry / compiled.perMs
}
