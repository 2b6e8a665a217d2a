import {
  clearEdit,
  createOutcome,
  type Entries,
  MAX_CELLS,
  noEntries,
  type Outcome,
  type Parameters,
  rescale,
  takesOver,
} from '../algorithm.ts'
import type { Mechanism } from '../limit.ts'
import type { Charge } from '../store.ts'
import { EntryArray } from './entry-array.ts'
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
    const { limit, mechanism } = charge.policy
    this.#read(mechanism, slab, slot, now)
    this.#until = slot === NONE ? 0 : slab.lockedUntil(slot)
    if (this.#until > now) return this.#lockedOut(charge, mechanism, now)
    this.#step(mechanism, mechanism.parameters, charge.cost)
    charge.allowed = this.#outcome.allowed
    charge.retryAfter = this.#outcome.retry / mechanism.parameters.perMs
    this.#report(charge, mechanism.parameters)
    if (charge.allowed || limit.block === undefined) return
    this.#until = now + limit.block * 1000
    reportLock(charge, limit.block)
  }

  /** Keeps what follows from the verdicts of all: `admitted` says whether the enforced limits let the request through. */
  conclude(charge: Charge, claim: Claim | undefined, now: number, admitted: boolean, write: boolean): void {
    const { mechanism } = charge.policy
    const locks = !charge.allowed && this.#until > now
    const charged =
      charge.cost > 0 && (charge.allowed ? admitted || charge.limit.strict === true : this.#outcome.persist)
    if (write && this.#slot === NONE && (charged || locks)) this.#slot = claim!.add(charge.key)
    if (charged && write) this.#keep(mechanism, now)
    if (charged && write && charge.allowed && admitted) charge.receipt(this.#outcome.at, this.#outcome.charged)
    if (!charged && charge.allowed && !admitted && charge.cost > 0) this.#reportUncharged(charge, mechanism)
    if (write && locks) this.#slab.lock(this.#slot, this.#until)
  }

  /** Charges what still fits of a cost that is denied here, because it was admitted elsewhere. */
  saturate(charge: Charge, now: number, write: boolean): void {
    if (!write || charge.cost === 0) return
    const { mechanism } = charge.policy
    this.#step(mechanism, { ...mechanism.parameters, strict: 1 }, charge.cost)
    this.#keep(mechanism, now)
  }

  /** Decides again, later, on the state read and on whatever was supposed since. */
  reconsider(charge: Charge, now: number): void {
    const { mechanism } = charge.policy
    this.#tick = ticks(now, mechanism)
    if (this.#until > now) return this.#lockedOut(charge, mechanism, now)
    this.#step(mechanism, mechanism.lenient, charge.cost)
    charge.allowed = this.#outcome.allowed
    charge.retryAfter = this.#outcome.retry / mechanism.parameters.perMs
  }

  /** Goes on as though the charge had been kept, without keeping it. */
  suppose({ policy }: Charge): void {
    const { next, edit } = this.#outcome
    this.#scratch.set(next)
    this.#cells = this.#scratch
    this.#offset = 0
    if (!policy.mechanism.algorithm.entries) return
    if (this.#entries !== this.#copy) this.#copy.copy(this.#entries)
    this.#entries = this.#copy
    this.#copy.apply(edit)
  }

  /** Adds to what a slot holds, or gives back; under the configuration that wrote it. */
  adjust(charge: Charge, slab: Slab, slot: number, now: number, units: number): void {
    const { mechanism } = charge.policy
    const wrote = this.#wroteStill(mechanism, slab, slot, now)
    if (wrote === undefined && units < 0) return
    const under = wrote ?? mechanism
    this.#read(under, slab, slot, now)
    const then = rescale(charge.at, mechanism.parameters, under.parameters)
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
    this.#step(under, under.lenient, 0)
    this.#remember(under, now)
  }

  /** What wrote a slot, if that is of the same algorithm and anything is left of it: what is fresh may be absent, too. */
  #wroteStill({ algorithm }: Mechanism, slab: Slab, slot: number, now: number): Mechanism | undefined {
    const wrote = slot === NONE ? undefined : slab.wrote(slot)
    if (wrote === undefined || !takesOver(algorithm, wrote.algorithm)) return undefined
    this.#read(wrote, slab, slot, now)
    this.#step(wrote, wrote.lenient, 0)
    return this.#outcome.reset === 0 ? undefined : wrote
  }

  #read(mechanism: Mechanism, slab: Slab, slot: number, now: number): void {
    this.#slab = slab
    this.#slot = slot
    const wrote = slot === NONE ? undefined : slab.wrote(slot)
    if (wrote === mechanism || wrote?.signature === mechanism.signature) return this.#readSame(mechanism, now)
    this.#tick = ticks(now, mechanism)
    this.#cells = mechanism.blank
    this.#offset = 0
    this.#entries = noEntries
    this.#converted = wrote !== undefined
    if (wrote === undefined) return
    this.#copy.clear()
    if (takesOver(mechanism.algorithm, wrote.algorithm)) this.#convert(wrote, mechanism)
  }

  #readSame(mechanism: Mechanism, now: number): void {
    this.#tick = ticks(now, mechanism)
    this.#cells = this.#slab.cells
    this.#offset = this.#slab.offset(this.#slot)
    this.#entries = mechanism.algorithm.entries ? this.#view.aim(this.#slab.lists!, this.#slot) : noEntries
    this.#converted = false
  }

  #convert(from: Mechanism, to: Mechanism): void {
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

  #step({ algorithm }: Mechanism, parameters: Parameters, cost: number): void {
    algorithm.step(parameters, this.#cells, this.#offset, this.#tick, cost, this.#outcome, this.#entries)
  }

  #report(charge: Charge, { perMs }: Parameters): void {
    charge.remaining = this.#outcome.remaining
    charge.resetAfter = this.#outcome.reset / perMs
    charge.delay = this.#outcome.delay / perMs
  }

  /** Another limit has denied: what this one holds without the charge. */
  #reportUncharged(charge: Charge, mechanism: Mechanism): void {
    this.#step(mechanism, mechanism.parameters, 0)
    this.#report(charge, mechanism.parameters)
  }

  /** A key that is locked out is told when the lock opens, or later if the algorithm would still say no by then. */
  #lockedOut(charge: Charge, mechanism: Mechanism, now: number): void {
    this.#step(mechanism, mechanism.lenient, charge.cost)
    charge.allowed = charge.cost === 0
    charge.retryAfter = charge.allowed ? 0 : this.#outcome.retry / mechanism.parameters.perMs
    this.#step(mechanism, mechanism.lenient, 0)
    this.#report(charge, mechanism.parameters)
    reportLock(charge, (this.#until - now) / 1000)
  }

  #keep(mechanism: Mechanism, now: number): void {
    if (this.#shared) mechanism.algorithm.share?.(mechanism.parameters, this.#outcome)
    const { next } = this.#outcome
    const slab = this.#slab
    const at = slab.offset(this.#slot)
    for (let i = 0; i < mechanism.blank.length; i++) slab.cells[at + i] = next[i]!
    slab.configure(this.#slot, mechanism)
    if (mechanism.algorithm.entries) this.#edit(slab.lists!)
    this.#remember(mechanism, now)
  }

  #edit(lists: EntryLists): void {
    if (!this.#converted) return lists.apply(this.#slot, this.#outcome.edit)
    this.#copy.apply(this.#outcome.edit)
    lists.replace(this.#slot, this.#copy)
  }

  #remember({ parameters }: Mechanism, now: number): void {
    this.#slab.remember(this.#slot, now + this.#outcome.reset * (1000 / parameters.perMs))
  }
}

function ticks(now: number, { parameters }: Mechanism): number {
  return parameters.perMs === 1000 ? now : Math.floor(now / 1000)
}

function reportLock(charge: Charge, ms: number): void {
  charge.remaining = 0
  charge.resetAfter = Math.max(charge.resetAfter, ms)
  if (!charge.allowed) charge.retryAfter = Math.max(charge.retryAfter, ms)
}
