import type { Charge } from '../store.ts'
import { evaluateLocked } from './locks.ts'
import { OverflowAttempt } from './overflow.ts'
import type { Sketch } from './sketch.ts'
import { Attempt, NONE, ticks } from './state.ts'
import type { Table } from './table.ts'
import type { Tables } from './tables.ts'
import { judge, keepOutlasting, reportUncharged, reportWait } from './verdict.ts'

/** Decides charges that are admitted together or not at all: `evaluate`, then `commit`. Its attempts are reused from one decision to the next. */
export class Decider {
  /** True when one of the tables of a decision is to be swept after it. */
  sweepIsDue = false
  readonly #tables: Tables
  readonly #attempts: Attempt[] = []
  readonly #overflowAttempts: OverflowAttempt[] = []

  constructor(tables: Tables) {
    this.#tables = tables
  }

  /** Writes each limit's own verdict into its charge, and no state. Returns whether all enforced limits admit. */
  evaluate(charges: readonly Charge[], now: number): boolean {
    let admitted = true
    for (let i = 0; i < charges.length; i++) {
      const charge = charges[i]!
      const { compiled } = charge.policy
      const attempt = this.#attempts[i] ?? this.#addAttempt()
      const table = this.#tables.of(charge.policy)
      const { slab } = table
      const slot = table.slots.get(charge.key)
      if (--table.untilSweep <= 0) this.sweepIsDue = true
      if (slot !== undefined && compiled.block === 0 && slab.isPlain(slot, compiled, ticks(compiled, now))) {
        attempt.stepOwn(compiled, slab, slot, now, charge.cost)
        judge(attempt, charge)
      } else this.#evaluateRare(i, charge, now)
      if (!charge.allowed && compiled.enforced) admitted = false
    }
    return admitted
  }

  /** Saves the next states: of all charges, or of none. */
  commit(charges: readonly Charge[], now: number, admitted: boolean, write: boolean): void {
    for (let i = 0; i < charges.length; i++) {
      const charge = charges[i]!
      const attempt = this.#attempts[i]!
      const charged = isCharged(charge, attempt.outcome.persist, admitted)
      if (attempt.overflows) this.#overflowAttempts[i]!.commit(charge, now, charged, admitted, write)
      else if (!charged) this.#leave(attempt, charge, now, admitted, write)
      else if (write) this.#keep(attempt, charge, now, admitted)
    }
    if (!admitted && write) this.#outlast(charges, now)
  }

  /** Frees what has expired, here and in a few other tables. Comes after a decision, because it moves slots. */
  sweep(charges: readonly Charge[], now: number): void {
    this.sweepIsDue = false
    for (const { policy } of charges) {
      const table = this.#tables.of(policy)
      if (table.untilSweep <= 0) table.sweep(now)
    }
    this.#tables.sweepNext(now)
    // They refer to a sketch, which may be gone.
    if (!charges.some((_, i) => this.#attempts[i]!.overflows)) this.#overflowAttempts.length = 0
  }

  #keep(attempt: Attempt, charge: Charge, now: number, admitted: boolean): void {
    if (attempt.slot === NONE) attempt.slot = this.#tables.of(charge.policy).add(charge.key)
    attempt.keep(charge.policy.compiled, now)
    if (!charge.allowed) this.#lock(attempt, charge, now)
    else if (admitted) charge.markCharged(attempt.outcome.at, attempt.outcome.charged)
    else reportWait(attempt, charge, now)
  }

  /**
   * Charges nothing. A charge that another limit has denied reports what its key holds without it. A state that was carried over is
   * kept, so that it is rounded once.
   */
  #leave(attempt: Attempt, charge: Charge, now: number, admitted: boolean, write: boolean): void {
    if (charge.allowed && !admitted && charge.cost > 0) {
      reportUncharged(attempt, charge, now)
      if (write && attempt.isCarriedOver && attempt.outcome.reset > 0) attempt.keep(charge.policy.compiled, now)
    }
    if (write) this.#lock(attempt, charge, now)
  }

  /** Keeps denied keys that start part-full until the end of the wait: as new ones they would have fewer tokens. */
  #outlast(charges: readonly Charge[], now: number): void {
    const wait = waitOf(charges)
    if (wait === Infinity) return
    for (let i = 0; i < charges.length; i++) {
      const charge = charges[i]!
      const { compiled } = charge.policy
      if (compiled.renewal === -1 || charge.cost === 0) continue
      const attempt = this.#attempts[i]!
      if (attempt.overflows) this.#overflowAttempts[i]!.outlast(charge, now, wait)
      else {
        const { slab, slots } = this.#tables.of(charge.policy)
        attempt.read(compiled, slab, slots.get(charge.key) ?? NONE, now)
        if (attempt.outlast(compiled, wait)) keepOutlasting(attempt, charge, now)
      }
    }
  }

  #lock(attempt: Attempt, charge: Charge, now: number): void {
    if (charge.allowed || attempt.isOwn) return
    const { slab, lockedUntil, denials, denialsUntil } = attempt
    if (lockedUntil <= now && denialsUntil === 0) return
    if (attempt.slot === NONE) attempt.slot = this.#tables.of(charge.policy).add(charge.key)
    if (denialsUntil > 0) slab.countDenials(attempt.slot, denials, now, denialsUntil)
    if (lockedUntil > now) slab.lock(attempt.slot, now, lockedUntil)
  }

  /** Decides a key that is new, locked, or was written by another limit, or a limit that locks. */
  #evaluateRare(i: number, charge: Charge, now: number): void {
    const table = this.#tables.of(charge.policy)
    const attempt = this.#attempts[i]!
    const isNew = table.overflows && table.slotOf(charge.key) === NONE
    const sketch = isNew ? this.#tables.sketchFor(charge.policy, table, now) : undefined
    if (sketch !== undefined && this.#evaluateOverflow(i, charge, table, sketch, now)) return
    attempt.read(charge.policy.compiled, table.slab, table.slotOf(charge.key), now)
    evaluateLocked(attempt, charge, now)
  }

  /** Decides in a sketch. Returns false when the key has been given its own slot, to be decided there. */
  #evaluateOverflow(i: number, charge: Charge, table: Table, sketch: Sketch, now: number): boolean {
    const attempt = this.#attempts[i]!
    const overflow = (this.#overflowAttempts[i] ??= new OverflowAttempt())
    overflow.evaluate(charge, sketch, table.sketchKey(charge.key), now)
    attempt.overflows = true
    attempt.outcome.persist = overflow.persist
    if (table.isFull || !overflow.mayPromote(charge)) return true
    overflow.promote(table, charge.key, now)
    return false
  }

  #addAttempt(): Attempt {
    const attempt = new Attempt()
    this.#attempts.push(attempt)
    return attempt
  }
}

/** Returns the microseconds that a denied request has to wait. */
function waitOf(charges: readonly Charge[]): number {
  let wait = 0
  for (let i = 0; i < charges.length; i++) {
    const { policy, retryAfter } = charges[i]!
    if (policy.compiled.enforced && retryAfter > wait) wait = retryAfter
  }
  return Math.round(wait * 1000)
}

/** Returns whether a request is charged to a limit. No other place decides it. */
function isCharged({ cost, allowed, policy }: Charge, persist: boolean, admitted: boolean): boolean {
  return cost > 0 && (allowed ? admitted || policy.compiled.strict : persist)
}
