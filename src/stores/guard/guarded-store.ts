import type { Clock } from '../../util/clock.ts'
import { SluiceError } from '../../util/errors.ts'
import type { AsyncStore, Charge, DecisionMode, Degraded, Forecast, Store } from '../store.ts'
import type { Core } from './core.ts'
import type { Call } from './deadlines.ts'

/** A store that decides within a deadline. Those of one core share its health; each decides in its own way without the store. */
export class GuardedStore implements AsyncStore {
  readonly sync = false
  readonly clock: Clock | undefined
  readonly identity: object
  readonly onOutage: Degraded
  readonly forecast?: () => Forecast
  readonly partOf?: (limiter: string, key: string) => string
  readonly #core: Core
  /** The other guards of the core, and this one. */
  readonly #guards: Map<Degraded, GuardedStore>

  constructor(core: Core, onOutage: Degraded, guards: Map<Degraded, GuardedStore> = new Map()) {
    const { inner } = core
    this.clock = inner.clock
    this.identity = inner.identity ?? inner
    this.onOutage = onOutage
    if (inner.forecast !== undefined) this.forecast = () => inner.forecast!()
    if (inner.partOf !== undefined) this.partOf = (limiter, key) => inner.partOf!(limiter, key)
    this.#core = core
    this.#guards = guards.set(onOutage, this)
  }

  joins(other: Store): boolean {
    if (!(other instanceof GuardedStore)) return false
    const [one, another] = [this.#core.inner, other.#core.inner]
    return one === another || one.joins?.(another) === true
  }

  withOutage(onOutage: Degraded): GuardedStore {
    return this.#guards.get(onOutage) ?? new GuardedStore(this.#core, onOutage, this.#guards)
  }

  take(charges: readonly Charge[], mode: DecisionMode): Promise<Degraded | undefined> {
    const core = this.#core
    if (core.isClosed) return Promise.reject(closed())
    if (charges.length === 0) return Promise.resolve(undefined)
    return new Promise((resolve, reject) => {
      const question = new Question(core, this.onOutage, charges, mode, resolve, reject)
      if (core.health.isOutFor(charges)) question.decideWithout()
      else question.ask()
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

  async forget(limiter: string, key: string): Promise<void> {
    if (this.#core.isClosed) throw closed()
    await this.#core.forget(limiter, key)
  }

  async close(): Promise<void> {
    await this.#core.close()
  }
}

/**
 * A decision that the store is asked for. The store gets copies of the charges, so that an answer that comes too late changes
 * nothing that was decided.
 */
class Question implements Call {
  readonly charges: readonly Charge[]
  since = 0
  isPending = false
  before: Call | undefined = undefined
  after: Call | undefined = undefined
  readonly #core: Core
  readonly #onOutage: Degraded
  readonly #mode: DecisionMode
  readonly #resolve: (degraded: Degraded | undefined) => void
  readonly #reject: (reason: unknown) => void

  constructor(
    core: Core,
    onOutage: Degraded,
    charges: readonly Charge[],
    mode: DecisionMode,
    resolve: (degraded: Degraded | undefined) => void,
    reject: (reason: unknown) => void,
  ) {
    this.#core = core
    this.#onOutage = onOutage
    this.charges = charges
    this.#mode = mode
    this.#resolve = resolve
    this.#reject = reject
  }

  ask(): void {
    const copies = this.charges.map((charge) => charge.copy())
    this.#core.deadlines.add(this)
    this.#send(copies).then(
      (degraded) => this.#answered(copies, degraded),
      (error: unknown) => this.#failed(error),
    )
  }

  decideWithout(): void {
    try {
      this.#resolve(this.#core.local.take(this.charges, this.#mode, this.#onOutage))
    } catch (error) {
      this.#reject(error)
    }
  }

  expire(): void {
    this.#core.missed(this.charges)
    this.decideWithout()
  }

  #send(copies: readonly Charge[]): Promise<Degraded | undefined> {
    try {
      return this.#core.inner.take(copies, this.#mode)
    } catch (error) {
      return Promise.reject(error as Error)
    }
  }

  #answered(copies: readonly Charge[], degraded: Degraded | undefined): void {
    const { deadlines, health } = this.#core
    if (!deadlines.remove(this)) return void this.#core.undo(copies)
    health.answered(this.charges)
    for (let i = 0; i < copies.length; i++) this.charges[i]!.adopt(copies[i]!)
    this.#resolve(degraded)
  }

  #failed(error: unknown): void {
    if (!this.#core.deadlines.remove(this)) return
    if (this.#core.failed(this.charges, error)) this.decideWithout()
    else this.#reject(error)
  }
}

function closed(): SluiceError {
  return new SluiceError('STORE_CLOSED', 'This store has been closed')
}
