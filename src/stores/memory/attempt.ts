import { clearEdit, type Entries, EntryArray, noEntries } from '../../algorithms/entries.ts'
import { createOutcome, MAX_CELLS, type Outcome, type Parameters, isCompatible } from '../../algorithms/algorithm.ts'
import { rescale } from '../../algorithms/arithmetic.ts'
import type { CompiledLimit } from '../../limits/compiled-limit.ts'
import type { Charge } from '../store.ts'
import { type EntryLists, EntryView } from './entry-lists.ts'
import type { Slab } from './slab.ts'

const NONE = -1

/** Where a key gets a slot, once there is something to write. */
export interface Claim {
  add(key: string): number
}

/**
 * One charge being tried: its key's state is read, stepped and, once all others have spoken, kept or left. It is reused for
 * one charge after another, so that a decision leaves no garbage but itself.
 */
export class Trial {
  readonly #outcome: Outcome = createOutcome()
  #slab!: Slab
  #slot = NONE
  #tick = 0.5
  /** The microsecond until which the key is locked out. */
  #until = 0.5
  #cells: Float64Array = new Float64Array(MAX_CELLS)
  #offset = 0
  #entries: Entries = noEntries
  /** True when the state read is a converted copy, to be written whole. */
  #converted = false
  readonly #scratch = new Float64Array(MAX_CELLS)
  readonly #view = new EntryView()
  readonly #copy = new EntryArray()
  /** True when the slot is one that several keys share. */
  readonly #shared: boolean

  constructor(shared = false) {
    this.#shared = shared
  }

