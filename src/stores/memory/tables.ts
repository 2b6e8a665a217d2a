import { reset } from '../../engine/adjust.ts'
import type { Limit } from '../../engine/limit.ts'
import { NOWHERE, Row } from '../../engine/row.ts'
import type { Clock } from '../../util/clock.ts'
import { madeOnce } from '../../util/copies.ts'
import { Notes } from '../note.ts'
import { cached, type Charge, type Place, type Policy } from '../store.ts'
import { warnLater } from '../../util/warn-later.ts'
import { counted, isMemoryPlace } from './key-counts.ts'
import { SharedRows } from './shared-rows.ts'
import { type Beyond, Slab, Table as TableOf } from './table.ts'

/** The keys of one limit. Those above `maxKeys` are in shared rows. */
export type Table = TableOf<SharedRows>

/** Which limit has reached `maxKeys`. */
export interface FullTable {
  /** The name of the limiter. */
  readonly limiter: string
  /** The limit. */
  readonly limit: Limit
  /** The option `maxKeys` of the store. */
  readonly maxKeys: number
}

/** The most limits of a store that have their own table. An empty table takes about 3 kB. */
const MOST_TABLES = 10_000
/** How many other tables a sweep also sweeps, so that unused tables are released. */
const SWEPT_BESIDE = 2
/** The owner of a table that no policy may use from its cache. */
const NOBODY = {}

/** The tables of one store, by the names of limiter and limit. They are also the place of the store. */
export class Tables implements Place {
  readonly notes: Notes = new Notes()
  readonly byName: Map<string, Map<string, Table>> = new Map<string, Map<string, Table>>()
  /** All tables, in no order. */
  readonly all: Table[] = []
  #sweepCursor = 0
  nextCounted = 0
  readonly probe: Row = new Row()
  /** The shared rows of all limits that have no table of their own. */
  readonly #common: Beyond<SharedRows> = { rows: undefined }
  readonly #noSlab = new Slab(1)
  readonly #maxKeys: number
  readonly #onFull: (full: FullTable) => void
  readonly time: Clock
  #warned = false
  /** The arguments for `onFull`. It is called after the operation, because it may count keys, which moves slots. */
  readonly #full: FullTable[] = []

  constructor(maxKeys: number, onFull: (full: FullTable) => void, time: Clock) {
    this.#maxKeys = maxKeys
    this.#onFull = onFull
    this.time = time
    counted.set(this, this)
  }

  partOf(): string {
    return ''
  }

  joins(other: Place): boolean {
    return isMemoryPlace(other)
  }

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
    const table = this.named(limiter, limit.name)
    table.slab.fit(compiled)
    return table
  }

  named(limiter: string, limit: string): Table {
    return this.byName.get(limiter)?.get(limit) ?? this.#add({ limiter, limit })
  }

  /** Adds a table. Beyond `MOST_TABLES`, a limit has no slots, until all rows of such limits have expired. */
  #add(names: { readonly limiter: string; readonly limit: string }): Table {
    if (this.all.length >= MOST_TABLES || this.#common.rows !== undefined)
      return new TableOf<SharedRows>(NOBODY, names, 0, this.#common, this.#noSlab)
    const table = new TableOf<SharedRows>(this, names, this.#maxKeys)
    madeOnce(this.byName, names.limiter, () => new Map<string, Table>()).set(names.limit, table)
    this.all.push(table)
    return table
  }

  /** Aims a row at the key of a charge. */
  aim(row: Row, { policy, key }: Charge, now: number): Table {
    const table = this.of(policy)
    if (!table.aim(row, key)) this.#aimShared(row, policy, table, key, now)
    return table
  }

  /** Aims at a shared row. If there is room in the table, the key gets a slot there, with its present state. */
  #aimShared(row: Row, { limiter, limit, compiled }: Policy, table: Table, key: string, now: number): void {
    const { beyond } = table
    if (beyond.rows?.hasExpired(now)) beyond.rows = undefined
    if (beyond.rows === undefined) {
      if (!table.isFull) return
      if (beyond === this.#common) warnLater('SLUICE_MANY_LIMITS', MOST_TABLES)
      else this.#full.push({ limiter, limit, maxKeys: this.#maxKeys })
      beyond.rows = new SharedRows(this.#maxKeys, now)
    }
    // A sweep may free a slot.
    table.untilSweep = 0
    beyond.rows.aim(row, table.sharedKey(key), compiled, now)
    if (!table.isFull) beyond.rows.promote(row, compiled, now)
  }

  /** Reports the tables that have become full. Must be the last step of an operation. */
  reportFull(): void {
    if (this.#full.length > 0) for (const full of this.#full.splice(0)) this.#onFull(full)
  }

  save(row: Row, { policy, key }: Charge, now: number): void {
    const table = this.of(policy)
    if (row.slot < NOWHERE) table.beyond.rows!.save(row, table.sharedKey(key), now)
    else table.save(row, key, now)
  }

  /** Frees expired keys in the tables of the charges and in a few other tables. Must come after the decision, because it moves slots. */
  sweep(charges: readonly Charge[], now: number): void {
    for (const { policy } of charges) {
      const table = this.of(policy)
      if (table.untilSweep <= 0) table.sweep(now, this.probe)
    }
    if (this.#common.rows?.hasExpired(now)) this.#common.rows = undefined
    for (let looks = Math.min(SWEPT_BESIDE, this.all.length); looks > 0; looks--) this.#sweepNext(now)
  }

  /** Sweeps the next table. Releases it if it is empty and was not used since its last sweep. */
  #sweepNext(now: number): void {
    if (this.#sweepCursor >= this.all.length) this.#sweepCursor = 0
    const table = this.all[this.#sweepCursor]!
    table.sweep(now, this.probe)
    if (table.isEmpty && !table.isUsed) return this.#release(this.#sweepCursor)
    table.isUsed = false
    this.#sweepCursor++
  }

  forget(limiter: string, key: string, now: number): void {
    let isForgotten = this.#common.rows === undefined
    for (const table of this.byName.get(limiter)?.values() ?? [])
      if (!this.#forgetIn(table, key, now)) isForgotten = false
    if (!isForgotten) this.warnShared()
  }

  #forgetIn(table: Table, key: string, now: number): boolean {
    const row = this.probe
    const shared = table.beyond.rows
    if (!table.slots.has(key)) return shared?.forget(row, table.sharedKey(key), now) ?? true
    table.aim(row, key)
    reset(row, now)
    if (row.expiry() > now) table.save(row, key, now)
    else table.remove(key)
    return true
  }

  clear(): void {
    for (const table of this.all) table.clear()
    this.#common.rows = undefined
    this.notes.clear()
  }

  /** Warns once that units of a shared row cannot be refunded. */
  warnShared(): void {
    if (this.#warned) return
    this.#warned = true
    warnLater('SLUICE_SHARED_COUNTERS')
  }

  #release(at: number): void {
    const table = this.all[at]!
    table.owner = NOBODY
    const tables = this.byName.get(table.limiter)!
    tables.delete(table.limit)
    if (tables.size === 0) this.byName.delete(table.limiter)
    const last = this.all.pop()!
    if (last !== table) this.all[at] = last
  }
}
