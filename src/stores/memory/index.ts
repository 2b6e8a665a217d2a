import { adjust, lock, renew } from '../../engine/adjust.ts'
import { createOutcome, type Outcome } from '../../algorithms/algorithm.ts'
import { clearEdit, noEntries } from '../../algorithms/entries.ts'
import type { CompiledLimit } from '../../engine/compiled-limit.ts'
import { isCharged, judge, report } from '../../engine/decide.ts'
import { NOWHERE, Row } from '../../engine/row.ts'
import { type Clock, clockGiven, microseconds, steadyClock } from '../../util/clock.ts'
import { brand } from '../../util/copies.ts'
import { isAhead, ticks } from '../../util/ticks.ts'
import { knownOptions, refuse, wholeNumber } from '../../util/validate.ts'
import { observer } from '../../util/warn.ts'
import { isNoted } from '../note.ts'
import {
  type Charge,
  type Deciding,
  type DecisionMode,
  type Direct,
  DIRECT,
  type Forgetting,
  isDeciding,
  type Operation,
  type Place,
  type Reply,
  STORE,
  type StoreClock,
  storeClock,
  type SyncStore,
} from '../store.ts'
import { warnLater } from '../../util/warn-later.ts'
import { warnInCluster } from './cluster-warning.ts'
import { decideRows } from './rare.ts'
import { type FullTable, type Table, Tables } from './tables.ts'

export type { FullTable }

/** Options of `memoryStore`. */
export interface MemoryStoreOptions {
  /**
   * The most keys that each limit remembers, from 1 to 8,000,000. If there are more, no limited key is forgotten: new keys share counters until old keys
   * expire. They may be limited too early, never too late. Default: a million.
   */
  readonly maxKeys?: number
  /**
   * Called when a limit reaches `maxKeys`. A promise is not awaited, and an error becomes the warning `SLUICE_OUTCOME`. Default: a process
   * warning, `SLUICE_MAX_KEYS`.
   */
  readonly onFull?: (full: FullTable) => void
  /** Epoch milliseconds, fractions allowed. Default: a clock that never steps back. */
  readonly clock?: Clock
}

/**
 * Makes a store that keeps state in this process, in flat tables of a bounded size, without timers. It answers at once. If the app has several
 * processes, it warns once with `SLUICE_PER_PROCESS`. It does not warn in the threads of a test runner.
 *
 * Throws `INVALID_OPTION` or `UNKNOWN_OPTION`, and `INVALID_CLOCK` if the clock returns no valid time.
 * @example createLimiter({ keyer, limits, store: memoryStore({ maxKeys: 100_000 }) })
 */
export function memoryStore(options: MemoryStoreOptions = {}): SyncStore {
  options = knownOptions('memoryStore', options, ['maxKeys', 'onFull', 'clock'])
  const { maxKeys = 1_000_000, onFull = warnFull, clock = steadyClock } = options
  if (typeof onFull !== 'function') refuse('onFull', 'a function', onFull)
  warnInCluster()
  const observe = observer(onFull, 'onFull failed.')
  return new MemoryStore(checkedMaxKeys(maxKeys), observe, clockGiven(clock))
}

/** Makes a memory store that decides in place of another store. It does not warn that each process has its own counts. */
export function standInStore(maxKeys: number, clock: Clock = steadyClock): SyncStore {
  return new MemoryStore(maxKeys, warnFull, clock)
}

/**
 * The largest `maxKeys`. A `Map` of V8 throws above 2^24 keys. Deleted keys count until they are half of all keys, so a map with more than 2^23 keys
 * throws when enough of them were replaced.
 */
export const MOST_KEYS = 8_000_000

/** Returns a valid `maxKeys`. Throws `INVALID_OPTION`. */
export function checkedMaxKeys(maxKeys: number): number {
  if (wholeNumber('maxKeys', maxKeys) <= MOST_KEYS) return maxKeys
  return refuse('maxKeys', `at most ${MOST_KEYS}, the limit of a Map`, maxKeys)
}

function warnFull({ limiter, limit, maxKeys }: FullTable): void {
  warnLater('SLUICE_MAX_KEYS', limiter, limit.name, maxKeys)
}

