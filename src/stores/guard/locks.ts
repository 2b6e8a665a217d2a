import { SluiceError } from '../../util/errors.ts'
import type { LockMode } from '../lock-mode.ts'
import type { AsyncStore, Charge } from '../store.ts'
import type { Health } from './health.ts'
import { type KeptLock, KeptLocks } from './kept-locks.ts'
import type { LocalDecisions } from './local.ts'

/** How many lock-outs are sent at once after an outage. */
const AT_ONCE = 100

/** What lock-outs need of a guard. */
export interface LockHooks {
  readonly inner: AsyncStore
  readonly health: Health
  readonly local: LocalDecisions
  /** Calls the store. Rejects with an error from `late` at the deadline, or with the error of the store. */
  send(charges: readonly Charge[], work: () => Promise<void>, late: (reason: string) => SluiceError): Promise<void>
  warnLost(error: unknown): void
}

/**
 * Locks keys out in the store and in this process, so that a lock-out also applies here during an outage. What could not be sent to the store
 * is sent when it answers again, with the time that is left then.
 */
export class GuardLocks {
  readonly #hooks: LockHooks
  readonly #kept = new KeptLocks()

  constructor(hooks: LockHooks) {
    this.#hooks = hooks
  }

  /** Rejects with `STORE_FAILED` when the store has not confirmed it and is still asked: the caller may try again. */
  async lock(charges: readonly Charge[], ms: number, mode: LockMode): Promise<void> {
    const { inner, health, local } = this.#hooks
    const until = performance.now() + ms
    local.lock(charges, ms, mode)
    if (health.out === 0) local.releaseLater()
    const isOut = (charge: Charge): boolean => health.isOutFor([charge])
    const asked = charges.filter((charge) => !isOut(charge))
    for (const charge of charges) if (isOut(charge)) this.#kept.keep(charge, until, mode)
    if (mode === 'set') for (const charge of asked) this.#kept.drop(charge)
    if (asked.length === 0) return
    try {
      await this.#hooks.send(asked, () => inner.lock!(asked, ms, mode), notLocked)
    } catch (error) {
      if (!asked.every(isOut)) throw error
      for (const charge of asked) this.#kept.keep(charge, until, mode)
    }
  }

  forget(limiter: string, key: string): void {
    this.#kept.forget(limiter, key)
  }

  /** Sends what was kept, some at a time. */
  async catchUp(): Promise<void> {
    const { health } = this.#hooks
    const due = this.#kept.due((charge) => !health.isOutFor([charge]))
    for (let i = 0; i < due.length; i += AT_ONCE) {
      await Promise.all(due.slice(i, i + AT_ONCE).map((each) => this.#send(each)))
    }
  }

  async #send(kept: KeptLock): Promise<void> {
    if (!this.#kept.has(kept)) return
    const { charge, until, mode } = kept
    const { inner, health, warnLost } = this.#hooks
    this.#kept.drop(charge)
    const ms = Math.max(0, until - performance.now())
    if (ms === 0 && mode === 'extend') return
    try {
      await inner.lock!([charge], ms, mode)
    } catch (error) {
      if (health.isOutFor([charge])) this.#kept.keep(charge, until, mode)
      else warnLost(error)
    }
  }
}

function notLocked(reason: string): SluiceError {
  return new SluiceError(
    'STORE_FAILED',
    `The store does not answer${reason}. The key was locked out only in this process. Lock it out again when the store answers`,
  )
}
