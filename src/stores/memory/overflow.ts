import { Charge } from '../store.ts'
import { evaluateLocked } from './locks.ts'
import type { Sketch } from './sketch.ts'
import type { Slab } from './slab.ts'
import { Attempt } from './state.ts'
import { reportUncharged, reportWait } from './verdict.ts'

/** A key's slot in one row of a sketch. */
interface Row {
  readonly charge: Charge
  readonly attempt: Attempt
}

/** One charge decided in a sketch: on a slot in each row, and by the one that holds least. */
export class OverflowAttempt {
  readonly #attempts: Attempt[] = []
  #rows: readonly Row[] = []
  #best!: Row
  #sketch!: Sketch

  /** True when a row keeps its next state although the charge is denied. */
  get persist(): boolean {
    return this.#rows.some(({ attempt }) => attempt.outcome.persist)
  }

  evaluate(charge: Charge, sketch: Sketch, now: number): void {
    this.#sketch = sketch
    this.#rows = sketch.slots(charge.key).map((slot, row) => {
      const attempt = (this.#attempts[row] ??= new Attempt())
      const own = new Charge(charge.policy, charge.key, charge.cost)
      attempt.read(charge.policy.compiled, sketch.slab, slot, now)
      evaluateLocked(attempt, own, now)
      return { charge: own, attempt }
    })
    this.#best = this.#rows.reduce((best, row) => (isMoreLenient(row.charge, best.charge) ? row : best))
    copyVerdict(this.#best.charge, charge)
  }

  /** Keeps in every row what follows when the charge is `charged`, and reports the one that holds least. */
  commit(charge: Charge, now: number, charged: boolean, admitted: boolean, write: boolean): void {
    for (const row of this.#rows) {
      if (charged && write) keepRow(row, charge, now, admitted)
      else if (!charged && row.charge.allowed && !admitted && charge.cost > 0)
        reportUncharged(row.attempt, row.charge, now)
      if (write && !charge.allowed && row.attempt.lockedUntil > now)
        this.#sketch.slab.lock(row.attempt.slot, now, row.attempt.lockedUntil)
      this.#sketch.extend(row.attempt.slot)
    }
    copyVerdict(this.#best.charge, charge)
  }

  /**
   * Returns true when the key may have a slot of its own from now on, with the state of its best row. A state with a start time cannot
   * be copied, because the time may be another key's.
   */
  mayPromote({ policy }: Charge, now: number): boolean {
    if (policy.compiled.algorithm.toShared === undefined) return true
    return this.#sketch.slab.isExpired(this.#best.attempt.slot, Math.floor(now / 1_000_000))
  }

  /** Copies the state of the key's best row into a slot of its own. */
  promote(slab: Slab, slot: number): void {
    slab.adopt(slot, this.#sketch.slab, this.#best.attempt.slot)
  }
}

/** A row that holds more than the best one takes what still fits, so that it holds no less than the key has used. */
function keepRow({ charge, attempt }: Row, { allowed }: Charge, now: number, admitted: boolean): void {
  const { compiled } = charge.policy
  if (!charge.allowed && !allowed && !attempt.outcome.persist) return
  if (!charge.allowed && allowed) attempt.step(compiled, { ...compiled.parameters, strict: 1 }, charge.cost)
  compiled.algorithm.toShared?.(compiled.parameters, attempt.outcome)
  attempt.keep(compiled, now)
  if (!charge.allowed) return
  if (admitted) charge.markCharged(attempt.outcome.at, attempt.outcome.charged)
  else reportWait(attempt, charge, now)
}

function isMoreLenient(one: Charge, other: Charge): boolean {
  if (one.allowed !== other.allowed) return one.allowed
  return one.allowed ? one.remaining > other.remaining : one.retryAfter < other.retryAfter
}

function copyVerdict(from: Charge, to: Charge): void {
  to.allowed = from.allowed
  to.remaining = from.remaining
  to.retryAfter = from.retryAfter
  to.resetAfter = from.resetAfter
  to.delay = from.delay
  to.markCharged(from.at, from.charged)
}
