import { isTestRun, observer, type ProcessLike, warn } from '../../util/warn.ts'
import { adjust, lock, renew, reset } from '../../engine/adjust.ts'
import { commit, evaluate } from '../../engine/decide.ts'
import { NOWHERE, Row } from '../../engine/row.ts'
import type { Limit } from '../../engine/limit.ts'
import { type Clock, clockGiven, microseconds, steadyClock } from '../../util/clock.ts'
import { brand, shared } from '../../util/copies.ts'
import { knownOptions, refuse, wholeNumber } from '../../util/validate.ts'
import {
  cached,
  type Charge,
  type Deciding,
  type Forgetting,
  isDeciding,
  type Operation,
  type Place,
  type Policy,
  type Reply,
  STORE,
  type StoreClock,
  storeClock,
  type SyncStore,
} from '../store.ts'
import { counts, isMemoryPlace, type KeyCount } from './key-counts.ts'
import { deny, SharedRows } from './shared-rows.ts'
import { type Beyond, Slab, Table as TableOf } from './table.ts'

let isChecked = false
let hasWarned = false

/** Warns once that a memory store counts only for its own process or thread, if the app has several. */
function warnInCluster(): void {
  const { process } = globalThis as { process?: ProcessLike }
  if (isChecked || process === undefined) return
  isChecked = true
  if (isKnownAsOneOfSeveral(process)) warnOnce()
  else if (!isTestRun(process)) watchThreads(process)
}

function warnOnce(): void {
  if (hasWarned) return
  hasWarned = true
  warn(
    'SLUICE_PER_PROCESS',
    'An app with several processes or threads uses memoryStore(). Each process counts by itself, so together they admit a ' +
      'multiple of each limit. Use a store that all processes share, such as ' +
      "redisStore(client) from 'sluice/redis'. If each process should have its own limits, start node with " +
      '--disable-warning=SLUICE_PER_PROCESS.',
  )
}

/** Deno throws when the environment may not be read. That is no reason to fail. */
export function isKnownAsOneOfSeveral(process: ProcessLike): boolean {
  try {
    return isOneOfSeveral(process)
  } catch {
    return false
  }
}

/**
 * True in a worker of `node:cluster`, and in an instance of several under pm2. Test runners start neither.
 *
 * Node removes `NODE_UNIQUE_ID` from a worker's environment before the application runs, so `node:cluster` itself has to be
 * asked. It is not loaded in a process without a channel to a parent.
 */
export function isOneOfSeveral(process: ProcessLike): boolean {
  const { env = {} } = process
  if (env['pm_id'] !== undefined && Number(env['NODE_APP_INSTANCE']) > 0) return true
  // A single instance in pm2's cluster mode is a worker, too.
  if (env['pm_id'] !== undefined && env['exec_mode'] === 'cluster_mode') return env['instances'] !== '1'
  if (env['NODE_UNIQUE_ID'] !== undefined) return true
  if (typeof process.send !== 'function') return false
  const cluster = process.getBuiltinModule?.('node:cluster') as { readonly isWorker?: boolean } | undefined
  return cluster?.isWorker === true
}

/** The part of `node:worker_threads` that lets threads find each other. */
interface Threads {
  readonly isMainThread: boolean
  readonly threadId: number
  readonly BroadcastChannel: new (name: string) => {
    onmessage: ((message: { readonly data: ThreadMessage }) => void) | null
    postMessage(data: ThreadMessage): void
    unref(): void
  }
}

interface ThreadMessage {
  readonly file: string
  readonly from: number | undefined
  readonly isReply: boolean
}

/**
 * Warns in a worker thread once another thread that runs the same file has a memory store, too. Threads of different files are parts of one
 * app that need not have the same limits.
 */
function watchThreads(process: ProcessLike): void {
  const threads = process.getBuiltinModule?.('node:worker_threads') as Partial<Threads> | undefined
  const file = process.argv?.[1]
  if (threads?.isMainThread !== false || threads.BroadcastChannel === undefined || file === undefined) return
  const { threadId: from } = threads
  const channel = new threads.BroadcastChannel('sluice: memory stores of threads')
  function send(isReply: boolean): void {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a channel between threads has no origin
    channel.postMessage({ file: file!, from, isReply })
  }
  // oxlint-disable-next-line unicorn/prefer-add-event-listener -- the channel has only this listener
  channel.onmessage = function foundThread({ data }) {
    // A second copy of this package in the same thread.
    if (data.file !== file || data.from === from) return
    if (!data.isReply) send(true)
    warnOnce()
  }
  channel.unref()
  send(false)
}

