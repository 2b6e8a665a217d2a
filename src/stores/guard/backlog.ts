import { SluiceError } from '../../util/errors.ts'
import { outlive } from '../../util/worker.ts'
import {
  type Adjusting,
  type Charge,
  copiesOf,
  hasPenalty,
  isPenalty,
  type Locking,
  perform,
  type Store,
} from '../store.ts'
import { Alarm } from './alarm.ts'
import { kindOf } from './health.ts'

/** The most charges of all changes that are kept. A charge takes 300 to 400 bytes, its key included. */
const MOST = 10_000
/** How many changes are sent at once after an outage. */
const AT_ONCE = 100
/** Milliseconds until a failed change is repeated, and for which it is repeated. */
const REPEAT_AFTER = 1000
const REPEAT_FOR = 60_000

/** A change that the store has not made yet. */
interface Kept {
  readonly operation: Adjusting | Locking
  /** When a lock-out ends, or until when another failed change is repeated, in milliseconds of `performance.now()`. */
  readonly until: number | undefined
}

interface BacklogTarget {
  readonly inner: Store
  isOutFor(charges: readonly Charge[]): boolean
  /** The store has failed, so a change may be lost. */
  failed(charges: readonly Charge[], error: unknown): void
}

/**
 * Keeps changes until a store answers again, or until a key is no longer locked: refunds, settlements and penalties, and one lock-out for each key
 * and limit. Their number is bounded.
 */
export class Backlog {
  readonly #target: BacklogTarget
  /** The changes in the order in which they came. A lock-out has the text of `placeOf` as its key, another change has itself. */
  readonly #kept = new Map<unknown, Kept>()
  /** The number of charges of all changes. */
  #charges = 0
  readonly alarm: Alarm = new Alarm()

  constructor(target: BacklogTarget) {
    this.#target = target
  }

  /** Drops all changes, and returns their number. */
  close(): number {
    const { size } = this.#kept
    this.alarm.cancel()
    this.#kept.clear()
    return size
  }

  /** Keeps a change. A lock-out replaces an earlier one of its key. Returns an error if there is no room. */
  keep(operation: Adjusting | Locking, until?: number): SluiceError | undefined {
    const charges = copiesOf(operation.charges)
    if (operation.kind === 'lock')
      return charges
        .map((charge) => this.#put(placeOf(charge), { operation: { ...operation, charges: [charge] }, until }))
        .find((error) => error !== undefined)
    // The units are copied because a reset writes into them.
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
   * Keeps a failed change, and sends it again in a second, if it cannot happen twice then: it is a lock-out, or it has a receipt, or it failed because its
   * key was locked. Returns false for any other change. A penalty is not repeated for a locked key: its caller learns of the error.
   */
  repeats(operation: Adjusting | Locking, error: unknown, until: number = performance.now() + REPEAT_FOR): boolean {
    const kind = kindOf(error)
    const isLock = operation.kind === 'lock'
    const isOnce = isLock || (kind === 'busy' ? !hasPenalty(operation) : operation.receipt !== undefined)
    if (kind === 'wrong' || !isOnce || performance.now() >= until) return false
    if (!this.alarm.isSet) this.alarm.set(REPEAT_AFTER, () => outlive(this.send()))
    return this.keep(operation, until) === undefined
  }

  /** Sends the changes of parts that answer, some at a time. Never rejects. */
  async send(): Promise<void> {
    const due = [...this.#kept].filter(([, { operation }]) => !this.#target.isOutFor(operation.charges))
    for (let i = 0; i < due.length; i += AT_ONCE)
      await Promise.all(due.slice(i, i + AT_ONCE).map(async ([place, kept]) => this.#send(place, kept)))
  }

  async #send(place: unknown, kept: Kept): Promise<void> {
    const { operation, until } = kept
    const { inner, isOutFor, failed } = this.#target
    // The store has failed again, or the change was dropped in the meantime.
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

/** Joins limiter, limit and key. No name contains a NUL, so two different charges never have the same text. */
function placeOf({ policy, key }: Charge): string {
  return `${policy.limiter}\0${policy.limit.name}\0${key}`
}

function full(): SluiceError {
  return new SluiceError(
    'STORE_FAILED',
    `The store does not answer, and ${MOST} refunds, settlements, penalties and lock-outs already wait for it. This one is not made there`,
  )
}
