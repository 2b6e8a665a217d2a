import type { CompiledLimit } from '../../limits/compiled-limit.ts'
import { Charge } from '../store.ts'
import { evaluateLocked } from './locks.ts'
import { copyVerdict, isBetter, RowAttempt } from './row-attempt.ts'
import { isShared, type Row, type Sketch } from './sketch.ts'
import { type Attempt, NONE } from './state.ts'
import type { Table } from './table.ts'
import { keepOutlasting, reportUncharged, reportWait } from './verdict.ts'

/** One charge decided in a sketch: by the row that is most exact for the key, or else by the row with the least usage. */
export class OverflowAttempt {
  readonly #rows: readonly RowAttempt[] = [new RowAttempt(), new RowAttempt(), new RowAttempt(), new RowAttempt()]
  #best!: RowAttempt
  #sketch!: Sketch
  /** The key as the sketch knows it. */
  #key = ''
  #writes = 0

  /** True when the next state is kept although the charge is denied. */
  get persist(): boolean {
    return this.#best.attempt.outcome.persist
  }

  evaluate(charge: Charge, sketch: Sketch, key: string, now: number): void {
    this.#sketch = sketch
    this.#key = key
    this.#step(charge, now)
    copyVerdict(this.#best.charge, charge)
  }

  /** Keeps in every row what follows when the charge is `charged`, and reports the row that decided. */
  commit(charge: Charge, now: number, charged: boolean, admitted: boolean, write: boolean): void {
    const { attempt, charge: decided, locks } = this.#best
    const { at, charged: units } = attempt.outcome
    if (!charged && decided.allowed && !admitted && charge.cost > 0) reportUncharged(attempt, decided, now)
    copyVerdict(decided, charge)
    if (!write) return
    if (charged) this.#keep(charge, now)
    else if (charge.cost > 0) this.#keepCarriedOver(charge, now)
    if (attempt.denialsUntil > 0) this.#countDenials(charge, now, attempt.denials, attempt.denialsUntil)
    if (locks) this.#lock(charge, now, attempt.lockedUntil)
    if (!charged || !charge.allowed) return
    if (admitted) charge.markCharged(at, units)
    else reportWait(this.#best.attempt, charge, now)
  }

  /**
   * Returns true when the key may have a slot in the table from now on. A state that is shared cannot be copied where it has a start
   * time, because the time may be another key's.
   */
  mayPromote({ policy }: Charge): boolean {
    const { kind } = this.#best.row
    return kind === 'same' ? policy.compiled.algorithm.toShared === undefined : kind !== 'other'
  }

  /** Moves what the sketch knows of the key into a slot of the table: its state, or that it may have been reset. */
  promote(table: Table, key: string, now: number): void {
    const { kind, slot } = this.#best.row
    if (kind === 'own') this.#sketch.move(slot, table.slab, table.add(key))
    else if (kind === 'same' || this.#sketch.resetMattersUntil > now) {
      const target = table.add(key)
      this.#sketch.markReset(table.slab, target, now)
      if (kind === 'same') table.slab.adopt(target, this.#sketch.slab, slot)
    }
    for (const { row } of this.#rows) if (row.kind === 'own') this.#sketch.free(row.slot)
  }

  #step(charge: Charge, now: number): void {
    const { compiled } = charge.policy
    this.#sketch.slab.fit(compiled)
    this.#writes = this.#sketch.writes
    const rows = this.#sketch.rows(this.#key, compiled.signature, now)
    for (let i = 0; i < rows.length; i++) this.#stepRow(this.#rows[i]!, rows[i]!, charge, now)
    this.#best = this.#rows.reduce((best, each) => (isBetter(each, best) ? each : best))
  }

  /** A row that no other key has charged is read; of one that others have, only what this limit wrote. */
  #stepRow(each: RowAttempt, row: Row, { policy, key, cost }: Charge, now: number): void {
    const { attempt } = each
    each.row = row
    each.charge = new Charge(policy, key, cost)
    attempt.read(policy.compiled, this.#sketch.slab, row.kind === 'own' || row.kind === 'same' ? row.slot : NONE, now)
    if (row.kind === 'other') {
      attempt.lockedUntil = row.until
      attempt.denials = this.#sketch.slab.denialsOf(row.slot, now)
    }
    attempt.hasOthersDenials = isShared(row)
    each.wasLocked = attempt.lockedUntil > now
    evaluateLocked(attempt, each.charge, now)
    each.locks = attempt.lockedUntil > now && (!each.wasLocked || this.#isLockAhead(each, now))
  }

  #isLockAhead({ row, charge }: RowAttempt, now: number): boolean {
    return !charge.allowed && this.#sketch.slab.isLockAhead(row.slot, now)
  }

  /** Charges all rows. Others of the same transaction may have charged them since they were read. */
  #keep(charge: Charge, now: number): void {
    const lost = this.#writes === this.#sketch.writes ? 0 : this.#stepAgain(charge, now)
    const best = this.#best
    this.#keepRow(best, charge, now)
    for (const each of this.#rows) if (each !== best) this.#keepRow(each, charge, now)
    if (lost > now) this.#lock(charge, now, lost)
  }

  /**
   * Steps again. Returns the microsecond until which the key owes what it has used under another limit, when others have taken the last
   * row that counts it; 0 if they have not.
   */
  #stepAgain(charge: Charge, now: number): number {
    const { attempt, row } = this.#best
    const isCarriedOver = row.kind === 'own' && attempt.isCarriedOver
    const until = now + attempt.outcome.reset * charge.policy.compiled.micros
    this.#step(charge, now)
    return isCarriedOver && this.#best.row.kind !== 'own' ? until : 0
  }

  #keepRow(each: RowAttempt, charge: Charge, now: number): void {
    const { kind, slot, isWriter } = each.row
    const isSame = kind === 'same' || (kind === 'foreign' && isWriter)
    if (kind === 'own' || kind === 'free') this.#keepOwn(each, charge, now)
    else if (isSame && !this.#hasMore(charge)) this.#add(each, charge, now)
    else this.#replace(each, charge, now)
    this.#sketch.own(slot, kind === 'own' || kind === 'free' ? this.#key : undefined)
  }

  /** True when the key has used units that a shared row may not count: under another limit before, or from its birth on. */
  #hasMore({ policy: { compiled }, cost }: Charge): boolean {
    const { attempt, charge, row } = this.#best
    const isNew = row.kind === 'free' || row.kind === 'foreign'
    return attempt.isCarriedOver || (isNew && charge.remaining + (charge.allowed ? cost : 0) < compiled.capacity)
  }

  /** Writes the state that follows the best row. Where there is a row of the key's own, that one is the best. */
  #keepOwn({ attempt, row }: RowAttempt, { policy }: Charge, now: number): void {
    if (row.kind === 'free') this.#sketch.claim(row.slot, now)
    if (attempt !== this.#best.attempt) return this.#sketch.copy(row.slot, this.#best.row.slot)
    attempt.slot = row.slot
    attempt.keep(policy.compiled, now)
  }

  /**
   * Adds the charge to what other keys have used: all of it, or what still fits. A lock may hide what this key has used, so the charge
   * lasts from the end of the lock on.
   */
  #add({ attempt, row }: RowAttempt, { policy: { compiled }, cost }: Charge, now: number): void {
    const { slab } = this.#sketch
    const locked = slab.lockedUntil(row.slot, now)
    if (locked > now) slab.lock(row.slot, now, locked + life(attempt, compiled, cost, now))
    attempt.read(compiled, slab, row.slot, now)
    attempt.step(compiled, strict(compiled), cost)
    compiled.algorithm.toShared?.(compiled.parameters, attempt.outcome)
    attempt.keep(compiled, now)
  }

