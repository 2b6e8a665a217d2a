import { isCompatible } from '../../algorithms/algorithm.ts'
import { rescale } from '../../algorithms/arithmetic.ts'
import type { CompiledLimit } from '../../limits/compiled-limit.ts'
import { TOLERANCE_MS } from '../clock-fault.ts'
import type { Charge } from '../store.ts'
import { isShared, type Row, type Sketch } from './sketch.ts'
import type { Slab } from './slab.ts'
import { Attempt, NONE } from './state.ts'
import type { Tables } from './tables.ts'

/** Changes charges that were made, past any limit. */
export class Adjuster {
  readonly #tables: Tables
  readonly #attempt = new Attempt()

  constructor(tables: Tables) {
    this.#tables = tables
  }

  /** Adds units to the key of a charge, or refunds them if negative. */
  adjust(charge: Charge, units: number, now: number): void {
    const table = this.#tables.of(charge.policy)
    const slot = table.slotOf(charge.key)
    if (slot !== NONE) return this.#adjustSlot(charge, units, now, table.slab, slot)
    // A key without a state has nothing to refund.
    const sketch = units < 0 ? table.sketch : this.#tables.sketchFor(charge.policy, table, now)
    if (sketch !== undefined) this.#adjustRows(charge, units, now, sketch, table.sketchKey(charge.key))
    else if (units > 0) this.#adjustSlot(charge, units, now, table.slab, table.add(charge.key))
  }

  #adjustRows(charge: Charge, units: number, now: number, sketch: Sketch, key: string): void {
    sketch.slab.fit(charge.policy.compiled)
    const rows = sketch.rows(key, charge.policy.compiled.signature, now)
    if (units < 0 && rows.every(isShared)) return this.#tables.warnShared()
    const own = rows.find(({ kind }) => kind === 'own')
    const chargedAt = charge.at * charge.policy.compiled.micros
    for (const row of [...rows.filter((each) => each.kind === 'own'), ...rows.filter((each) => each.kind !== 'own')]) {
      if (units < 0 && (row.kind !== 'own' || sketch.isOlder(row.slot, chargedAt))) continue
      if (row.kind === 'own') this.#adjustSlot(charge, units, now, sketch.slab, row.slot)
      else this.#addToRow(charge, units, now, sketch, row, own)
      sketch.own(row.slot, row.kind === 'own' || row.kind === 'free' ? key : undefined)
    }
  }

  /**
   * Adds units to a row that may be another key's. Where the state or a lock of others may hide what this key has used, the row denies
   * until all of it would be over.
   */
  #addToRow(charge: Charge, units: number, now: number, sketch: Sketch, row: Row, own: Row | undefined): void {
    const { slab } = sketch
    const { slot, kind, isWriter, until } = row
    if (kind === 'free' && own !== undefined) return sketch.copy(slot, own.slot)
    if (kind === 'free') sketch.claim(slot, now)
    const adds =
      isWriter && slab.lockedUntil(slot, now) <= now && charge.policy.compiled.algorithm.toShared === undefined
    if (kind === 'free' || adds) this.#adjustSlot(charge, units, now, slab, slot)
    else slab.lock(slot, now, until + this.#longestLife(charge, units, now, slab.writtenBy(slot)))
  }

  /** Returns the longer life of units: under the limit that was charged, or under the one that wrote a row, which may be the key's now. */
  #longestLife(charge: Charge, units: number, now: number, writer: CompiledLimit | undefined): number {
    const life = this.#life(charge.policy.compiled, charge.at, units, now)
    if (writer === undefined || !isCompatible(charge.policy.compiled.algorithm, writer.algorithm)) return life
    const at = rescale(charge.at, charge.policy.compiled.parameters, writer.parameters)
    return Math.max(life, this.#life(writer, at, units, now))
  }

  /** Returns the microseconds for which units count on a key that has used nothing. */
  #life(compiled: CompiledLimit, at: number, units: number, now: number): number {
    const attempt = this.#attempt
    attempt.read(compiled, attempt.slab, NONE, now)
    attempt.adjust(compiled, at, units)
    attempt.assume(compiled)
    attempt.step(compiled, compiled.nonStrict, 0)
    return attempt.outcome.reset * compiled.micros
  }

  /** Adjusts under the limit that wrote the slot, which may not be the one that was charged. */
  #adjustSlot(charge: Charge, units: number, now: number, slab: Slab, slot: number): void {
    const { compiled } = charge.policy
    const writer = liveWriter(this.#attempt, compiled, slab, slot, now)
    if (units < 0 && (writer?.signature !== compiled.signature || !isCertain(charge, slab, slot, now))) return
    const under = writer ?? compiled
    const attempt = this.#attempt
    attempt.read(under, slab, slot, now)
    // The same if a clock that ran ahead wrote the state.
    if (units < 0 && attempt.isCarriedOver) return
    attempt.adjust(under, rescale(charge.at, compiled.parameters, under.parameters), units)
    if (!attempt.outcome.persist) return
    attempt.keep(under, now)
    attempt.read(under, slab, slot, now)
    attempt.step(under, under.nonStrict, 0)
    attempt.setExpiry(under, now)
  }
}

/**
 * Returns true when it is known how much is left of a charge: its limit has not changed since, as another limit may have drained it, and no
 * clock that ran ahead wrote its time.
 */
function isCertain({ at, policy: { compiled } }: Charge, slab: Slab, slot: number, now: number): boolean {
  const chargedAt = at * compiled.micros
  return !slab.hasChanged(slot, chargedAt, now) && chargedAt <= now + TOLERANCE_MS * 1000
}

/** Returns the limit that wrote a slot, when its algorithm is compatible and anything of its state is left. */
export function liveWriter(
  attempt: Attempt,
  { algorithm }: CompiledLimit,
  slab: Slab,
  slot: number,
  now: number,
): CompiledLimit | undefined {
  const writer = slab.writtenBy(slot)
  if (writer === undefined || !isCompatible(algorithm, writer.algorithm)) return undefined
  attempt.read(writer, slab, slot, now)
  attempt.step(writer, writer.nonStrict, 0)
  return attempt.outcome.reset === 0 ? undefined : writer
}