/** The keys of one limit. Those beyond `maxKeys` are in shared rows. */
type Table = TableOf<SharedRows>

/** Which limit has reached `maxKeys`. */
export interface FullTable {
  /** The name of the limiter. */
  readonly limiter: string
  /** The name of the limit. */
  readonly limit: Limit
  /** The option `maxKeys` of the store. */
  readonly maxKeys: number
}

/** Options of `memoryStore`. */
export interface MemoryStoreOptions {
  /**
   * The most keys that each limit remembers, from 1 to 8,000,000. Beyond it no limited key is forgotten: new keys share counters until old ones
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
 * Makes a store that keeps state in this process, in flat tables of a bounded size, without timers. It answers at once. In one of
 * several processes of an app it warns once, with `SLUICE_PER_PROCESS`; not in the threads of a test runner.
 *
 * Throws `INVALID_OPTION` or `UNKNOWN_OPTION`, and `INVALID_CLOCK` when a clock gives no time.
 * @example createLimiter({ keyer, limits, store: memoryStore({ maxKeys: 100_000 }) })
 */
export function memoryStore(options: MemoryStoreOptions = {}): SyncStore {
  knownOptions('memoryStore', options, ['maxKeys', 'onFull', 'clock'])
  const { maxKeys = 1_000_000, onFull = warnFull, clock = steadyClock } = options
  if (typeof onFull !== 'function') refuse('onFull', 'a function', onFull)
  warnInCluster()
  const observe = observer(onFull, 'onFull failed.')
  return new MemoryStore(checkedMaxKeys(maxKeys), observe, clockGiven(clock))
}

/** Makes a memory store that decides in place of another store. It does not warn that each process counts by itself. */
export function standInStore(maxKeys: number, clock: Clock = steadyClock): SyncStore {
  return new MemoryStore(maxKeys, warnFull, clock)
}

/**
 * A `Map` of V8 has room for 2^24 keys, deleted ones included until they are half of them, and throws for another one. So one with more
 * than 2^23 keys throws once enough of them have been replaced.
 */
export const MOST_KEYS = 8_000_000

/** Returns a valid `maxKeys`. Throws `INVALID_OPTION`. */
export function checkedMaxKeys(maxKeys: number): number {
  if (wholeNumber('maxKeys', maxKeys) <= MOST_KEYS) return maxKeys
  return refuse('maxKeys', `at most ${MOST_KEYS}, the limit of a Map`, maxKeys)
}

function warnFull({ limiter, limit, maxKeys }: FullTable): void {
  warn(
    'SLUICE_MAX_KEYS',
    `Limit "${limit.name}" of limiter "${limiter}" has reached \`maxKeys\`, ${maxKeys}. New keys share counters and may be limited too ` +
      'early. Look for a flood of random keys. If the keys are real, increase `maxKeys`.',
  )
}

class MemoryStore implements SyncStore {
  readonly sync = true
  readonly answersAlways = true
  readonly clock: StoreClock
  readonly place: Place
  readonly #time: Clock
  readonly #tables: Tables
  /** One for each charge of a decision, used again by the next one. */
  readonly #rows: Row[] = []

