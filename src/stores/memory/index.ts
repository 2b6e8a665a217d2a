import { type Clock, clockGiven, microseconds, steadyClock } from '../../util/clock.ts'
import { brand } from '../../util/copies.ts'
import { STORE } from '../assert-store.ts'
import type { Forecast } from '../forecast.ts'
import type { LockMode } from '../lock-mode.ts'
import type { Charge, Degraded, Store, SyncStore, DecisionMode } from '../store.ts'
import { knownOptions, refuse, wholeNumber } from '../../util/validate.ts'
import { observer, warn } from '../../util/warn.ts'
import { Adjuster } from './adjust.ts'
import { warnInCluster } from './cluster-warning.ts'
import { Decider } from './decide.ts'
import { MemoryForecast } from './forecast.ts'
import { Locker } from './locker.ts'
import { type FullTable, isMemoryStore, Tables } from './tables.ts'

export type { FullTable }

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
  readonly #clock: Clock
  readonly #tables: Tables
  readonly #decider: Decider
  readonly #adjuster: Adjuster
  readonly #locker: Locker

  constructor(maxKeys: number, onFull: (full: FullTable) => void, clock: Clock) {
    this.#clock = clock
    this.#tables = new Tables(this, maxKeys, onFull)
    this.#decider = new Decider(this.#tables)
    this.#adjuster = new Adjuster(this.#tables)
    this.#locker = new Locker(this.#tables)
  }

  /** Undefined for its own clock, which never steps back and may differ from the time of day that clients use. */
  get clock(): Clock | undefined {
    return this.#clock === steadyClock ? undefined : this.#clock
  }

  now(): number {
    return microseconds(this.#clock) / 1000
  }

  joins(other: Store): boolean {
    return isMemoryStore(other) && other.clock === this.clock
  }

  take(charges: readonly Charge[], mode: DecisionMode): Degraded | undefined {
    const now = microseconds(this.#clock)
    this.#tables.now = now
    const admitted = this.#decider.evaluate(charges, now)
    this.#decider.commit(charges, now, admitted, mode === 'consume')
    if (this.#decider.sweepIsDue) this.#decider.sweep(charges, now)
    return undefined
  }

  forecast(): Forecast<Charge> {
    return new MemoryForecast(this.#tables, this.#clock)
  }

  adjust(charges: readonly Charge[], units: readonly number[]): void {
    const now = microseconds(this.#clock)
    for (let i = 0; i < charges.length; i++) if (units[i] !== 0) this.#adjuster.adjust(charges[i]!, units[i]!, now)
  }

  lock(charges: readonly Charge[], ms: number, mode: LockMode): void {
    const now = microseconds(this.#clock)
    for (const charge of charges) this.#locker.lock(charge, now, Math.round(ms * 1000), mode)
  }

  forget(limiter: string, key: string): void {
    this.#tables.forget(limiter, key, microseconds(this.#clock))
  }

  close(): void {
    this.#tables.clear()
  }
}

brand(MemoryStore, STORE)
