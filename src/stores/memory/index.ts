import { type Clock, clockGiven, microseconds, steadyClock } from '../../util/clock.ts'
import type { Charge, Degraded, Policy, Store, SyncStore, DecisionMode } from '../store.ts'
import type { Limit } from '../../limits/limit.ts'
import { knownOptions, refuse, wholeNumber } from '../../util/validate.ts'
import { warn } from '../../util/warn.ts'
import { CrowdTrial } from './overflow.ts'
import type { Crowd } from './sketch.ts'
import { decideQuickly } from './fast-path.ts'
import { forecast } from './forecast.ts'
import { warnInCluster } from './cluster-warning.ts'
import { Table } from './table.ts'
import { Trial } from './attempt.ts'

const NONE = -1

export interface MemoryStoreOptions {
  /**
   * Keys remembered for each limit, from 1. Beyond it no key that is being limited is forgotten: new ones share counters
   * with each other until old ones are fresh again, which may be too strict and is never too nonStrict. Default a million.
   */
  readonly maxKeys?: number
  /** Called when a limit begins to remember more keys than `maxKeys`. Default: a process warning, `SLUICE_MAX_KEYS`. */
  readonly onFull?: (full: FullTable) => void
  /** Epoch milliseconds, fractions allowed. Default: a clock that never steps back. */
  readonly clock?: Clock
}

/** Which limit has reached `maxKeys`. */
export interface FullTable {
  readonly limiter: string
  readonly limit: Limit
  readonly maxKeys: number
}

/**
 * Keeps state in this process: flat, bounded, swept as it is used, without timers. It answers at once. In one of several
 * processes of an app it warns, once, with `SLUICE_PER_PROCESS`.
 *
 * Throws `INVALID_OPTION` or `UNKNOWN_OPTION`, and `INVALID_CLOCK` when a clock gives no time.
 * @example createLimiter({ keyer, limits, store: memoryStore({ maxKeys: 100_000 }) })
 */
export function memoryStore(options: MemoryStoreOptions = {}): SyncStore {
  knownOptions('memoryStore', options, ['maxKeys', 'onFull', 'clock'])
  const { maxKeys = 1_000_000, onFull = warnFull, clock = steadyClock } = options
  if (typeof onFull !== 'function') refuse('onFull', 'a function', onFull)
  warnInCluster()
  return new MemoryStore(wholeNumber('maxKeys', maxKeys), onFull, clockGiven(clock))
}

function warnFull({ limiter, limit, maxKeys }: FullTable): void {
  warn(
    'SLUICE_MAX_KEYS',
    `Limit "${limit.name}" of limiter "${limiter}" remembers ${maxKeys} keys, its bound. New keys share counters until old ones ` +
      'are fresh again. A flood of made-up keys looks like this; so does a `maxKeys` that is too small.',
  )
}

class MemoryStore implements SyncStore {
  readonly sync = true
  readonly #maxKeys: number
  readonly #onFull: (full: FullTable) => void
  readonly #clock: Clock
  /** By limiter's name, then by limit's name. */
  readonly #tables = new Map<string, Map<string, Table>>()
  readonly #trials: Trial[] = [new Trial()]
  readonly #crowdTrials: CrowdTrial[] = []
  /** The charges of a decision that are counted in a crowd. */
  readonly #crowded = new Set<Charge>()

  constructor(maxKeys: number, onFull: (full: FullTable) => void, clock: Clock) {
    this.#maxKeys = maxKeys
    this.#onFull = onFull
    this.#clock = clock
  }

  /** Its own, which never steps back, may be far from the time of day that clients go by. */
  get clock(): Clock | undefined {
    return this.#clock === steadyClock ? undefined : this.#clock
  }

  joins(other: Store): boolean {
    return other instanceof MemoryStore && other.#clock === this.#clock
  }

