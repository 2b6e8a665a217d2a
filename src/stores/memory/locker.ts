import type { LockMode } from '../lock-mode.ts'
import type { Charge } from '../store.ts'
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
    const table = this.#tables.of(policy)
    const slot = table.slotOf(key)
    if (slot !== NONE) return this.#lockSlot(table.slab, slot, now, length, mode)
    // A key that nothing is known of has no lock-out to end.
    const sketch = length === 0 ? table.sketch : this.#tables.sketchFor(policy, table, now)
    if (sketch !== undefined) {
      sketch.slab.fit(policy.compiled)
      this.#lockRows(sketch, table.sketchKey(key), policy.compiled.signature, now, length, mode)
    } else if (length > 0) this.#lockSlot(table.slab, table.add(key), now, length, mode)
  }

  #lockSlot(slab: Slab, slot: number, now: number, length: number, mode: LockMode): void {
    const until = now + length
    if (mode === 'extend' && slab.lockedUntil(slot, now) >= until) return
    if (length > 0) slab.lock(slot, now, until)
    else slab.unlock(slot)
    this.#setExpiry(slab, slot, now)
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
  #lockRows(sketch: Sketch, key: string, signature: string, now: number, length: number, mode: LockMode): void {
    const rows = sketch.rows(key, signature, now)
    if (
      mode === 'set' &&
      rows.every(isShared) &&
      rows.every(({ slot }) => sketch.slab.lockedUntil(slot, now) > now + length)
    )
      this.#tables.warnShared()
    for (const { slot, kind } of rows) {
      const isOwn = kind === 'own' || kind === 'free'
      if (length === 0 && kind !== 'own') continue
      if (kind === 'free') sketch.slab.clear(slot)
      this.#lockSlot(sketch.slab, slot, now, length, isOwn ? mode : 'extend')
      sketch.own(slot, isOwn ? key : undefined)
    }
  }
}
