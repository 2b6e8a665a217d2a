import { clearEdit, createOutcome, type Entries, MAX_CELLS, noEntries, type Outcome, type Parameters, rescale } from '../algorithm.ts'
import type { Mechanism } from '../limit.ts'
import type { Charge } from '../store.ts'
import { EntryArray } from './entry-array.ts'
import { type EntryLists, EntryView } from './entry-lists.ts'
import type { Table } from './table.ts'

/**
 * One charge being tried: its key's state is read, stepped and, once all others have spoken, kept or left. It is reused for
 * one charge after another, so that a decision leaves no garbage but itself.
 */
export class Trial {
  readonly #outcome: Outcome = createOutcome()
  #slot = -1
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

  /** Decides a charge by itself at `now`, in microseconds, and writes its verdict. */
  evaluate(charge: Charge, table: Table, now: number): void {
    const { limit, mechanism } = charge.policy
    this.#read(charge.key, table, mechanism, now)
    this.#until = table.blockedUntil(this.#slot)
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
  conclude(charge: Charge, table: Table, now: number, admitted: boolean, write: boolean): void {
    const { limit, mechanism } = charge.policy
    const charged = charge.cost > 0 && (charge.allowed ? admitted || limit.strict === true : this.#outcome.persist)
    if (charged) {
      if (!write) return
      this.#keep(charge.key, table, mechanism, now)
      if (charge.allowed && admitted) charge.receipt(this.#outcome.at, this.#outcome.charged)
    } else if (charge.allowed && !admitted && charge.cost > 0) this.#reportUncharged(charge, mechanism)
    if (write && !charge.allowed && this.#until > now) this.#lock(charge.key, table)
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

  /** Adds to what a key holds, or gives back; under the configuration that wrote the state. */
  adjust(charge: Charge, table: Table, now: number, units: number): void {
    const { mechanism } = charge.policy
    const wrote = this.#wroteStill(charge, table, now)
    if (wrote === undefined && units < 0) return
    const under = wrote ?? mechanism
    this.#read(charge.key, table, under, now)
    const then = rescale(charge.at, mechanism.parameters, under.parameters)
    clearEdit(this.#outcome.edit)
    under.algorithm.adjust(under.parameters, this.#cells, this.#offset, this.#tick, then, units, this.#outcome, this.#entries)
    if (!this.#outcome.persist) return
    this.#keep(charge.key, table, under, now)
    this.#readSame(table, under, now)
    this.#step(under, under.lenient, 0)
    this.#remember(table, under, now)
  }

  /** What wrote a key's state, if that is of the same algorithm and anything is left of it: what is fresh may be absent, too. */
  #wroteStill({ key, policy }: Charge, table: Table, now: number): Mechanism | undefined {
    this.#slot = table.slotOf(key)
    const wrote = this.#slot === -1 ? undefined : table.configurations.at(table.configuration[this.#slot]!)
    if (wrote?.algorithm !== policy.mechanism.algorithm) return undefined
    this.#readSame(table, wrote, now)
    this.#step(wrote, wrote.lenient, 0)
    return this.#outcome.reset === 0 ? undefined : wrote
  }

  #read(key: string, table: Table, mechanism: Mechanism, now: number): void {
    this.#slot = table.slotOf(key)
    const wrote = this.#slot === -1 ? undefined : table.configurations.at(table.configuration[this.#slot]!)
    if (wrote === mechanism || wrote?.signature === mechanism.signature) return this.#readSame(table, mechanism, now)
    this.#tick = ticks(now, mechanism)
    this.#cells = mechanism.blank
    this.#offset = 0
    this.#entries = noEntries
    this.#converted = wrote !== undefined
    if (wrote === undefined) return
    this.#copy.clear()
    if (wrote.algorithm === mechanism.algorithm) this.#convert(table, wrote, mechanism)
  }

  #readSame(table: Table, mechanism: Mechanism, now: number): void {
    this.#tick = ticks(now, mechanism)
    this.#cells = table.cells
    this.#offset = table.offset(this.#slot)
    this.#entries = mechanism.algorithm.entries ? this.#view.aim(table.lists!, this.#slot) : noEntries
    this.#converted = false
  }

  #convert(table: Table, from: Mechanism, to: Mechanism): void {
    const { edit, next } = this.#outcome
    clearEdit(edit)
    if (to.algorithm.entries) this.#copy.copy(this.#view.aim(table.lists!, this.#slot))
    to.algorithm.convert(to.parameters, from.parameters, table.cells, table.offset(this.#slot), this.#tick, this.#outcome, this.#copy)
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

  #keep(key: string, table: Table, mechanism: Mechanism, now: number): void {
    if (this.#slot === -1) this.#slot = table.slotOf(key)
    if (this.#slot === -1) this.#slot = table.add(key)
    const { next } = this.#outcome
    const at = table.offset(this.#slot)
    for (let i = 0; i < mechanism.blank.length; i++) table.cells[at + i] = next[i]!
    table.configure(this.#slot, mechanism)
    if (mechanism.algorithm.entries) this.#edit(table.lists!)
    this.#remember(table, mechanism, now)
  }

  #remember(table: Table, { parameters }: Mechanism, now: number): void {
    table.remember(this.#slot, Math.max(now + this.#outcome.reset * (1000 / parameters.perMs), table.blockedUntil(this.#slot)))
  }

  #edit(lists: EntryLists): void {
    if (!this.#converted) return lists.apply(this.#slot, this.#outcome.edit)
    this.#copy.apply(this.#outcome.edit)
    lists.replace(this.#slot, this.#copy)
  }

  #lock(key: string, table: Table): void {
    if (this.#slot === -1) this.#slot = table.slotOf(key)
    if (this.#slot === -1) this.#slot = table.add(key)
    table.block(this.#slot, this.#until)
    table.prolong(this.#slot, this.#until)
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