  take(charges: readonly Charge[], mode: DecisionMode): Degraded | undefined {
    const now = microseconds(this.#clock)
    const write = mode === 'consume'
    if (!decideQuickly(charges, now, write)) this.#decide(charges, now, write)
    // Last, because it moves slots.
    for (let i = 0; i < charges.length; i++) this.#tableOf(charges[i]!.policy).sweep(now)
    return undefined
  }

  #decide(charges: readonly Charge[], now: number, write: boolean): void {
    let admitted = true
    for (let i = 0; i < charges.length; i++) {
      const charge = charges[i]!
      this.#evaluate(i, charge, this.#tableOf(charge.policy), now)
      if (!charge.allowed && charge.limit.shadow !== true) admitted = false
    }
    for (let i = 0; i < charges.length; i++) {
      const charge = charges[i]!
      if (this.#crowded.size > 0 && this.#crowded.delete(charge))
        this.#crowdTrials[i]!.conclude(charge, now, admitted, write)
      else this.#trial(i).conclude(charge, this.#tableOf(charge.policy), now, admitted, write)
    }
  }

  #evaluate(i: number, charge: Charge, table: Table, now: number): void {
    const slot = table.slotOf(charge.key)
    if (slot === NONE && table.isCrowded) this.#evaluateNewcomer(i, charge, table, now)
    else this.#trial(i).evaluate(charge, table.slab, slot, now)
  }

  /** A key without a slot, while there are crowds or no slots are left: it may have been counted in a crowd before. */
  #evaluateNewcomer(i: number, charge: Charge, table: Table, now: number): void {
    const crowd = this.#crowdFor(charge.policy, table, now)
    if (crowd === undefined) return this.#trial(i).evaluate(charge, table.slab, NONE, now)
    const trial = (this.#crowdTrials[i] ??= new CrowdTrial())
    trial.evaluate(charge, crowd, now)
    if (table.isFull || !trial.mayLeave(charge, now)) {
      this.#crowded.add(charge)
      return
    }
    const slot = table.add(charge.key)
    trial.leave(table.slab, slot)
    this.#trial(i).evaluate(charge, table.slab, slot, now)
  }

  /** Where a key without a slot may have been counted, or now has to be. */
  #crowdFor({ limiter, limit, compiled }: Policy, table: Table, now: number): Crowd | undefined {
    table.crowds.sweep(now)
    if (!table.isFull) return table.crowds.find(compiled)
    if (!table.crowds.isOpen) this.#onFull({ limiter, limit, maxKeys: this.#maxKeys })
    return table.crowds.open(compiled)
  }

  forecast(queue: readonly (readonly Charge[])[]): number {
    return forecast(queue, (policy) => this.#tableOf(policy), microseconds(this.#clock))
  }

  adjust(charges: readonly Charge[], units: readonly number[]): void {
    const now = microseconds(this.#clock)
    for (let i = 0; i < charges.length; i++) {
      const charge = charges[i]!
      if (units[i] !== 0) this.#adjust(charge, this.#tableOf(charge.policy), now, units[i]!)
    }
  }

  #adjust(charge: Charge, table: Table, now: number, units: number): void {
    const slot = table.slotOf(charge.key)
    if (slot !== NONE) return this.#trial(0).adjust(charge, table.slab, slot, now, units)
    // What is not remembered has nothing to give back.
    if (units < 0) return
    const crowd = this.#crowdFor(charge.policy, table, now)
    if (crowd === undefined) return this.#trial(0).adjust(charge, table.slab, table.add(charge.key), now, units)
    const trial = (this.#crowdTrials[0] ??= new CrowdTrial())
    trial.adjust(charge, crowd, now, units)
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
    return (
      (policy.cache as Table | undefined) ?? (policy.store instanceof MemoryStore ? policy.store : this).#open(policy)
    )
  }

  #open(policy: Policy): Table {
    const { limiter, limit, compiled } = policy
    const tables = this.#tables.get(limiter) ?? new Map<string, Table>()
    const table = tables.get(limit.name) ?? new Table(this.#maxKeys)
    this.#tables.set(limiter, tables.set(limit.name, table))
    table.slab.fit(compiled)
    policy.cache = table
    return table
  }
}
