import type { Limit } from '../../limits/limit.ts'
import { cached, type Policy, type Store } from '../store.ts'
import type { Sketch } from './sketch.ts'
import { Table } from './table.ts'

/** Which limit has reached `maxKeys`. */
export interface FullTable {
  readonly limiter: string
  readonly limit: Limit
  readonly maxKeys: number
}

/** The tables of every memory store. Stores that decide together use each other's. */
const tablesOf = new WeakMap<Store, Tables>()

/** The tables of one store, by name of limiter and limit. */
export class Tables {
  readonly #store: Store
  readonly #tables = new Map<string, Map<string, Table>>()
  readonly #maxKeys: number
  readonly #onFull: (full: FullTable) => void

  constructor(store: Store, maxKeys: number, onFull: (full: FullTable) => void) {
    this.#store = store
    this.#maxKeys = maxKeys
    this.#onFull = onFull
    tablesOf.set(store, this)
  }

  /** Returns the table of a policy. */
  of(policy: Policy): Table {
    const { cache } = policy
    if (cache !== undefined && (cache.owner === this.#store || cache.owner === policy.store)) return cache as Table
    return this.#cached(policy)
  }

  #cached(policy: Policy): Table {
    const owner = tablesOf.get(policy.store) ?? this
    return cached(policy, owner.#store, (given) => owner.#open(given))
  }

  #open({ limiter, limit, compiled }: Policy): Table {
    const tables = this.#tables.get(limiter) ?? new Map<string, Table>()
    const table = tables.get(limit.name) ?? new Table(this.#store, this.#maxKeys)
    this.#tables.set(limiter, tables.set(limit.name, table))
    table.slab.fit(compiled)
    return table
  }

  /** Returns the sketch in which a key without a slot was counted, or is counted from now on. Undefined while there is room. */
  sketchFor({ limiter, limit, compiled }: Policy, table: Table, now: number): Sketch | undefined {
    table.sketches.sweep(now)
    if (!table.isFull) return table.sketches.find(compiled)
    if (!table.sketches.isOpen) this.#onFull({ limiter, limit, maxKeys: this.#maxKeys })
    return table.sketches.open(compiled)
  }

  forget(limiter: string, key: string): void {
    for (const table of this.#tables.get(limiter)?.values() ?? []) table.forget(key)
  }

  clear(): void {
    for (const tables of this.#tables.values()) for (const table of tables.values()) table.clear()
  }
}