  /** Decides a charge by itself on a slot, -1 for none, at `now` in microseconds, and writes its verdict. */
  evaluate(charge: Charge, slab: Slab, slot: number, now: number): void {
    const { limit, compiled } = charge.policy
    this.#read(compiled, slab, slot, now)
    this.#until = slot === NONE ? 0 : slab.lockedUntil(slot)
    if (this.#until > now) return this.#lockedOut(charge, compiled, now)
    this.#step(compiled, compiled.parameters, charge.cost)
    charge.allowed = this.#outcome.allowed
    charge.retryAfter = this.#outcome.retry / compiled.parameters.perMs
    this.#report(charge, compiled.parameters)
    if (charge.allowed || limit.block === undefined) return
    this.#until = now + limit.block * 1000
    reportLock(charge, limit.block)
  }

  /** Keeps what follows from the verdicts of all: `admitted` says whether the enforced limits let the request through. */
  conclude(charge: Charge, claim: Claim | undefined, now: number, admitted: boolean, write: boolean): void {
    const { compiled } = charge.policy
    const locks = !charge.allowed && this.#until > now
    const charged =
      charge.cost > 0 && (charge.allowed ? admitted || charge.limit.strict === true : this.#outcome.persist)
    if (write && this.#slot === NONE && (charged || locks)) this.#slot = claim!.add(charge.key)
    if (charged && write) this.#keep(compiled, now)
    if (charged && write && charge.allowed && admitted) charge.receipt(this.#outcome.at, this.#outcome.charged)
    if (!charged && charge.allowed && !admitted && charge.cost > 0) this.#reportUncharged(charge, compiled)
    if (write && locks) this.#slab.lock(this.#slot, this.#until)
  }

  /** Charges what still fits of a cost that is denied here, because it was admitted elsewhere. */
  saturate(charge: Charge, now: number, write: boolean): void {
    if (!write || charge.cost === 0) return
    const { compiled } = charge.policy
    this.#step(compiled, { ...compiled.parameters, strict: 1 }, charge.cost)
    this.#keep(compiled, now)
  }

  /** Decides again, later, on the state read and on whatever was supposed since. */
  reconsider(charge: Charge, now: number): void {
    const { compiled } = charge.policy
    this.#tick = ticks(now, compiled)
    if (this.#until > now) return this.#lockedOut(charge, compiled, now)
    this.#step(compiled, compiled.nonStrict, charge.cost)
    charge.allowed = this.#outcome.allowed
    charge.retryAfter = this.#outcome.retry / compiled.parameters.perMs
  }

  /** Goes on as though the charge had been kept, without keeping it. */
  suppose({ policy }: Charge): void {
    const { next, edit } = this.#outcome
    this.#scratch.set(next)
    this.#cells = this.#scratch
    this.#offset = 0
    if (!policy.compiled.algorithm.entries) return
    if (this.#entries !== this.#copy) this.#copy.copy(this.#entries)
    this.#entries = this.#copy
    this.#copy.apply(edit)
  }

  /** Adds to what a slot holds, or gives back; under the configuration that wrote it. */
  adjust(charge: Charge, slab: Slab, slot: number, now: number, units: number): void {
    const { compiled } = charge.policy
    const wrote = this.#wroteStill(compiled, slab, slot, now)
    if (wrote === undefined && units < 0) return
    const under = wrote ?? compiled
    this.#read(under, slab, slot, now)
    const then = rescale(charge.at, compiled.parameters, under.parameters)
    clearEdit(this.#outcome.edit)
    under.algorithm.adjust(
      under.parameters,
      this.#cells,
      this.#offset,
      this.#tick,
      then,
      units,
      this.#outcome,
      this.#entries,
    )
    if (!this.#outcome.persist) return
    this.#keep(under, now)
    this.#readSame(under, now)
    this.#step(under, under.nonStrict, 0)
    this.#remember(under, now)
  }

  /** What wrote a slot, if that is of the same algorithm and anything is left of it: what is fresh may be absent, too. */
  #wroteStill({ algorithm }: CompiledLimit, slab: Slab, slot: number, now: number): CompiledLimit | undefined {
    const wrote = slot === NONE ? undefined : slab.wrote(slot)
    if (wrote === undefined || !isCompatible(algorithm, wrote.algorithm)) return undefined
    this.#read(wrote, slab, slot, now)
    this.#step(wrote, wrote.nonStrict, 0)
    return this.#outcome.reset === 0 ? undefined : wrote
  }

  #read(compiled: CompiledLimit, slab: Slab, slot: number, now: number): void {
    this.#slab = slab
    this.#slot = slot
    const wrote = slot === NONE ? undefined : slab.wrote(slot)
    if (wrote === compiled || wrote?.signature === compiled.signature) return this.#readSame(compiled, now)
    this.#tick = ticks(now, compiled)
    this.#cells = compiled.initialState
    this.#offset = 0
    this.#entries = noEntries
    this.#converted = wrote !== undefined
    if (wrote === undefined) return
    this.#copy.clear()
    if (isCompatible(compiled.algorithm, wrote.algorithm)) this.#convert(wrote, compiled)
  }

  #readSame(compiled: CompiledLimit, now: number): void {
    this.#tick = ticks(now, compiled)
    this.#cells = this.#slab.cells
    this.#offset = this.#slab.offset(this.#slot)
    this.#entries = compiled.algorithm.entries ? this.#view.aim(this.#slab.lists!, this.#slot) : noEntries
    this.#converted = false
  }

  #convert(from: CompiledLimit, to: CompiledLimit): void {
    const { edit, next } = this.#outcome
    clearEdit(edit)
    if (to.algorithm.entries) this.#copy.copy(this.#view.aim(this.#slab.lists!, this.#slot))
    to.algorithm.convert(
      to.parameters,
      from.parameters,
      this.#slab.cells,
      this.#slab.offset(this.#slot),
      this.#tick,
      this.#outcome,
      this.#copy,
    )
    if (to.algorithm.entries) this.#copy.apply(edit)
    this.#scratch.set(next)
    this.#cells = this.#scratch
    this.#entries = to.algorithm.entries ? this.#copy : noEntries
  }

  #step({ algorithm }: CompiledLimit, parameters: Parameters, cost: number): void {
    algorithm.step(parameters, this.#cells, this.#offset, this.#tick, cost, this.#outcome, this.#entries)
  }

  #report(charge: Charge, { perMs }: Parameters): void {
    charge.remaining = this.#outcome.remaining
    charge.resetAfter = this.#outcome.reset / perMs
    charge.delay = this.#outcome.delay / perMs
  }

  /** Another limit has denied: what this one holds without the charge. */
  #reportUncharged(charge: Charge, compiled: CompiledLimit): void {
    this.#step(compiled, compiled.parameters, 0)
    this.#report(charge, compiled.parameters)
  }

  /** A key that is locked out is told when the lock opens, or later if the algorithm would still say no by then. */
  #lockedOut(charge: Charge, compiled: CompiledLimit, now: number): void {
    this.#step(compiled, compiled.nonStrict, charge.cost)
    charge.allowed = charge.cost === 0
    charge.retryAfter = charge.allowed ? 0 : this.#outcome.retry / compiled.parameters.perMs
    this.#step(compiled, compiled.nonStrict, 0)
    this.#report(charge, compiled.parameters)
    reportLock(charge, (this.#until - now) / 1000)
  }

  #keep(compiled: CompiledLimit, now: number): void {
    if (this.#shared) compiled.algorithm.toShared?.(compiled.parameters, this.#outcome)
    const { next } = this.#outcome
    const slab = this.#slab
    const at = slab.offset(this.#slot)
    for (let i = 0; i < compiled.initialState.length; i++) slab.cells[at + i] = next[i]!
    slab.configure(this.#slot, compiled)
    if (compiled.algorithm.entries) this.#edit(slab.lists!)
    this.#remember(compiled, now)
  }

  #edit(lists: EntryLists): void {
    if (!this.#converted) return lists.apply(this.#slot, this.#outcome.edit)
    this.#copy.apply(this.#outcome.edit)
    lists.replace(this.#slot, this.#copy)
  }

  #remember({ parameters }: CompiledLimit, now: number): void {
    this.#slab.remember(this.#slot, now + this.#outcome.reset * (1000 / parameters.perMs))
  }
}

function ticks(now: number, { parameters }: CompiledLimit): number {
  return parameters.perMs === 1000 ? now : Math.floor(now / 1000)
}

function reportLock(charge: Charge, ms: number): void {
  charge.remaining = 0
  charge.resetAfter = Math.max(charge.resetAfter, ms)
  if (!charge.allowed) charge.retryAfter = Math.max(charge.retryAfter, ms)
}
