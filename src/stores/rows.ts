import { adjust, lock, renew, reset } from '../engine/adjust.ts'
import { decodeRecord, decodeRow, encodeRecord, encodeRow, type Sections } from '../engine/codec.ts'
import { commit, evaluate } from '../engine/decide.ts'
import { Row } from '../engine/row.ts'
import { type Clock, clockGiven, microseconds, steadyClock } from '../util/clock.ts'
import { brand, madeOnce, shared } from '../util/copies.ts'
import { causeOf, shown, SluiceError } from '../util/errors.ts'
import { chain, isPromise } from '../util/maybe-promise.ts'
import { quietly } from '../util/quietly.ts'
import { boolean, knownOptions, optionalFunction, refuse, wholeNumber } from '../util/validate.ts'
import { decodeNote, encodeNote, isNoted, type Note, noteKey, performOnce } from './note.ts'
import {
  type AsyncStore,
  type Charge,
  closed,
  type Operation,
  ownPlace,
  PER_OPERATION,
  type Place,
  type Reply,
  STORE,
  type Store,
  type StoreClock,
  storeClock,
  type SyncStore,
  Underway,
  type Wrappers,
} from './store.ts'
import { isTestRun } from '../util/warn.ts'
import { warnLater } from '../util/warn-later.ts'
import { wrappers } from './wrappers.ts'
import { lossWatch } from './loss-watch.ts'
import {
  type BusyRows,
  type Change,
  GRACE_MS,
  type RowDatabase,
  type RowWrite,
  type SyncRowDatabase,
} from './row-database.ts'
import { type SwapDatabase, swapRows } from './swap.ts'
import { bringAll } from '../engine/all-algorithms.ts'

/** Options of `rowStore`. */
export interface RowStoreOptions {
  /** Uses this clock instead of the database's: for tests. */
  readonly clock?: Clock
}

/** The most operations in one transaction. */
const MOST_GATHERED = 256
/** The default of `inFlight`. */
const MOST_IN_FLIGHT = 4
/** Milliseconds for which a key has its own transactions after another transaction has locked its row. */
const APART_MS = 1000
const MOST_APART = 256
/** Milliseconds for which a transaction of such a key waits if it also has rows of other keys, because it delays their operations. */
const SHORT_WAIT_MS = 10
/** A time in microseconds in the year 1973. An earlier time is in other units. */
const EARLIEST = 1e14

/**
 * Makes a store of a database that has transactions, or of a service that stores a row if its version has not changed. The package makes all decisions:
 * the database only reads and writes rows of bytes. Decisions that arrive while a transaction runs share the next transaction.
 *
 * Throws `INVALID_OPTION` or `UNKNOWN_OPTION`. A decision rejects with `STORE_FAILED` if the database failed, with its error as the `cause`,
 * and with `DAMAGED_ROW` for a row that is not as it was written.
 * @example
 * const rows = new Map<string, Uint8Array>()
 * const store = rowStore({
 *   sync: true,
 *   transact(keys, change) {
 *     const { writes, result } = change(keys.map((key) => rows.get(key)), Date.now() * 1000)
 *     for (const { key, row } of writes) row === undefined ? rows.delete(key) : rows.set(key, row)
 *     return result
 *   },
 * })
 */
export function rowStore(database: SyncRowDatabase, options?: RowStoreOptions): SyncStore
export function rowStore(database: SwapDatabase, options?: RowStoreOptions): AsyncStore
export function rowStore(database: RowDatabase, options?: RowStoreOptions): AsyncStore
export function rowStore(database: RowDatabase | SwapDatabase, options: RowStoreOptions = {}): Store {
  // A receipt of another process and a stored row can name algorithms that this program does not use.
  bringAll()
  return rowStoreWith(wrappers, swapRows(database) ?? (database as RowDatabase), options)
}

/** Makes the same store of transactions, with other wrappers. It only knows the algorithms that the program uses. */
export function rowStoreWith(wrappers: Wrappers, database: RowDatabase, options: RowStoreOptions): Store {
  options = knownOptions('rowStore', options, ['clock'])
  const { transact, sync, ready, close, mostKeys, inFlight } = (database ?? {}) as Partial<SyncRowDatabase>
  if (typeof transact !== 'function')
    refuse('rowStore', 'a database with the method `transact`, or with `read` and `swap`', database)
  optionalFunction('ready', ready)
  optionalFunction('close', close)
  if (sync !== undefined) boolean('sync', sync)
  if (mostKeys !== undefined) wholeNumber('mostKeys', mostKeys)
  if (inFlight !== undefined) wholeNumber('inFlight', inFlight)
  const clock = options.clock && clockGiven(options.clock)
  return sync === true
    ? new SyncRows(database as SyncRowDatabase, clock, wrappers)
    : new AsyncRows(database, clock, wrappers)
}

