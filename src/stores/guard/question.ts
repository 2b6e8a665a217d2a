import type { Charge, DecisionMode, Degraded, Inquiry } from '../store.ts'
import type { Core } from './core.ts'
import type { Call } from './deadlines.ts'

/** A decision that the store is asked for. It is made once: by the store in time, or without it. */
export class Question implements Call, Inquiry {
  /** The charges of the limiter, and copies of them once the decision is made without the store. */
  charges: readonly Charge[]
  since = 0
  lost = 0
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

  /** @param fresh true if no answer will do that a wrapper of the store remembers */
  ask(fresh: boolean): void {
    const { inner, deadlines } = this.#core
    deadlines.add(this)
    try {
      if (inner.inquire?.(this, this.#mode) !== true) this.#askForPromise(fresh)
    } catch (error) {
      this.failed(error)
    }
  }

  decideWithout(): void {
    try {
      this.#resolve(this.#core.local.take(this.charges, this.#mode, this.#onOutage))
    } catch (error) {
      this.#reject(error)
    }
  }

  expire(wasBusy: boolean): void {
    this.#core.missed(this.charges, wasBusy)
    this.decideWithout()
    this.charges = copiesOf(this.charges)
  }

  /** Verdicts are written already. Those that come late are refunded. */
  answered(degraded: Degraded | undefined): void {
    const { deadlines, health } = this.#core
    if (!deadlines.remove(this)) return void this.#core.undo(this.charges)
    health.answered(this.charges)
    this.#resolve(degraded)
  }

  failed(error: unknown): void {
    if (!this.#core.deadlines.remove(this)) return
    if (this.#core.failed(this.charges, error)) this.decideWithout()
    else this.#reject(error)
  }

  /** The store writes into copies, which may be late. */
  #askForPromise(fresh: boolean): void {
    const copies = copiesOf(this.charges)
    this.#core.inner.take(copies, this.#mode, fresh).then(
      (degraded) => this.#adopt(copies, degraded),
      (error: unknown) => this.failed(error),
    )
  }

  #adopt(copies: readonly Charge[], degraded: Degraded | undefined): void {
    for (let i = 0; i < copies.length; i++) this.charges[i]!.adopt(copies[i]!)
    this.answered(degraded)
  }
}

function copiesOf(charges: readonly Charge[]): readonly Charge[] {
  const copies = new Array<Charge>(charges.length)
  for (let i = 0; i < charges.length; i++) copies[i] = charges[i]!.copy()
  return copies
}
