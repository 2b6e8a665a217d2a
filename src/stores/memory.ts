import { type Clock, microseconds, steadyClock } from '../clock.ts'
import type { Charge, Degraded, Policy, Store, SyncStore, TakeMode } from '../store.ts'
import { knownOptions } from '../validate.ts'
import { Table } from './table.ts'
import { forecast } from './forecast.ts'
import { Trial } from './trial.ts'

export interface MemoryStoreOptions {
  /** Epoch milliseconds, fractions allowed. Default: a clock that never steps back. */
  readonly clock?: Clock
}

/**
 * Keeps state in this process: flat, swept as it is used, without timers. It answers at once.
 *
 * Throws `UNKNOWN_OPTION` for options it does not have, and `INVALID_CLOCK` when a clock gives no time.
 * @example createLimiter({ keyer, limits, store: memoryStore({ clock: Date }) })
 */
export function memoryStore(options: MemoryStoreOptions = {}): SyncStore {
  knownOptions('memoryStore', options, ['clock'])
  return new MemoryStore(options.clock ?? steadyClock)
}

class MemoryStore implements SyncStore {
  readonly sync = true
  readonly #clock: Clock
  /** By limiter's name, then by limit's name. */
  readonly #tables = new Map<string, Map<string, Table>>()
  readonly #trials: Trial[] = [new Trial()]

  constructor(clock: Clock) {
    this.#clock = clock
  }

  joins(other: Store): boolean {
    return other instanceof MemoryStore && other.#clock === this.#clock
  }

  take(charges: readonly Charge[], mode: TakeMode): Degraded | undefined {
    const now = microseconds(this.#clock)
    let admitted = true
    for (let i = 0; i < charges.length; i++) {
      const charge = charges[i]!
      this.#trial(i).evaluate(charge, this.#tableOf(charge.policy), now)
      if (!charge.allowed && charge.limit.shadow !== true) admitted = false
    }
    for (let i = 0; i < charges.length; i++) {
      const charge = charges[i]!
      this.#trial(i).conclude(charge, this.#tableOf(charge.policy), now, admitted, mode === 'consume')
    }
    for (let i = 0; i < charges.length; i++) this.#tableOf(charges[i]!.policy).sweep(now)
    return undefined
  }

  forecast(queue: readonly (readonly Charge[])[]): number {
    return forecast(queue, (policy) => this.#tableOf(policy), microseconds(this.#clock))
  }

  adjust(charges: readonly Charge[], units: readonly number[]): void {
    const now = microseconds(this.#clock)
    for (let i = 0; i < charges.length; i++) {
      const charge = charges[i]!
      if (units[i] !== 0) this.#trial(0).adjust(charge, this.#tableOf(charge.policy), now, units[i]!)
    }
  }

  forget(limiter: string, key: string): void {
    for (const table of this.#tables.get(limiter)?.values() ?? []) table.forget(key)
  }

  close(): void {
    for (const tables of this.#tables.values()) for (const table of tables.values()) table.clear()
  }

  #trial(i: number): Trial {
    return (this.#trials[i] ??= new Trial())
  }

  #tableOf(policy: Policy): Table {
    return (policy.cache as Table | undefined) ?? (policy.store instanceof MemoryStore ? policy.store : this).#open(policy)
  }

  #open(policy: Policy): Table {
    const { limiter, limit, mechanism } = policy
    const tables = this.#tables.get(limiter) ?? new Map<string, Table>()
    const table = tables.get(limit.name) ?? new Table()
    this.#tables.set(limiter, tables.set(limit.name, table))
    table.fit(mechanism)
    policy.cache = table
    return table
  }
}