function placeOf(database: RowDatabase): Place {
  const { together, place: given } = database
  return madeOnce(places, given ?? database, () => {
    const names = { ...(given && { name: given.name }), ...(together && { together }) }
    const place = ownPlace<Partial<Place>>({ perOperation: PER_OPERATION, ...names })
    databases.set(place, database)
    return place
  })
}

/** Returns the database of a store, or of the store inside a wrapper; `undefined` for a store of another kind. */
export function databaseIn({ place }: Store): RowDatabase | undefined {
  return databases.get(place)
}

const databases = shared('databases of places', () => new WeakMap<Place, RowDatabase>())
const places = shared('databases', () => new WeakMap<object, Place>())

/** The common part of both kinds of stores: a database, its clock, and transactions. */
class RowsStore {
  readonly answersAlways = false
  readonly wrappers: Wrappers
  readonly place: Place
  readonly clock: StoreClock
  readonly ready: (() => Promise<void>) | undefined
  protected readonly database: RowDatabase
  protected isClosed = false
  readonly #given: Clock | undefined
  readonly #watch = lossWatch(() => {
    if (!isTestRun()) warnLater('SLUICE_ROWS_LOST', this.database.place?.name)
  })
  /** Milliseconds by which the clock of the database was ahead of the clock of this process in the last transaction. */
  #ahead = 0

  constructor(database: RowDatabase, given: Clock | undefined, wrappers: Wrappers) {
    this.wrappers = wrappers
    this.database = database
    this.place = placeOf(database)
    this.ready = database.ready?.bind(database)
    this.#given = given
    this.clock = storeClock(given, () => steadyClock.now() + this.#ahead)
  }

  /**
   * Runs operations in one transaction. Returns the error of each operation. An operation that fails, such as for a damaged row, changes nothing, and the
   * others are still done.
   * @param most the most milliseconds to wait
   */
  protected transactAll(operations: readonly Pending[], most = Infinity): Promise<unknown[]> | unknown[] {
    const keys = [...new Set(operations.flatMap(({ operation }) => keysOf(operation)))].toSorted()
    const readOnly = operations.every(({ operation }) => operation.kind === 'peek')
    let noteTransaction = (): void => undefined
    const change: Change<unknown[]> = (stored, given) => {
      // If rows are missing, those of other keys would be taken for them.
      if (!Array.isArray(stored) || stored.length !== keys.length)
        throw new SluiceError('STORE_FAILED', `transact: expected ${keys.length} rows, got ${shown(stored)}`)
      const now = this.#given === undefined ? checkedTime(given) : microseconds(this.#given)
      this.#ahead = now / 1000 - steadyClock.now()
      const rows = new Map(keys.map((key, i) => [key, checkedRow(stored[i])]))
      const records = new Records(rows)
      const result = operations.map(({ operation }) => attempt(operation, records, now))
      const writes = records.writes(now)
      noteTransaction = () => this.#watch(rows, now, operations.every(keepsCharges) ? writes : [])
      return { writes, result }
    }
    const within = Math.min(most, Math.max(...operations.map((each) => each.within ?? Infinity)))
    const failures = this.database.transact(keys, change, within === Infinity ? { readOnly } : { readOnly, within })
    return chain(failures, (known) => {
      if (!Array.isArray(known))
        throw new SluiceError('STORE_FAILED', `transact: expected the result of \`change\`, got ${shown(known)}`)
      noteTransaction()
      return known as unknown[]
    })
  }
}

/** Returns true for a decision whose charges stay. Another process may release slots, so that a row is as before. */
function keepsCharges({ operation }: Pending): boolean {
  return operation.kind === 'consume' && operation.charges.every(({ policy }) => !policy.compiled.slots)
}

/** An operation for a transaction. `operation` is read when it is executed, because it may have been given up by then. */
interface Pending {
  readonly operation: Operation
  /** Milliseconds for which the caller still waits; `undefined` if the operation has no such limit. */
  readonly within?: number | undefined
}

class SyncRows extends RowsStore implements SyncStore {
  readonly sync = true

  readonly run = (operation: Operation, reply: Reply): undefined => {
    const failure = this.isClosed ? closed() : this.#transact(operation)
    if (failure === undefined) reply.answered()
    else reply.failed(failure)
  }