  /** Writes the state of this key where another limit has written for others, and denies until theirs would be over. */
  #replace({ attempt, row }: RowAttempt, { policy: { compiled }, cost }: Charge, now: number): void {
    const { slab } = this.#sketch
    const best = this.#best.row
    let { until } = row
    const denials = slab.denialsOf(row.slot, now)
    const denialsUntil = slab.denials?.until(row.slot) ?? 0
    slab.clear(row.slot)
    if (best.slot !== row.slot && best.kind !== 'foreign' && best.kind !== 'other')
      this.#sketch.copy(row.slot, best.slot)
    else {
      attempt.read(compiled, slab, NONE, now)
      attempt.step(compiled, strict(compiled), cost)
      attempt.slot = row.slot
      attempt.keep(compiled, now)
      // What the key has used may be among what is over then, so its charge lasts from then on.
      if (best.kind === 'other') until += attempt.outcome.reset * compiled.micros
    }
    slab.lock(row.slot, now, Math.max(until, slab.lockedUntil(row.slot, now)))
    if (denials > 0) this.#addDenials(row.slot, denials, now, denialsUntil)
  }

  /** Keeps a state of the key's own that was carried over from a changed limit, so that it is rounded once. */
  #keepCarriedOver(charge: Charge, now: number): void {
    const { attempt, row } = this.#best
    if (row.kind !== 'own' || !attempt.isCarriedOver || attempt.outcome.reset === 0) return
    for (const each of [this.#best, ...this.#rows]) {
      if (each.row.kind !== 'own' || !this.#sketch.isOwn(each.row.slot, this.#key)) continue
      this.#keepOwn(each, charge, now)
      this.#sketch.own(each.row.slot, this.#key)
    }
  }

  /** Keeps the states of the key's own until a wait of microseconds is over: as a new key it would have fewer tokens. */
  outlast(charge: Charge, now: number, wait: number): void {
    const { compiled } = charge.policy
    const { attempt } = this.#best
    for (const { kind, slot } of this.#sketch.rows(this.#key, compiled.signature, now)) {
      if (kind !== 'own') continue
      attempt.read(compiled, this.#sketch.slab, slot, now)
      if (!attempt.outlast(compiled, wait)) continue
      keepOutlasting(attempt, charge, now)
      this.#sketch.own(slot, this.#key)
    }
  }

  /** Notes the denials of the key in every row. A row of several keys keeps the most of any of them. */
  #countDenials({ policy }: Charge, now: number, count: number, until: number): void {
    const { slab } = this.#sketch
    for (const { kind, slot } of this.#sketch.rows(this.#key, policy.compiled.signature, now)) {
      const isOwn = kind === 'own' || kind === 'free'
      if (kind === 'free') this.#sketch.claim(slot, now)
      if (isOwn) slab.countDenials(slot, count, now, until)
      else this.#addDenials(slot, count, now, until)
      this.#sketch.own(slot, isOwn ? this.#key : undefined)
    }
  }

  #addDenials(slot: number, count: number, now: number, until: number): void {
    const { slab } = this.#sketch
    slab.countDenials(
      slot,
      Math.max(count, slab.denialsOf(slot, now)),
      now,
      Math.max(until, slab.denials?.until(slot) ?? 0),
    )
  }

  /** Locks the key out in every row, and the keys that share one of them there. */
  #lock({ policy }: Charge, now: number, until: number): void {
    const { slab } = this.#sketch
    for (const { kind, slot } of this.#sketch.rows(this.#key, policy.compiled.signature, now)) {
      if (kind === 'free') this.#sketch.claim(slot, now)
      slab.lock(slot, now, Math.max(until, slab.lockedUntil(slot, now)))
      this.#sketch.own(slot, kind === 'own' || kind === 'free' ? this.#key : undefined)
    }
  }
}

/** Returns the microseconds until a charge counts no longer on a key that has used nothing. */
function life(attempt: Attempt, compiled: CompiledLimit, cost: number, now: number): number {
  attempt.read(compiled, attempt.slab, NONE, now)
  attempt.step(compiled, strict(compiled), cost)
  return attempt.outcome.reset * compiled.micros
}

/** Parameters under which a charge that does not fit is charged as far as it does. */
function strict({ parameters }: CompiledLimit): CompiledLimit['parameters'] {
  return { ...parameters, strict: 1 }
}
