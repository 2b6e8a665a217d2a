import { type Clock, microseconds } from '../../util/clock.ts'
import type { Forecast } from '../forecast.ts'
import type { Charge, Policy } from '../store.ts'
import { denyLocked } from './locks.ts'
import { Attempt, ticks } from './state.ts'
import type { Tables } from './tables.ts'

/** The state of a key under one limit, as the requests before leave it. */
interface Bucket {
  readonly attempt: Attempt
  /** The microsecond at which the last of them is admitted. */
  last: number
}

/** Predicts on copies of the states: one for each key and limit that it is asked about. */
export class MemoryForecast implements Forecast<Charge> {
  readonly #tables: Tables
  readonly #clock: Clock
  readonly #buckets = new Map<Policy, Map<string, Bucket>>()

  constructor(tables: Tables, clock: Clock) {
    this.#tables = tables
    this.#clock = clock
  }

  now(): number {
    return microseconds(this.#clock) / 1000
  }

  add(charges: readonly Charge[], keep: boolean): number {
    const now = microseconds(this.#clock)
    const buckets = charges.map((charge) => this.#bucketOf(charge, now))
    const time = admission(charges, buckets, now)
    // A request that is never admitted delays no other.
    if (keep && time !== Infinity) charges.forEach((charge, i) => charge.cost > 0 && assume(charge, buckets[i]!, time))
    return time / 1000
  }

  forget({ policy, key }: Charge): void {
    const buckets = this.#buckets.get(policy)
    buckets?.delete(key)
    if (buckets?.size === 0) this.#buckets.delete(policy)
  }

  #bucketOf({ policy, key }: Charge, now: number): Bucket {
    const buckets = this.#buckets.get(policy) ?? new Map<string, Bucket>()
    this.#buckets.set(policy, buckets)
    const known = buckets.get(key)
    if (known !== undefined) return known
    const attempt = new Attempt()
    const table = this.#tables.of(policy)
    attempt.read(policy.compiled, table.slab, table.slotOf(key), now)
    const bucket = { attempt, last: now }
    buckets.set(key, bucket)
    return bucket
  }
}

function assume(charge: Charge, bucket: Bucket, time: number): void {
  bucket.attempt.assume(charge.policy.compiled)
  bucket.last = time
}

/** Continues as after a denial, which keeps a key that starts part-full until the end of the wait. */
function outlast({ policy: { compiled }, cost }: Charge, { attempt }: Bucket, wait: number): void {
  if (compiled.renewal !== -1 && cost > 0 && attempt.outlast(compiled, wait)) attempt.assume(compiled)
}

/** Returns the microsecond, from `now` on, at which all enforced limits admit, after the requests before. */
function admission(charges: readonly Charge[], buckets: readonly Bucket[], now: number): number {
  let time = Math.max(now, ...buckets.map(({ last }) => last))
  for (;;) {
    let wait = 0
    charges.forEach((charge, i) => {
      const retryAfter = retryAt(buckets[i]!.attempt, charge, time)
      if (charge.policy.compiled.enforced) wait = Math.max(wait, retryAfter)
    })
    if (wait === 0 || wait === Infinity) return wait === 0 ? time : Infinity
    const micros = Math.ceil(wait * 1000)
    charges.forEach((charge, i) => outlast(charge, buckets[i]!, micros))
    time += micros
  }
}

/** Decides at a later time, on the state read and on what was assumed since. Returns the wait in milliseconds. */
function retryAt(attempt: Attempt, charge: Charge, now: number): number {
  const { compiled } = charge.policy
  attempt.tick = ticks(compiled, now)
  if (attempt.lockedUntil > now) {
    denyLocked(attempt, charge, now)
    if (attempt.outcome.persist) attempt.assume(compiled)
    return charge.retryAfter
  }
  attempt.step(compiled, compiled.nonStrict, charge.cost)
  const { retry, persist } = attempt.outcome
  // Such as a new key that starts with less than its capacity.
  if (persist) attempt.assume(compiled)
  return retry / compiled.perMs
}
