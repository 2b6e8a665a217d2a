import { Charge, type Policy } from '../store.ts'
import type { Table } from './table.ts'
import { Trial } from './attempt.ts'

/** A bucket that a queue asks for: its trial remembers what the requests before have taken. */
interface Bucket {
  readonly policy: Policy
  readonly key: string
  readonly trial: Trial
}

/**
 * Milliseconds from `now` (in microseconds) until the last request of a queue would be admitted, each one as soon as it can
 * be after the one before it; `Infinity` when never. Nothing is charged.
 */
export function forecast(
  queue: readonly (readonly Charge[])[],
  tableOf: (policy: Policy) => Table,
  now: number,
): number {
  const buckets: Bucket[] = []
  let time = now
  let last = 0
  for (const charges of queue) {
    const trials = charges.map((charge) => trialOf(buckets, charge, tableOf, time))
    last = admission(charges, trials, time)
    // Who can never be admitted holds up nobody.
    if (last === Infinity) continue
    time = last
    charges.forEach((charge, i) => charge.cost > 0 && trials[i]!.suppose(charge))
  }
  return last === Infinity ? Infinity : (last - now) / 1000
}

function trialOf(buckets: Bucket[], { policy, key }: Charge, tableOf: (policy: Policy) => Table, now: number): Trial {
  const known = buckets.find((each) => each.policy === policy && each.key === key)
  if (known !== undefined) return known.trial
  const trial = new Trial()
  const table = tableOf(policy)
  trial.evaluate(new Charge(policy, key, 0), table.slab, table.slotOf(key), now)
  buckets.push({ policy, key, trial })
  return trial
}

/** The microsecond, from `now` on, at which all enforced limits admit. */
function admission(charges: readonly Charge[], trials: readonly Trial[], now: number): number {
  let time = now
  for (;;) {
    let wait = 0
    charges.forEach((charge, i) => {
      trials[i]!.reconsider(charge, time)
      if (charge.limit.shadow !== true) wait = Math.max(wait, charge.retryAfter)
    })
    if (wait === 0 || wait === Infinity) return wait === 0 ? time : Infinity
    time += Math.ceil(wait * 1000)
  }
}
