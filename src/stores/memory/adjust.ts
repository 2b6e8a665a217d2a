import { isCompatible } from '../../algorithms/algorithm.ts'
import { rescale } from '../../algorithms/arithmetic.ts'
import type { CompiledLimit } from '../../limits/compiled-limit.ts'
import { TOLERANCE_MS } from '../clock-fault.ts'
import type { Charge } from '../store.ts'
import type { Slab } from './slab.ts'
import { Attempt, NONE } from './state.ts'
import type { Tables } from './tables.ts'

/** Changes what charges have put on their keys, past any limit. */
export class Adjuster {
  readonly #tables: Tables
  readonly #attempt = new Attempt()

  constructor(tables: Tables) {
    this.#tables = tables
  }

  /** Adds units to what a charge's key holds, or gives them back when negative. */
  adjust(charge: Charge, units: number, now: number): void {
    const table = this.#tables.of(charge.policy)
    const slot = table.slotOf(charge.key)
    if (slot !== NONE) return this.#adjustSlot(charge, units, now, table.slab, slot, false)
    // A key without a slot is not remembered or shares its counters: the units that are there may be another's.
    if (units < 0) return
    const sketch = table.overflows ? this.#tables.sketchFor(charge.policy, table, now) : undefined
    if (sketch === undefined) return this.#adjustSlot(charge, units, now, table.slab, table.add(charge.key), false)
    for (const shared of sketch.slots(charge.key)) {
      this.#adjustSlot(charge, units, now, sketch.slab, shared, true)
      sketch.extend(shared)
    }
  }

  /** Adjusts under the limit that wrote the slot, which may not be the one that was charged. */
  #adjustSlot(charge: Charge, units: number, now: number, slab: Slab, slot: number, isShared: boolean): void {
    const { compiled } = charge.policy
    const writer = this.#liveWriter(compiled, slab, slot, now)
    if (writer === undefined && units < 0) return
    const under = writer ?? compiled
    const attempt = this.#attempt
    attempt.read(under, slab, slot, now)
    const chargedAt = rescale(charge.at, compiled.parameters, under.parameters)
    // How much is left of a charge by a clock that ran ahead is not known.
    if (units < 0 && chargedAt > attempt.tick + TOLERANCE_MS * under.perMs) return
    attempt.adjust(under, chargedAt, units)
    if (!attempt.outcome.persist) return
    if (isShared) under.algorithm.toShared?.(under.parameters, attempt.outcome)
    attempt.keep(under, now)
    attempt.read(under, slab, slot, now)
    attempt.step(under, under.nonStrict, 0)
    attempt.setExpiry(under, now)
  }

  /** Returns the limit that wrote a slot, when its algorithm is compatible and anything of its state is left. */
  #liveWriter({ algorithm }: CompiledLimit, slab: Slab, slot: number, now: number): CompiledLimit | undefined {
    const writer = slab.writtenBy(slot)
    if (writer === undefined || !isCompatible(algorithm, writer.algorithm)) return undefined
    this.#attempt.read(writer, slab, slot, now)
    this.#attempt.step(writer, writer.nonStrict, 0)
    return this.#attempt.outcome.reset === 0 ? undefined : writer
  }
}
