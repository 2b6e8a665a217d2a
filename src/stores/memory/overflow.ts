import { Charge } from '../store.ts'
import type { Crowd } from './sketch.ts'
import type { Slab } from './slab.ts'
import { Trial } from './attempt.ts'

/** One charge being tried in a crowd: on every slot of its key, and judged by the least taken. */
export class CrowdTrial {
  readonly #trials: Trial[] = []
  #crowd!: Crowd
  #slots: readonly number[] = []
  #charges: readonly Charge[] = []
  #best = 0

  evaluate(charge: Charge, crowd: Crowd, now: number): void {
    this.#crowd = crowd
    this.#slots = crowd.slots(charge.key)
    this.#charges = this.#slots.map((slot, row) => {
      const own = new Charge(charge.policy, charge.key, charge.cost)
      this.#trial(row).evaluate(own, crowd.slab, slot, now)
      return own
    })
    this.#best = 0
    for (const [row, own] of this.#charges.entries()) if (isLenient(own, this.#charges[this.#best]!)) this.#best = row
    tell(charge, this.#charges[this.#best]!)
  }

  conclude(charge: Charge, now: number, admitted: boolean, write: boolean): void {
    const { allowed } = charge
    for (const [row, own] of this.#charges.entries()) {
      // A slot fuller than the least taken: it takes what still fits, so that it holds no less than the key has used.
      if (allowed && !own.allowed) this.#trial(row).saturate(own, now, admitted && write)
      else this.#trial(row).conclude(own, undefined, now, admitted, write)
      this.#crowd.prolong(this.#slots[row]!)
    }
    tell(charge, this.#charges[this.#best]!)
  }

  /** Adds to what a key's slots hold. Nothing is given back: what is there may be another's. */
  adjust(charge: Charge, crowd: Crowd, now: number, units: number): void {
    if (units < 0) return
    for (const slot of crowd.slots(charge.key)) {
      this.#trial(0).adjust(charge, crowd.slab, slot, now, units)
      crowd.prolong(slot)
    }
  }

  /**
   * True when the key evaluated may have a slot of its own from now on, with what its best slot holds: a phase that is another's
   * cannot be taken along.
   */
  mayLeave({ policy }: Charge, now: number): boolean {
    if (policy.compiled.algorithm.toShared === undefined) return true
    return this.#crowd.slab.isFresh(this.#slots[this.#best]!, Math.floor(now / 1_000_000))
  }

  /** Copies what the key's best slot holds into a slot of its own. */
  leave(slab: Slab, slot: number): void {
    slab.adopt(slot, this.#crowd.slab, this.#slots[this.#best]!)
  }

  #trial(row: number): Trial {
    return (this.#trials[row] ??= new Trial(true))
  }
}

function isLenient(one: Charge, other: Charge): boolean {
  if (one.allowed !== other.allowed) return one.allowed
  return one.allowed ? one.remaining > other.remaining : one.retryAfter < other.retryAfter
}

function tell(charge: Charge, own: Charge): void {
  charge.allowed = own.allowed
  charge.remaining = own.remaining
  charge.retryAfter = own.retryAfter
  charge.resetAfter = own.resetAfter
  charge.delay = own.delay
  charge.receipt(own.at, own.charged)
}
