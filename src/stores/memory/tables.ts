import type { Limit } from '../../limits/limit.ts'
import { cached } from '../policy-cache.ts'
import type { Policy, Store } from '../store.ts'
import { shared } from '../../util/copies.ts'
import { warn } from '../../util/warn.ts'
import { Sketch } from './sketch.ts'
import { Slab } from './slab.ts'
import { type SketchHolder, Table } from './table.ts'

/** Which limit has reached `maxKeys`. */
export interface FullTable {
  /** The name of the limiter. */
  readonly limiter: string
  /** The name of the limit. */
  readonly limit: Limit
  /** The option `maxKeys` of the store. */
  readonly maxKeys: number
}

/** The tables of every memory store. Stores that decide together use each other's. */
const tablesOf = shared('tables', () => new WeakMap<Store, Tables>())

/** Returns true for a memory store. */
export function isMemoryStore(store: Store): boolean {
  return tablesOf.has(store)
}

/** How many keys a limit of a memory store remembers. */
export interface KeyCount {
  readonly limiter: string
  readonly limit: string
  readonly count: number
}

/** Returns how many keys each limit of a memory store remembers; nothing for another store. */
export function keyCounts(store: Store): KeyCount[] {
  return tablesOf.get(store)?.keyCounts ?? []
}

/** The most limits of a store that have their own table. An empty table takes about 3 kB. */
const MOST_TABLES = 10_000
/** Other tables that are swept after a sweep, so that unused ones are released. */
const SWEPT_BESIDE = 2
/** The owner of a table that no policy may find. */
const NOBODY = {}

/** The tables of one store, by name of limiter and limit. */
export class Tables {
  readonly #store: Store
  readonly #tables = new Map<string, Map<string, Table>>()
  /** All tables, in no order. */
  readonly #all: Table[] = []
  #sweepCursor = 0
  /** The microsecond of the decision. */
  now = 0
  readonly #noSlab = new Slab(1)
  /** Counts the keys of all limits beyond the most tables. */
  readonly #common: SketchHolder = { sketch: undefined }
  readonly #maxKeys: number
  readonly #onFull: (full: FullTable) => void
  #warned = false

  constructor(store: Store, maxKeys: number, onFull: (full: FullTable) => void) {
    this.#store = store
    this.#maxKeys = maxKeys
    this.#onFull = onFull
    tablesOf.set(store, this)
  }

  get keyCounts(): KeyCount[] {
    return this.#all.map(({ limiter, limit, slots }) => ({ limiter, limit, count: slots.size }))
  }

  /** Returns the table of a policy. */
  of(policy: Policy): Table {
    const { cache } = policy
    if (cache !== undefined && (cache.owner === this.#store || cache.owner === policy.store)) return cache as Table
    return this.#cached(policy)
  }

  #cached(policy: Policy): Table {
    return (tablesOf.get(policy.store) ?? this).own(policy)
  }

  /** Returns the table of a policy in this store. */
  own(policy: Policy): Table {
    return cached(policy, this.#store, (given) => this.#open(given))
  }

  #open({ limiter, limit, compiled }: Policy): Table {
    const table = this.#tables.get(limiter)?.get(limit.name) ?? this.#add({ limiter, limit: limit.name })
    table.slab.fit(compiled)
    return table
  }

  /** A limit beyond the most tables has none to keep. It stays without one until nothing that was counted so is left. */
  #add(names: { readonly limiter: string; readonly limit: string }): Table {
    if (this.#common.sketch?.hasExpired(this.now)) this.#common.sketch = undefined
    if (this.#all.length >= MOST_TABLES || this.#common.sketch !== undefined)
      return new Table(NOBODY, names, 0, this.#common, this.#noSlab)
    const table = new Table(this.#store, names, this.#maxKeys)
    const tables = this.#tables.get(names.limiter) ?? new Map<string, Table>()
    this.#tables.set(names.limiter, tables.set(names.limit, table))
    this.#all.push(table)
    return table
  }

  /** Returns the sketch in which a key without a slot was counted, or is counted from now on. Undefined while there is room. */
  sketchFor({ limiter, limit }: Policy, table: Table, now: number): Sketch | undefined {
    if (table.sketch !== undefined || !table.isFull) return table.sketch
    if (table.holder === this.#common) warnCrowded()
    else this.#onFull({ limiter, limit, maxKeys: this.#maxKeys })
    return (table.holder.sketch = new Sketch(this.#maxKeys, now))
  }

  /** Sweeps a few tables in turn, and releases those in which nothing counts. */
  sweepNext(now: number): void {
    if (this.#common.sketch?.hasExpired(now)) this.#common.sketch = undefined
    for (let looks = Math.min(SWEPT_BESIDE, this.#all.length); looks > 0; looks--) {
      if (this.#sweepCursor >= this.#all.length) this.#sweepCursor = 0
      const table = this.#all[this.#sweepCursor]!
      table.sweep(now)
      if (table.isEmpty) this.#release(this.#sweepCursor)
      else this.#sweepCursor++
    }
  }

  forget(limiter: string, key: string, now: number): void {
    let isForgotten = this.#common.sketch === undefined
    for (const table of this.#tables.get(limiter)?.values() ?? []) if (!table.forget(key, now)) isForgotten = false
    if (!isForgotten) this.warnShared()
  }

  clear(): void {
    for (const table of this.#all) table.clear()
    this.#common.sketch = undefined
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