  constructor(maxKeys: number, onFull: (full: FullTable) => void, clock: Clock) {
    this.#time = clock
    // Its own clock never steps back and may differ from the time of day that clients use.
    this.clock = storeClock(clock === steadyClock ? undefined : clock)
    this.#tables = new Tables(maxKeys, onFull)
    this.place = this.#tables
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

  #perform(operation: Operation): void {
    if (isDeciding(operation)) return this.#decide(operation.charges, operation.kind === 'consume')
    const now = microseconds(this.#time)
    if (operation.kind === 'forget') return this.#tables.forget(operation.limiter, operation.key, now)
    const row = (this.#rows[0] ??= new Row())
    operation.charges.forEach((charge, i) => {
      this.#tables.aim(row, charge, now)
      if (!change(row, operation, i, now)) this.#tables.warnShared()
      if (row.changed) this.#tables.save(row, charge, now)
    })
  }

  /** Aims a row at the key of each charge, evaluates and commits, saves what has changed, and sweeps if that is due. */
  #decide(charges: readonly Charge[], isCharged: boolean): void {
    const now = microseconds(this.#time)
    const tables = this.#tables
    const rows = this.#rows
    const { count } = moves
    let sweepIsDue = this.#aim(charges, now)
    // A limit with more cells has moved those that rows were aimed at.
    if (moves.count !== count) sweepIsDue = this.#aim(charges, now)
    const admitted = evaluate(rows, charges, now)
    commit(rows, charges, now, admitted, isCharged)
    for (let i = 0; i < charges.length; i++) if (rows[i]!.changed) tables.save(rows[i]!, charges[i]!, now)
    if (sweepIsDue) tables.sweep(charges, now)
  }

  /** Returns whether a table is to be swept after the decision. */
  #aim(charges: readonly Charge[], now: number): boolean {
    let sweepIsDue = false
    for (let i = 0; i < charges.length; i++) {
      const row = (this.#rows[i] ??= new Row())
      const table = this.#tables.aim(row, charges[i]!, now)
      if (row.slot < NOWHERE && i > 0) this.#follow(i, charges, now)
      if (--table.untilSweep <= 0) sweepIsDue = true
    }
    return sweepIsDue
  }

  /** Two keys of one decision may share a row: the later one pays for both. */
  #follow(i: number, charges: readonly Charge[], now: number): void {
    const row = this.#rows[i]!
    const { policy } = charges[i]!
    const { beyond } = this.#tables.of(policy)
    for (let j = 0; j < i; j++) {
      const other = charges[j]!
      if (this.#rows[j]!.slot !== row.slot || this.#tables.of(other.policy).beyond !== beyond) continue
      row.isShared = true
      row.after = this.#rows[j]!
      row.ahead += other.cost
      if (other.policy.compiled.signature !== policy.compiled.signature) deny(row, now)
    }
  }

  readonly close = (): void => this.#tables.clear()
}

brand(MemoryStore, STORE)

/** Changes the row of a charge of an operation. Returns false where nothing is done because other keys share the row. */
function change(row: Row, operation: Exclude<Operation, Deciding | Forgetting>, i: number, now: number): boolean {
  const charge = operation.charges[i]!
  if (operation.kind === 'lock') return lock(row, now, Math.round(operation.ms * 1000), operation.mode)
  if (operation.kind === 'adjust') return operation.units[i] === 0 || adjust(row, charge, operation.units[i]!, now)
  operation.renewed[i] = renew(row, charge, now)
  return true
}

/** The most limits of a store that have their own table. An empty table takes about 3 kB. */
const MOST_TABLES = 10_000
/** Other tables that are swept after a sweep, so that unused ones are released. */
const SWEPT_BESIDE = 2
/** The owner of a table that no policy may find. */
const NOBODY = {}

/** How often cells have moved, so that rows have to be aimed again. */
const moves = shared('moves', () => ({ count: 0 }))

/** The tables of one store, by name of limiter and limit: where it counts. */
class Tables implements Place {
  readonly #tables = new Map<string, Map<string, Table>>()
  /** All tables, in no order. */
  readonly #all: Table[] = []
  #sweepCursor = 0
  /** A row for sweeps and resets. */
  readonly #probe = new Row()
  /** The rows of the keys of all limits beyond the most tables. */
  readonly #common: Beyond<SharedRows> = { rows: undefined }
  readonly #noSlab = new Slab(1)
  readonly #maxKeys: number
  readonly #onFull: (full: FullTable) => void
  #warned = false

  constructor(maxKeys: number, onFull: (full: FullTable) => void) {
    this.#maxKeys = maxKeys
    this.#onFull = onFull
    counts.set(this, this)
  }

  partOf(): string {
    return ''
  }

  joins(other: Place): boolean {
    return isMemoryPlace(other)
  }

  get keyCounts(): KeyCount[] {
    return this.#all.map(({ limiter, limit, slots }) => ({ limiter, limit, count: slots.size }))
  }

  /** Returns the table of a policy. */
  of(policy: Policy): Table {
    const { cache } = policy
    if (cache !== undefined && cache.owner === this) return cache as Table
    // Stores that decide together use each other's tables.
    const { place } = policy.store
    return (isMemoryPlace(place) ? (place as Tables) : this).own(policy)
  }

  own(policy: Policy): Table {
    return cached(policy, this, (given) => this.#open(given))
  }

  #open({ limiter, limit, compiled }: Policy): Table {
    const table = this.#tables.get(limiter)?.get(limit.name) ?? this.#add({ limiter, limit: limit.name })
    if (table.slab.fit(compiled)) moves.count++
    return table
  }

  /** A limit beyond the most tables has no slots. It stays without them until nothing counts that was counted so. */
  #add(names: { readonly limiter: string; readonly limit: string }): Table {
    if (this.#all.length >= MOST_TABLES || this.#common.rows !== undefined)
      return new TableOf<SharedRows>(NOBODY, names, 0, this.#common, this.#noSlab)
    const table = new TableOf<SharedRows>(this, names, this.#maxKeys)
    const tables = this.#tables.get(names.limiter) ?? new Map<string, Table>()
    this.#tables.set(names.limiter, tables.set(names.limit, table))
    this.#all.push(table)
    return table
  }

  /** Aims a row at the key of a charge. */
  aim(row: Row, { policy, key }: Charge, now: number): Table {
    const table = this.of(policy)
    if (!table.aim(row, key)) this.#aimShared(row, policy, table, key, now)
    return table
  }

  /** Aims at a shared row. When there is room, the key gets a slot from now on, with what is known of it. */
  #aimShared(row: Row, { limiter, limit, compiled }: Policy, table: Table, key: string, now: number): void {
    const { beyond } = table
    if (beyond.rows?.hasExpired(now)) beyond.rows = undefined
    if (beyond.rows === undefined) {
      if (!table.isFull) return
      if (beyond === this.#common) warnCrowded()
      else this.#onFull({ limiter, limit, maxKeys: this.#maxKeys })
      beyond.rows = new SharedRows(this.#maxKeys, now)
    }
    // Perhaps a slot can be freed.
    table.untilSweep = 0
    beyond.rows.aim(row, table.sharedKey(key), compiled, now)
    if (!table.isFull) beyond.rows.promote(row, compiled, now)
  }

  /** Writes what has changed in a row. */
  save(row: Row, { policy, key }: Charge, now: number): void {
    const table = this.of(policy)
    if (row.slot < NOWHERE) table.beyond.rows!.save(row, table.sharedKey(key), now)
    else table.save(row, key, now)
  }

  /** Frees what has expired, here and in a few other tables. Comes after a decision, because it moves slots. */
  sweep(charges: readonly Charge[], now: number): void {
    for (const { policy } of charges) {
      const table = this.of(policy)
      if (table.untilSweep <= 0) table.sweep(now, this.#probe)
    }
    if (this.#common.rows?.hasExpired(now)) this.#common.rows = undefined
    for (let looks = Math.min(SWEPT_BESIDE, this.#all.length); looks > 0; looks--) this.#sweepNext(now)
  }

  /** Sweeps one table after another, and releases those that are empty and were not used since the last time. */
  #sweepNext(now: number): void {
    if (this.#sweepCursor >= this.#all.length) this.#sweepCursor = 0
    const table = this.#all[this.#sweepCursor]!
    table.sweep(now, this.#probe)
    if (table.isEmpty && !table.isUsed) return this.#release(this.#sweepCursor)
    table.isUsed = false
    this.#sweepCursor++
  }

  forget(limiter: string, key: string, now: number): void {
    let isForgotten = this.#common.rows === undefined
    for (const table of this.#tables.get(limiter)?.values() ?? [])
      if (!this.#forgetIn(table, key, now)) isForgotten = false
    if (!isForgotten) this.warnShared()
  }

  #forgetIn(table: Table, key: string, now: number): boolean {
    const row = this.#probe
    const shared = table.beyond.rows
    if (!table.slots.has(key)) return shared?.forget(row, table.sharedKey(key), now) ?? true
    table.aim(row, key)
    reset(row, now)
    if (row.expiry() > now) table.save(row, key, now)
    else table.remove(key)
    return true
  }

  clear(): void {
    for (const table of this.#all) table.clear()
    this.#common.rows = undefined
  }

  /** Warns once that what a key has used cannot be refunded. */
  warnShared(): void {
    if (this.#warned) return
    this.#warned = true
    warn(
      'SLUICE_SHARED_COUNTERS',
      'reset, refund, settle or block was called for a key beyond `maxKeys`. The key shares its counters with other keys, so nothing is ' +
        'refunded, and no lock-out becomes shorter. If the keys are real, increase `maxKeys`.',
    )
  }

  #release(at: number): void {
    const table = this.#all[at]!
    table.owner = NOBODY
    const tables = this.#tables.get(table.limiter)!
    tables.delete(table.limit)
    if (tables.size === 0) this.#tables.delete(table.limiter)
    const last = this.#all.pop()!
    if (last !== table) this.#all[at] = last
  }
}

function warnCrowded(): void {
  warn(
    'SLUICE_MANY_LIMITS',
    `A memory store has ${MOST_TABLES} limits with different names. The keys of further limits share counters and may be limited too ` +
      'early. Put user data into the key, not into the name of a limiter or limit.',
  )
}
