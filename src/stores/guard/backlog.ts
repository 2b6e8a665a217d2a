import { SluiceError } from '../../util/errors.ts'
import { outlive } from '../../util/worker.ts'
import {
  type Adjusting,
  type Charge,
  hasPenalty,
  isPenalty,
  keptCharge,
  type Locking,
  perform,
  type Store,
} from '../store.ts'
import { Alarm } from './alarm.ts'
import { kindOf } from './health.ts'

/** The most charges of all changes that are kept. One takes 300 to 400 bytes, its key included. */
const MOST = 10_000
/** How many changes are sent at once after an outage. */
const AT_ONCE = 100
/** Milliseconds after which a change that has failed is repeated, and for which it is. */
const REPEAT_AFTER = 1000
const REPEAT_FOR = 60_000

/** A change that the store has not made yet. */
interface Kept {
  readonly operation: Adjusting | Locking
  /** When a lock-out ends, and until when another change is repeated that has failed, in milliseconds of `performance.now()`. */
  readonly until: number | undefined
}

interface BacklogTarget {
  readonly inner: Store
  isOutFor(charges: readonly Charge[]): boolean
  /** The store has failed, so a change may be lost. */
  failed(charges: readonly Charge[], error: unknown): void
}

/**
 * Keeps changes until a store answers again, or until a key is no longer locked: refunds, settlements and penalties, and of each key under a limit
 * one lock-out. Bounded.
 */
export class Backlog {
  readonly #target: BacklogTarget
  /** Lock-outs by their place, and other changes by themselves, in the order in which they came. */
  readonly #kept = new Map<unknown, Kept>()
  /** Charges of all of them. */
  #charges = 0
  readonly alarm: Alarm = new Alarm()

  constructor(target: BacklogTarget) {
    this.#target = target
  }

  /** Keeps a change, and a lock-out of each key in place of an earlier one. Returns an error when there is no room. */
  keep(operation: Adjusting | Locking, until?: number): SluiceError | undefined {
    const charges = operation.charges.map(keptCharge)
    if (operation.kind === 'lock')
      return charges
        .map((charge) => this.#put(placeOf(charge), { operation: { ...operation, charges: [charge] }, until }))
        .find((error) => error !== undefined)
    // A reset writes into the units.
    const own = { ...operation, charges, units: [...operation.units] }
    return this.#put(own, { operation: own, until })
  }

  /** Drops a lock-out that another one replaces. */
  unlock(charge: Charge): void {
    if (this.#kept.size > 0) this.#drop(placeOf(charge))
  }

  /** Drops the lock-outs and penalties of a key under all limits of a limiter. Refunds stay: they are too late for a key that was reset. */
  forget(limiter: string, key: string): void {
    for (const [place, { operation }] of this.#kept)
      for (const [i, charge] of operation.charges.entries()) {
        if (charge.key !== key || charge.policy.limiter !== limiter) continue
        if (operation.kind === 'lock') this.#drop(place)
        else if (isPenalty(charge)) (operation.units as number[])[i] = 0
      }
  }

  /**
   * Keeps a change that has failed, and sends it again in a second, if that cannot do it twice: its key was locked, or it has a receipt, or is a
   * lock-out. Returns false for any other. A penalty is not repeated for a locked key: it has failed, and a reset would have to end it.
   */
  repeats(operation: Adjusting | Locking, error: unknown, until: number = performance.now() + REPEAT_FOR): boolean {
    const kind = kindOf(error)
    const isLock = operation.kind === 'lock'
    const isOnce = isLock || (kind === 'busy' ? !hasPenalty(operation) : operation.receipt !== undefined)
    if (kind === 'wrong' || !isOnce || performance.now() >= until) return false
    if (!this.alarm.isSet) this.alarm.set(REPEAT_AFTER, () => outlive(this.send()))
    return this.keep(operation, until) === undefined
  }

  /** Sends what is due, some at a time. Never rejects. */
  async send(): Promise<void> {
    const due = [...this.#kept].filter(([, { operation }]) => !this.#target.isOutFor(operation.charges))
    for (let i = 0; i < due.length; i += AT_ONCE)
      await Promise.all(due.slice(i, i + AT_ONCE).map(async ([place, kept]) => this.#send(place, kept)))
  }

  async #send(place: unknown, kept: Kept): Promise<void> {
    const { operation, until } = kept
    const { inner, isOutFor, failed } = this.#target
    // The store has failed again, or the change was dropped meanwhile.
    if (isOutFor(operation.charges) || this.#kept.get(place) !== kept) return
    this.#drop(place)
    try {
      const ms = Math.max(0, until! - performance.now())
      await perform(inner, operation.kind === 'lock' ? { ...operation, ms } : operation)
    } catch (error) {
      if (!this.repeats(operation, error, until)) failed(operation.charges, error)
    }
  }

  #put(place: unknown, kept: Kept): SluiceError | undefined {
    const { operation, until } = kept
    const before = this.#kept.get(place)
    if (before === undefined) {
      if (this.#charges + operation.charges.length > MOST) return full()
      this.#charges += operation.charges.length
    }
    const isNew = before === undefined || (operation as Locking).mode === 'set'
    this.#kept.set(place, isNew ? kept : { ...before, until: Math.max(until!, before.until!) })
    return undefined
  }

  #drop(place: unknown): void {
    this.#charges -= this.#kept.get(place)?.operation.charges.length ?? 0
    this.#kept.delete(place)
  }
}

/** No name contains a NUL, so that no text can pass for a boundary. */
function placeOf({ policy, key }: Charge): string {
  return `${policy.limiter}\0${policy.limit.name}\0${key}`
}

function full(): SluiceError {
  return new SluiceError(
    'STORE_FAILED',
    `The store does not answer, and ${MOST} refunds, settlements, penalties and lock-outs already wait for it. This one is not made there`,
  )
}
