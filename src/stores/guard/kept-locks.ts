import { SluiceError } from '../../util/errors.ts'
import { copyText } from '../../util/copy-text.ts'
import type { LockMode } from '../lock-mode.ts'
import type { Charge } from '../store.ts'
import { keptCharge } from './kept-charge.ts'

/** The most lock-outs that are kept. One takes about 400 bytes, its key included. */
const MOST = 10_000

/** A lock-out that was not yet sent to the store. Times are milliseconds of `performance.now()`. */
export interface KeptLock {
  readonly charge: Charge
  readonly until: number
  readonly mode: LockMode
}

/** Keeps lock-outs until the store answers again. Of each key under a limit it keeps one. Bounded. */
export class KeptLocks {
  /** By limiter and key, then by limit. */
  readonly #kept = new Map<string, Map<string, KeptLock>>()
  #size = 0

  /** Keeps a lock-out in place of an earlier one. Throws `STORE_FAILED` when there is no room. */
  keep(charge: Charge, until: number, mode: LockMode): void {
    const { policy, key } = charge
    const place = copyText(placeOf(policy.limiter, key))
    const locks = this.#kept.get(place) ?? new Map<string, KeptLock>()
    const before = locks.get(policy.limit.name)
    if (before === undefined && this.#size >= MOST) throw full()
    if (before === undefined) this.#size++
    const kept =
      mode === 'extend' && before !== undefined ? extended(before, until) : { charge: keptCharge(charge), until, mode }
    this.#kept.set(place, locks.set(policy.limit.name, kept))
  }

  /** Forgets what is kept of a key under all limits of a limiter. */
  forget(limiter: string, key: string): void {
    const place = placeOf(limiter, key)
    this.#size -= this.#kept.get(place)?.size ?? 0
    this.#kept.delete(place)
  }

  /** Forgets a lock-out that another one replaces. */
  drop({ policy, key }: Charge): void {
    const place = placeOf(policy.limiter, key)
    const locks = this.#kept.get(place)
    if (locks?.delete(policy.limit.name) !== true) return
    this.#size--
    if (locks.size === 0) this.#kept.delete(place)
  }

  /** Returns those for which `isDue` returns true. */
  due(isDue: (charge: Charge) => boolean): KeptLock[] {
    const due: KeptLock[] = []
    for (const locks of this.#kept.values()) for (const each of locks.values()) if (isDue(each.charge)) due.push(each)
    return due
  }

  /** True until another lock-out replaces it, or its key is forgotten. */
  has(kept: KeptLock): boolean {
    const { policy, key } = kept.charge
    return this.#kept.get(placeOf(policy.limiter, key))?.get(policy.limit.name) === kept
  }
}

function extended(before: KeptLock, until: number): KeptLock {
  return until > before.until ? { ...before, until } : before
}

/** No name contains a NUL, so that no text can pass for a boundary. */
function placeOf(limiter: string, key: string): string {
  return `${limiter}\0${key}`
}

function full(): SluiceError {
  return new SluiceError(
    'STORE_FAILED',
    `The store does not answer, and ${MOST} lock-outs are already waiting for it. This lock-out applies only in this process`,
  )
}
