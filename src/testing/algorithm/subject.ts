import { clearEdit } from '../../algorithms/entries.ts'
import { createOutcome, type Outcome } from '../../algorithms/algorithm.ts'
import type { CompiledLimit } from '../../limits/compiled-limit.ts'
import { type Limit, limit, compiled } from '../../limits/limit.ts'
import { EntryList } from './entry-list.ts'

/** The verdict of a step, as plain data. */
export type Verdict = Pick<Outcome, 'allowed' | 'at' | 'retry' | 'remaining' | 'reset' | 'delay' | 'charged'>

/** One key under one limit. It calls the algorithm as a store does, in ticks. */
export class Subject {
  readonly limit: Limit
  readonly #compiled: CompiledLimit
  readonly #cells: Float64Array
  readonly #entries = new EntryList()
  readonly #out = createOutcome()

  constructor(given: Limit) {
    this.limit = limit(given)
    this.#compiled = compiled(this.limit)
    this.#cells = Float64Array.from(this.#compiled.algorithm.initialState)
  }

  /** The window in ticks. */
  get window(): number {
    return this.limit.window * this.#compiled.parameters.perMs
  }

  /** The most that a new key admits at once. */
  get capacity(): number {
    return new Subject(this.limit).peek(this.tick(0), 0).remaining
  }

  /** Returns the tick this many windows after the start. */
  tick(windows: number): number {
    return EPOCH_MS * this.#compiled.parameters.perMs + Math.round(windows * this.window)
  }

  /** Returns the verdict without a change of state. */
  peek(now: number, cost: number): Verdict {
    const { algorithm, parameters } = this.#compiled
    algorithm.step(parameters, this.#cells, 0, now, cost, this.#out, this.#entries)
    const { allowed, at, retry, remaining, reset, delay, charged } = this.#out
    return { allowed, at, retry, remaining, reset, delay, charged }
  }

  /** Decides, and commits the next state as a store does. */
  ask(now: number, cost: number): Verdict {
    const verdict = this.peek(now, cost)
    if (cost > 0 && (verdict.allowed || this.#out.persist)) this.#keep()
    return verdict
  }

  /** Charges past any limit, or refunds if negative, for a charge made at `then`. */
  adjust(now: number, then: number, units: number): void {
    const { algorithm, parameters } = this.#compiled
    clearEdit(this.#out.edit)
    algorithm.adjust(parameters, this.#cells, 0, now, then, units, this.#out, this.#entries)
    if (this.#out.persist) this.#keep()
  }

  clone(): Subject {
    const copy = new Subject(this.limit)
    copy.#cells.set(this.#cells)
    copy.#entries.items.push(...this.#entries.items.map((each) => ({ ...each })))
    return copy
  }

  /** Returns the cells and entries of the key. */
  state(): unknown {
    return { cells: [...this.#cells], entries: this.#entries.items.map((each) => ({ ...each })) }
  }

  #keep(): void {
    for (let i = 0; i < this.#cells.length; i++) this.#cells[i] = this.#out.next[i]!
    if (this.#compiled.algorithm.entries) this.#entries.apply(this.#out.edit)
  }
}

/** 2026-01-01. */
const EPOCH_MS = 1_767_225_600_000