  readonly close = (): void => {
    if (this.isClosed) return
    this.isClosed = true
    void this.database.close?.()
  }

  #transact(operation: Operation): unknown {
    try {
      const failures = this.transactAll([{ operation, within: operation.within }])
      if (!isPromise(failures)) return failures[0]
      void failures.catch(() => undefined)
    } catch (error) {
      return failed(error)
    }
    return new SluiceError('STORE_FAILED', 'transact returned a promise, and the database says `sync: true`')
  }
}

/** An operation that waits for its transaction, or runs in it. */
class Waiting extends Underway implements Pending {
  readonly keys: readonly string[] = [...new Set(keysOf(this.operation))]
  readonly #arrived = performance.now()
  #isRepeated = false

  get within(): number | undefined {
    const { within } = this.operation
    return within === undefined ? undefined : Math.max(1, Math.ceil(within + this.#arrived - performance.now()))
  }

  /** Returns true once, if a transaction with other keys has failed because of locked rows, and the caller still waits. */
  mayRepeat(keys: ReadonlySet<string>): boolean {
    if (this.#isRepeated || this.isGivenUp || this.keys.length === keys.size) return false
    return (this.#isRepeated = true)
  }
}

class AsyncRows extends RowsStore implements AsyncStore {
  readonly sync = false
  #waiting = new Set<Waiting>()
  #isScheduled = false
  #inFlight = 0
  /** The keys of the running transactions. */
  readonly #taken = new Set<string>()
  readonly #apart = new KeysApart()
  /** True while a transaction of a key that is apart runs. There is only one at a time, so that locked rows block only one connection. */
  #isApart = false

  readonly run = (operation: Operation, reply: Reply): (() => void) | undefined => {
    if (this.isClosed) {
      reply.failed(closed())
      return undefined
    }
    const waiting = new Waiting(this, operation, reply)
    this.#waiting.add(waiting)
    if (!this.#isScheduled) {
      this.#isScheduled = true
      queueMicrotask(this.#start)
    }
    return () => {
      waiting.giveUp()
      if (this.#waiting.delete(waiting)) waiting.fail(givenUp())
    }
  }

  /** Does not wait for running transactions: the database ends them. */
  readonly close = async (): Promise<void> => {
    if (this.isClosed) return
    this.isClosed = true
    for (const each of this.#waiting) each.fail(closed())
    this.#waiting.clear()
    await this.database.close?.()
  }

  /** Starts transactions for the waiting operations. Operations on a key keep their order. */
  readonly #start = (): void => {
    this.#isScheduled = false
    const { inFlight = MOST_IN_FLIGHT } = this.database
    while (this.#inFlight < inFlight) {
      const batch = this.#nextBatch()
      if (batch.length === 0) return
      void this.#run(batch)
    }
  }

  /** Removes and returns operations whose keys are free: those of one key that is apart, or those of keys that are not apart. */
  #nextBatch(): Waiting[] {
    const { mostKeys = Infinity } = this.database
    const batch: Waiting[] = []
    const keys = new Set<string>()
    const taken = new Set(this.#taken)
    let common: string | undefined
    for (const each of this.#waiting) {
      const apart = this.#apart.among(each.keys)
      const fits = batch.length === 0 ? apart === undefined || !this.#isApart : apart === common
      const isFree = fits && batch.length < MOST_GATHERED && !each.keys.some((key) => taken.has(key))
      const added = each.keys.filter((key) => !keys.has(key))
      if (isFree && (batch.length === 0 || keys.size + added.length <= mostKeys)) {
        common = apart
        batch.push(each)
        for (const key of added) keys.add(key)
        // An operation that waits for a locked row does not delay operations on its other keys.
      } else for (const key of apart === undefined ? each.keys : [apart]) taken.add(key)
    }
    for (const each of batch) this.#waiting.delete(each)
    return batch
  }

  async #run(batch: readonly Waiting[]): Promise<void> {
    const keys = new Set(batch.flatMap((each) => each.keys))
    const isApart = this.#apart.among(batch[0]!.keys) !== undefined
    for (const key of keys) this.#taken.add(key)
    if (isApart) this.#isApart = true
    this.#inFlight++
    await this.#settle(batch, keys, isApart && keys.size > 1 ? SHORT_WAIT_MS : Infinity)
    this.#inFlight--
    if (isApart) this.#isApart = false
    for (const key of keys) this.#taken.delete(key)
    this.#start()
  }

  async #settle(batch: readonly Waiting[], keys: ReadonlySet<string>, most: number): Promise<void> {
    try {
      const failures = await this.transactAll(batch, most)
      for (const [i, each] of batch.entries())
        if (failures[i] === undefined) void each.done()
        else each.fail(failures[i])
    } catch (error) {
      // If a row is too large, only its own operation fails, so all operations of the transaction are repeated one by one.
      if (isRejection(error) && batch.length > 1)
        for (const each of batch) await this.#settle([each], new Set(each.keys), most)
      else this.#fail(batch, keys, failed(error))
    }
  }

  /** Fails the operations of a transaction. First repeats those that may succeed without the locked rows. */
  #fail(batch: readonly Waiting[], keys: ReadonlySet<string>, failure: SluiceError): void {
    const locked = lockedKeys(failure)
    this.#apart.add(locked)
    const repeated = locked.length === 0 || this.isClosed ? [] : batch.filter((each) => each.mayRepeat(keys))
    this.#waiting = new Set([...repeated, ...this.#waiting])
    for (const each of batch) if (!repeated.includes(each)) each.fail(failure)
    if (repeated.length > 0) return
    // The transaction has waited only for the locked row. Operations on this row that have arrived in the meantime also fail.
    for (const each of this.#waiting)
      if (each.keys.some((key) => locked.includes(key)) && this.#waiting.delete(each)) each.fail(failure)
  }
}

/** Keys whose rows were locked in the last second. They have their own transactions, so that they do not delay other keys. */
class KeysApart {
  readonly #until = new Map<string, number>()

  add(keys: readonly string[]): void {
    for (const key of keys) {
      this.#until.delete(key)
      this.#until.set(key, performance.now() + APART_MS)
    }
    for (const key of this.#until.keys())
      if (this.#until.size > MOST_APART) this.#until.delete(key)
      else break
  }

  /** Returns the first of `keys` that is apart. */
  among(keys: readonly string[]): string | undefined {
    if (this.#until.size === 0) return undefined
    return keys.find((key) => {
      const until = this.#until.get(key)
      if (until !== undefined && until <= performance.now()) this.#until.delete(key)
      return this.#until.has(key)
    })
  }
}

brand(RowsStore, STORE)

/** The rows of a transaction: records of keys, and notes of receipts. */
class Records {
  readonly #rows: ReadonlyMap<string, Uint8Array | undefined>
  readonly #records = new Map<string, KeyRecord>()
  readonly #notes = new Map<string, Note>()

  constructor(rows: ReadonlyMap<string, Uint8Array | undefined>) {
    this.#rows = rows
  }

  of(limiter: string, key: string): KeyRecord {
    const place = recordKey(limiter, key)
    return madeOnce(this.#records, place, () => new KeyRecord(this.#rows.get(place)))
  }

  /** Returns the note of a receipt. Throws `DAMAGED_ROW`. */
  noteOf(id: string): Note | undefined {
    const row = this.#rows.get(noteKey(id))
    return this.#notes.get(id) ?? (row && decodeNote(row))
  }

  keep(id: string, note: Note): void {
    this.#notes.set(id, note)
  }

  writes(now: number): RowWrite[] {
    const notes = [...this.#notes].map(([id, note]): RowWrite => {
      return { key: noteKey(id), row: encodeNote(note), expiresAt: note.until + GRACE_MS }
    })
    return [...[...this.#records].flatMap(([key, record]) => record.write(key, now)), ...notes]
  }
}

function checkedRow(stored: unknown): Uint8Array | undefined {
  if (stored === undefined || stored === null) return undefined
  // In Jest with jsdom, bytes of Node have another class than those of a test: `instanceof` is false.
  if (Object.prototype.toString.call(stored) === '[object Uint8Array]') return stored as Uint8Array
  throw new SluiceError('STORE_FAILED', `transact: expected rows as Uint8Array or undefined, got ${shown(stored)}`)
}

/** The rows of one key under one limiter, in a transaction. */
class KeyRecord {
  readonly #bytes: Uint8Array | undefined
  #sections: Sections | undefined
  readonly #rows = new Map<string, Row>()
  #isDeleted = false

  constructor(bytes: Uint8Array | undefined) {
    this.#bytes = bytes
  }

  rowOf({ limit, policy: { compiled } }: Charge): Row {
    return madeOnce(this.#rows, limit.name, () => {
      this.#sections ??= decodeRecord(this.#bytes)
      const section = this.#sections.get(limit.name)
      return section === undefined ? new Row() : decodeRow(section, compiled)
    })
  }

  /** Resets all rows. Deletes a damaged record. */
  forget(now: number): void {
    this.#isDeleted = this.#bytes !== undefined
    try {
      this.#sections ??= decodeRecord(this.#bytes)
      for (const [name, section] of this.#sections) if (!this.#rows.has(name)) this.#rows.set(name, decodeRow(section))
    } catch {
      this.#sections = new Map()
      this.#rows.clear()
    }
    for (const row of this.#rows.values()) reset(row, now)
  }

  write(key: string, now: number): RowWrite[] {
    const changed = [...this.#rows].filter(([, row]) => row.changed)
    if (changed.length === 0 && !this.#isDeleted) return []
    for (const [name, row] of changed) this.#sections!.set(name, encodeRow(row))
    const { row, until } = encodeRecord(this.#sections!, now)
    return [{ key, row, expiresAt: Math.ceil(until / 1000) + GRACE_MS }]
  }
}

/** Returns the limiter and the key of a record; `undefined` for a text that is not the key of a record. */
export function readRecordKey(record: string): { limiter: string; key: string } | undefined {
  return quietly(() => {
    const [limiter, key] = JSON.parse(record) as unknown[]
    return typeof limiter === 'string' && typeof key === 'string' ? { limiter, key } : undefined
  })
}

/** Returns the key of a record. `limiter` and `key` can be any texts. The result is well-formed and has no NUL. */
export function recordKey(limiter: string, key: string): string {
  return JSON.stringify([limiter, key])
}

function keysOf(operation: Operation): string[] {
  if (operation.kind === 'forget') return [recordKey(operation.limiter, operation.key)]
  const keys = operation.charges.map(({ policy, key }) => recordKey(policy.limiter, key))
  return isNoted(operation) ? [...keys, noteKey(operation.receipt.id)] : keys
}

function attempt(operation: Operation, records: Records, now: number): unknown {
  try {
    if (!isNoted(operation)) execute(operation, records, now)
    else {
      const { id } = operation.receipt
      const note = performOnce(operation, records.noteOf(id), now, (each) => execute(each, records, now))
      if (note !== undefined) records.keep(id, note)
    }
    return undefined
  } catch (error) {
    return error
  }
}

/** Executes an operation. Reads every row before it changes one, so that an operation fails as a whole. */
function execute(operation: Operation, records: Records, now: number): void {
  if (operation.kind === 'forget') return records.of(operation.limiter, operation.key).forget(now)
  const { charges } = operation
  const rows = charges.map((charge) => records.of(charge.policy.limiter, charge.key).rowOf(charge))
  if (operation.kind === 'adjust') {
    const { units } = operation
    rows.forEach((row, i) => units[i] === 0 || adjust(row, charges[i]!, units[i]!, now))
  } else if (operation.kind === 'renew') {
    const { renewed, receipt } = operation
    rows.forEach((row, i) => (renewed[i] = renew(row, charges[i]!, now, receipt === undefined)))
  } else if (operation.kind === 'lock') {
    for (const row of rows) lock(row, now, Math.round(operation.ms * 1000), operation.mode)
  } else {
    // The transaction may be repeated, so results of an earlier attempt are removed.
    for (const charge of charges) {
      charge.markCharged(0, 0)
      charge.markLocked(0)
    }
    commit(rows, charges, now, evaluate(rows, charges, now), operation.kind === 'consume')
  }
}

function checkedTime(given: unknown): number {
  if (typeof given === 'number' && given >= EARLIEST && given < Number.MAX_SAFE_INTEGER) return Math.floor(given)
  throw new SluiceError('INVALID_CLOCK', `transact: expected microseconds since 1970, got ${shown(given)}`)
}

function isRejection(error: unknown): boolean {
  return error instanceof SluiceError && (error.code === 'STORE_REJECTED' || error.code === 'DAMAGED_ROW')
}

/** Returns the keys of rows that other transactions have locked. The error may come from another copy of the package. */
function lockedKeys(failure: SluiceError): readonly string[] {
  return failure.code === 'STORE_BUSY' ? ((failure as Partial<BusyRows>).keys ?? []) : []
}

function failed(error: unknown): SluiceError {
  if (error instanceof SluiceError) return error
  return new SluiceError('STORE_FAILED', `The database failed: ${causeOf(error)}`, { cause: error })
}

function givenUp(): SluiceError {
  return new SluiceError('STORE_FAILED', 'The decision was given up before it was sent to the database')
}