class MemoryStore implements SyncStore {
  readonly sync = true
  readonly answersAlways = true
  readonly clock: StoreClock
  readonly place: Place
  readonly #time: Clock
  readonly #tables: Tables
  // There is one for each charge of a decision. The next decision uses them again.
  readonly #cursors: Cursor[] = []
  readonly #rows: Row[] = []

  readonly [DIRECT]: Direct

  constructor(maxKeys: number, onFull: (full: FullTable) => void, clock: Clock) {
    brand(MemoryStore, STORE)
    this.#time = clock
    // The steady clock never steps back, and may differ from the time of day that clients use.
    this.clock = storeClock(clock === steadyClock ? undefined : clock)
    this.#tables = new Tables(maxKeys, onFull, clock)
    this.place = this.#tables
    this[DIRECT] = { run: this.run, decide: this.#decide, perform: this.#perform }
  }

  readonly run = (operation: Operation, reply: Reply): undefined => {
    try {
      this.#perform(operation)
    } catch (error) {
      reply.failed(error)
      return
    }
    reply.answered()
  }

  readonly #perform = (operation: Operation): void => {
    if (isDeciding(operation)) return this.#decide(operation.charges, operation.kind)
    const now = microseconds(this.#time)
    if (operation.kind === 'forget') return this.#tables.forget(operation.limiter, operation.key, now)
    if (!isNoted(operation)) return this.#change(operation, now)
    this.#tables.notes.perform(operation, now, (each) => this.#change(each, now))
  }

  #change(operation: Exclude<Operation, Deciding | Forgetting>, now: number): void {
    const row = (this.#rows[0] ??= new Row())
    const cursor = (this.#cursors[0] ??= new Cursor())
    for (let i = 0; i < operation.charges.length; i++) {
      const charge = operation.charges[i]!
      if (operation.kind === 'adjust') {
        const units = operation.units[i]!
        if (units === 0 || adjustInPlace(cursor, charge, units, this.#tables, now)) continue
      }
      this.#tables.aim(row, charge, now)
      if (!change(row, operation, i, now)) this.#tables.warnShared()
      if (row.changed) this.#tables.save(row, charge, now)
    }
    this.#tables.reportFull()
  }

  /** Steps the state of each key in its place. If one key is a rare case, rows decide all of them: nothing was written before. */
  readonly #decide = (charges: readonly Charge[], mode: DecisionMode): void => {
    const now = microseconds(this.#time)
    const cursors = this.#cursors
    const admitted = step(cursors, charges, this.#tables, now)
    if (admitted === undefined) decideRows(this.#rows, charges, this.#tables, now, mode === 'consume')
    else if (keep(cursors, charges, now, admitted, mode === 'consume')) this.#tables.sweep(charges, now)
  }

  readonly close = (): void => this.#tables.clear()
}

/** Changes the row of a charge of an operation. Returns false if nothing was done because other keys share the row. */
function change(row: Row, operation: Exclude<Operation, Deciding | Forgetting>, i: number, now: number): boolean {
  const charge = operation.charges[i]!
  if (operation.kind === 'lock') return lock(row, now, Math.round(operation.ms * 1000), operation.mode)
  if (operation.kind === 'adjust') return adjust(row, charge, operation.units[i]!, now)
  operation.renewed[i] = renew(row, charge, now, operation.receipt === undefined)
  return true
}

/**
 * The usual case of one charge: its limit wrote the state of its key, or the key is new, and the key has no rare parts. The state is stepped in its
 * place.
 */
class Cursor {
  readonly outcome: Outcome = createOutcome()
  table!: Table
  /** The slot of the key; `NOWHERE` for a new key. */
  slot: number = NOWHERE

  /** Steps the state. Returns false, and steps nothing, if the clock was ahead when the state was written. */
  step(compiled: CompiledLimit, tick: number, cost: number): boolean {
    const { slab } = this.table
    const isNew = this.slot === NOWHERE
    const cells = isNew ? compiled.initialState : slab.cells
    const at = isNew ? 0 : this.slot * slab.stride
    if (isAhead(compiled, cells, at, tick)) return false
    const entries = compiled.hasEntries && !isNew ? slab.entriesOf(this.slot) : noEntries
    compiled.step(compiled.parameters, cells, at, tick, cost, this.outcome, entries)
    return true
  }

  /** Adds units to the state of a key that is not new. Returns false, and adds nothing, if a clock that ran ahead wrote it. */
  adjust(compiled: CompiledLimit, tick: number, chargedAt: number, units: number): boolean {
    const { slab } = this.table
    const { outcome, slot } = this
    const at = slot * slab.stride
    if (isAhead(compiled, slab.cells, at, tick)) return false
    const entries = compiled.hasEntries ? slab.entriesOf(slot) : noEntries
    clearEdit(outcome.edit)
    compiled.algorithm.adjust(compiled.nonStrict, slab.cells, at, tick, chargedAt, units, outcome, entries)
    return true
  }
}

/**
 * The usual case of `adjust`: the limit of a charge wrote the state of its key, and the key has no rare parts. Returns false, and changes nothing, if
 * a row has to be adjusted.
 */
function adjustInPlace(cursor: Cursor, charge: Charge, units: number, tables: Tables, now: number): boolean {
  const { compiled } = charge.policy
  const table = tables.of(charge.policy)
  const slot = table.find(charge.key, compiled)
  if (slot === undefined || slot === NOWHERE || charge.at * compiled.micros > now) return false
  cursor.table = table
  cursor.slot = slot
  const tick = ticks(compiled, now)
  const { outcome } = cursor
  if (!cursor.adjust(compiled, tick, charge.at, units)) return false
  if (!outcome.persist) return true
  table.slab.write(slot, compiled, outcome)
  // The next sweep finds out how long the state is kept.
  table.slab.keepUntil(slot, now, now)
  return true
}

/**
 * Writes the verdict of each limit into its charge, and no state. Returns whether all enforced limits admit; `undefined` if rows have to
 * decide: for a key that is locked out or begins to be, a state of a changed limit or of a clock that ran ahead, a full table, and strict limits
 * among others.
 */
function step(cursors: Cursor[], charges: readonly Charge[], tables: Tables, now: number): boolean | undefined {
  let admitted = true
  for (let i = 0; i < charges.length; i++) {
    const charge = charges[i]!
    const { compiled } = charge.policy
    const table = tables.of(charge.policy)
    const slot = table.find(charge.key, compiled)
    if (slot === undefined || (compiled.strict && charges.length > 1)) return undefined
    const cursor = (cursors[i] ??= new Cursor())
    cursor.table = table
    cursor.slot = slot
    if (!cursor.step(compiled, ticks(compiled, now), charge.cost)) return undefined
    judge(cursor.outcome, charge)
    if (charge.allowed) continue
    if (compiled.block > 0) return undefined
    if (compiled.enforced) admitted = false
  }
  return admitted
}

/**
 * Writes the result of a step: charges all limits or none, and stores what a denial changes. `write` is false for a peek. Returns whether a table must be
 * swept.
 */
function keep(
  cursors: readonly Cursor[],
  charges: readonly Charge[],
  now: number,
  admitted: boolean,
  write: boolean,
): boolean {
  let sweepIsDue = false
  for (let i = 0; i < charges.length; i++) {
    const charge = charges[i]!
    const cursor = cursors[i]!
    const { table, slot, outcome } = cursor
    if (--table.untilSweep <= 0) sweepIsDue = true
    if (!isCharged(charge, outcome.persist, admitted)) {
      // If another limit has denied the request, the charge reports its key without its cost.
      if (!charge.allowed || admitted || charge.cost === 0) continue
      cursor.step(charge.policy.compiled, ticks(charge.policy.compiled, now), 0)
      report(outcome, charge)
    } else if (write) {
      const { compiled } = charge.policy
      if (slot === NOWHERE) table.begin(charge.key, compiled, outcome, now)
      else table.slab.write(slot, compiled, outcome)
      if (charge.allowed) charge.markCharged(outcome.at, outcome.charged)
    }
  }
  return sweepIsDue
}
