import { copyText } from '../../util/bounded-key.ts'
import { SluiceError } from '../../util/errors.ts'
import type { LockMode } from '../../engine/adjust.ts'
import { type Charge, hasPenalty, isPenalty, keptCharge, perform, type ReceiptUse, type Store } from '../store.ts'
import { outlive } from '../../util/worker.ts'
import { Alarm } from './alarm.ts'
import { kindOf } from './health.ts'

/** The most charges whose adjustments are kept, and the most lock-outs. One takes 300 to 400 bytes, its key included. */
const MOST = 10_000
/** How many changes are sent at once after an outage. */
const AT_ONCE = 100
/** Milliseconds after which an adjustment is repeated, and for which it is repeated while its key is locked. */
const REPEAT_AFTER = 1000
const REPEAT_FOR = 60_000

/** Charges and the units to add to each. */
export interface Adjustment {
  readonly charges: Charge[]
  readonly units: number[]
  readonly receipt?: ReceiptUse | undefined
  /** Until when it is repeated. Times are milliseconds of `performance.now()`. */
  readonly until?: number | undefined
}

/** A lock-out that was not yet sent to the store. */
interface KeptLock {
  readonly charge: Charge
  readonly until: number
  readonly mode: LockMode
}

/** Where a backlog sends to. */
interface BacklogTarget {
  readonly inner: Store
  isOutFor(charges: readonly Charge[]): boolean
  /** The store has failed, so a change may be lost. */
  failed(charges: readonly Charge[], error: unknown): void
}

/**
 * Keeps changes until a store answers again, or until a key is no longer locked: refunds, settlements and penalties in the order in which they
 * came, and of each key under a limit one lock-out. Bounded.
 */
export class Backlog {
  readonly #target: BacklogTarget
  #adjustments: Adjustment[] = []
  /** Charges in the adjustments. */
  #charges = 0
  readonly #locks = new Map<string, KeptLock>()
  /** Rings when adjustments are repeated. */
  readonly alarm: Alarm = new Alarm()

  constructor(target: BacklogTarget) {
    this.#target = target
  }

  /** Throws `STORE_FAILED` when there is no room. */
  adjust({ charges, units, receipt, until }: Adjustment): void {
    if (this.#charges + charges.length > MOST)
      throw full('refunds, settlements and penalties of charges', 'This one is lost in the store')
    this.#charges += charges.length
    this.#adjustments.push({ charges: charges.map(keptCharge), units, receipt, until })
  }

  /**
   * Sends an adjustment again in a second, if that cannot do it twice: its key was locked, or it has a receipt and the store did not answer. Returns
   * false for any other. A penalty is not repeated for a locked key: it has failed, and a reset would have to end it.
   */
  repeats(adjustment: Adjustment, error: unknown): boolean {
    const now = performance.now()
    const { receipt, until = now + REPEAT_FOR } = adjustment
    const kind = kindOf(error)
    const isBusy = kind === 'busy' && now < until && !hasPenalty(adjustment)
    if (!isBusy && (kind !== 'away' || receipt === undefined)) return false
    try {
      this.adjust(isBusy ? { ...adjustment, until } : adjustment)
    } catch {
      return false
    }
    if (!this.alarm.isSet) this.alarm.set(REPEAT_AFTER, () => outlive(this.send()))
    return true
  }

  /** Keeps a lock-out in place of an earlier one. Throws `STORE_FAILED` when there is no room. */
  lock(charge: Charge, until: number, mode: LockMode): void {
    const place = copyText(placeOf(charge))
    const before = this.#locks.get(place)
    if (before === undefined && this.#locks.size >= MOST)
      throw full('lock-outs', 'This lock-out applies only in this process')
    if (before === undefined || mode === 'set') this.#locks.set(place, { charge: keptCharge(charge), until, mode })
    else if (until > before.until) this.#locks.set(place, { ...before, until })
  }

  /** Drops a lock-out that another one replaces. */
  unlock(charge: Charge): void {
    if (this.#locks.size > 0) this.#locks.delete(placeOf(charge))
  }

  /** Drops the lock-outs and penalties of a key under all limits of a limiter. Refunds stay: they are too late for a key that was reset. */
  forget(limiter: string, key: string): void {
    const isOf = (charge: Charge): boolean => charge.key === key && charge.policy.limiter === limiter
    for (const [place, { charge }] of this.#locks) if (isOf(charge)) this.#locks.delete(place)
    for (const { charges, units } of this.#adjustments)
      for (const [i, charge] of charges.entries()) if (isPenalty(charge) && isOf(charge)) units[i] = 0
  }

  /**
   * Sends what is due, some at a time: lock-outs first. One call of the store may not have two adjustments of the same key. Never rejects.
   */
  async send(): Promise<void> {
    const { isOutFor } = this.#target
    const isDue = ({ charge }: KeptLock): boolean => !isOutFor([charge])
    await this.#inTurn([...this.#locks.values()].filter(isDue), async (lock) => this.#sendLock(lock))
    await this.#inTurn(this.#drain(), async (adjustment) => this.#sendAdjustment(adjustment))
  }

  close(): void {
    this.alarm.cancel()
  }

  async #sendLock(kept: KeptLock): Promise<void> {
    const { charge, until, mode } = kept
    // Another lock-out has replaced it, or its key was forgotten.
    if (this.#locks.get(placeOf(charge)) !== kept) return
    this.unlock(charge)
    const ms = Math.max(0, until - performance.now())
    if (ms === 0 && mode === 'extend') return
    try {
      await perform(this.#target.inner, { kind: 'lock', charges: [charge], ms, mode })
    } catch (error) {
      if (!this.#target.isOutFor([charge])) throw error
      this.lock(charge, until, mode)
    }
  }

  /** Removes and returns the adjustments that are due. */
  #drain(): Adjustment[] {
    const due: Adjustment[] = []
    const later: Adjustment[] = []
    for (const each of this.#adjustments) (this.#target.isOutFor(each.charges) ? later : due).push(each)
    for (const { charges } of due) this.#charges -= charges.length
    this.#adjustments = later
    return due
  }

  async #sendAdjustment(adjustment: Adjustment): Promise<void> {
    const { charges, units, receipt } = adjustment
    const { inner, isOutFor, failed } = this.#target
    // The store has failed again before this one was sent.
    if (isOutFor(charges)) return this.adjust(adjustment)
    try {
      await perform(inner, { kind: 'adjust', charges, units, receipt })
    } catch (error) {
      if (kindOf(error) === 'busy' && this.repeats(adjustment, error)) return
      failed(charges, error)
      // The store may have done it, and does what has a receipt only once.
      if (receipt !== undefined && isOutFor(charges)) this.adjust(adjustment)
    }
  }

  async #inTurn<Item extends KeptLock | Adjustment>(
    items: readonly Item[],
    send: (item: Item) => Promise<void>,
  ): Promise<void> {
    const attempt = async (item: Item): Promise<void> => {
      try {
        await send(item)
      } catch (error) {
        this.#target.failed('charge' in item ? [item.charge] : item.charges, error)
      }
    }
    for (let i = 0; i < items.length; i += AT_ONCE) await Promise.all(items.slice(i, i + AT_ONCE).map(attempt))
  }
}

/** No name contains a NUL, so that no text can pass for a boundary. */
function placeOf({ policy, key }: Charge): string {
  return `${policy.limiter}\0${policy.limit.name}\0${key}`
}

function full(what: string, effect: string): SluiceError {
  return new SluiceError(
    'STORE_FAILED',
    `The store does not answer, and ${MOST} ${what} already wait for it. ${effect}`,
  )
}
