import type { Clock } from '../../util/clock.ts'
import { brand } from '../../util/copies.ts'
import { SluiceError } from '../../util/errors.ts'
import { STORE } from '../assert-store.ts'
import type { LockMode } from '../../engine/adjust.ts'
import {
  type AsyncStore,
  type Charge,
  type DecisionMode,
  type Degraded,
  type Store,
  type StoreDescription,
  timeOf,
} from '../store.ts'
import type { Core } from './core.ts'
import { Question } from './question.ts'

/** A store that decides within a deadline. Those of one core share its health; each decides in its own way without the store. */
export class GuardedStore implements AsyncStore {
  readonly sync = false
  readonly clock: Clock | undefined
  readonly identity: object
  readonly onOutage: Degraded
  readonly partOf?: (limiter: string, key: string) => string
  readonly describe?: () => StoreDescription
  readonly lock?: (charges: readonly Charge[], ms: number, mode: LockMode) => Promise<void>
  readonly #core: Core
  /** The other guards of the core, and this one. */
  readonly #guards: Map<Degraded, GuardedStore>

  constructor(core: Core, onOutage: Degraded, guards: Map<Degraded, GuardedStore> = new Map()) {
    const { inner } = core
    this.clock = inner.clock
    this.identity = inner.identity ?? inner
    this.onOutage = onOutage
    if (inner.lock !== undefined) this.lock = (charges, ms, mode) => this.#lock(charges, ms, mode)
    if (inner.partOf !== undefined) this.partOf = (limiter, key) => inner.partOf!(limiter, key)
    if (inner.describe !== undefined) this.describe = () => inner.describe!()
    this.#core = core
    this.#guards = guards.set(onOutage, this)
  }

  now(): number {
    return timeOf(this.#core.inner)
  }

  joins(other: Store): boolean {
    const { guarded } = other as Partial<GuardedStore>
    return guarded !== undefined && (this.guarded === guarded || this.guarded.joins?.(guarded) === true)
  }

  /** The store inside. */
  get guarded(): AsyncStore {
    return this.#core.inner
  }

  withOutage(onOutage: Degraded): GuardedStore {
    return this.#guards.get(onOutage) ?? new GuardedStore(this.#core, onOutage, this.#guards)
  }

  take(charges: readonly Charge[], mode: DecisionMode, fresh = false): Promise<Degraded | undefined> {
    const core = this.#core
    if (core.isClosed) return Promise.reject(closed())
    if (charges.length === 0 || (!fresh && core.inner.recall?.(charges) === true)) return Promise.resolve(undefined)
    return new Promise((resolve, reject) => {
      const question = new Question(core, this.onOutage, charges, mode, resolve, reject)
      if (core.health.isOutFor(charges)) question.decideWithout()
      else question.ask(fresh)
    })
  }

  async adjust(charges: readonly Charge[], units: readonly number[]): Promise<void> {
    const { local, isClosed } = this.#core
    if (isClosed) throw closed()
    const own = charges.map((charge) => local.has(charge))
    for (const [i, charge] of charges.entries()) if (own[i] && units[i] !== 0) local.adjust(charge, units[i]!)
    const isOther = (_: unknown, i: number): boolean => !own[i]
    await this.#core.adjust(charges.filter(isOther), units.filter(isOther))
  }

  async #lock(charges: readonly Charge[], ms: number, mode: LockMode): Promise<void> {
    if (this.#core.isClosed) throw closed()
    await this.#core.lock(charges, ms, mode)
  }

  async forget(limiter: string, key: string): Promise<void> {
    if (this.#core.isClosed) throw closed()
    await this.#core.forget(limiter, key)
  }

  async close(): Promise<void> {
    await this.#core.close()
  }
}

brand(GuardedStore, STORE)

function closed(): SluiceError {
  return new SluiceError('STORE_CLOSED', 'This store has been closed')
}
