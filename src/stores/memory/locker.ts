import type { LockMode } from '../lock-mode.ts'
import type { Charge } from '../store.ts'
import type { CompiledLimit } from '../../limits/compiled-limit.ts'
import { liveWriter } from './adjust.ts'
import { isShared, type Sketch } from './sketch.ts'
import type { Slab } from './slab.ts'
import { Attempt, NONE } from './state.ts'
import type { Tables } from './tables.ts'

/** Locks keys out, and ends lock-outs, without a decision. */
export class Locker {
  readonly #tables: Tables
  readonly #attempt = new Attempt()

  constructor(tables: Tables) {
    this.#tables = tables
  }

  /** Locks the key of a charge out for `length` microseconds from `now` on; 0 ends a lock-out. */
  lock({ policy, key }: Charge, now: number, length: number, mode: LockMode): void {
    const { compiled } = policy
    const table = this.#tables.of(policy)
    const slot = table.slotOf(key)
    if (slot !== NONE) return this.#lockSlot(compiled, table.slab, slot, now, length, mode)
    // A key that nothing is known of has no lock-out to end.
    const sketch = length === 0 ? table.sketch : this.#tables.sketchFor(policy, table, now)
    if (sketch !== undefined) {
      sketch.slab.fit(compiled)
      this.#lockRows(sketch, table.sketchKey(key), compiled, now, length, mode)
    } else if (length > 0) this.#lockSlot(compiled, table.slab, table.add(key), now, length, mode)
  }

  #lockSlot(compiled: CompiledLimit, slab: Slab, slot: number, now: number, length: number, mode: LockMode): void {
    const until = now + length
    if (mode === 'extend' && slab.lockedUntil(slot, now) >= until) return
    if (length > 0) this.#outlast(compiled, slab, slot, now, length)
    if (length > 0) slab.lock(slot, now, until)
    else slab.unlock(slot)
    this.#setExpiry(slab, slot, now)
  }

  /** A key that starts part-full begins now if it is new, and is not new again when its lock-out ends: it would have fewer tokens. */
  #outlast(compiled: CompiledLimit, slab: Slab, slot: number, now: number, length: number): void {
    const attempt = this.#attempt
    const under = liveWriter(attempt, compiled, slab, slot, now) ?? compiled
    if (under.renewal === -1) return
    attempt.read(under, slab, slot, now)
    attempt.step(under, under.nonStrict, under.capacity + 1)
    if (attempt.outcome.reset === 0) return
    attempt.moveRenewal(under, length)
    attempt.keep(under, now)
  }

  /** A lock-out that has become shorter keeps its slot for no longer than what else is in it. */
  #setExpiry(slab: Slab, slot: number, now: number): void {
    const writer = slab.writtenBy(slot)
    if (writer === undefined) return slab.setExpiry(slot, now, 0)
    const attempt = this.#attempt
    attempt.read(writer, slab, slot, now)
    attempt.step(writer, writer.nonStrict, 0)
    attempt.setExpiry(writer, now)
  }

  /** Where other keys share a row, it is locked no shorter than before. */
  #lockRows(sketch: Sketch, key: string, compiled: CompiledLimit, now: number, length: number, mode: LockMode): void {
    const rows = sketch.rows(key, compiled.signature, now)
    if (
      mode === 'set' &&
      rows.every(isShared) &&
      rows.every(({ slot }) => sketch.slab.lockedUntil(slot, now) > now + length)
    )
      this.#tables.warnShared()
    for (const { slot, kind } of rows) {
      const isOwn = kind === 'own' || kind === 'free'
      if (length === 0 && kind !== 'own') continue
      if (kind === 'free') sketch.claim(slot, now)
      this.#lockSlot(compiled, sketch.slab, slot, now, length, isOwn ? mode : 'extend')
      sketch.own(slot, isOwn ? key : undefined)
    }
  }
}
