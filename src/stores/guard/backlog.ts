import { copyText } from '../../util/bounded-key.ts'
import { SluiceError } from '../../util/errors.ts'
import type { LockMode } from '../../engine/adjust.ts'
import { Charge, perform, type ReceiptUse, type Store } from '../store.ts'

/** The most charges whose adjustments are kept, and the most lock-outs. One takes 300 to 400 bytes, its key included. */
const MOST = 10_000
/** How many changes are sent at once after an outage. */
const AT_ONCE = 100

/** Charges and the units to add to each. */
export interface Adjustment {
  readonly charges: Charge[]
  readonly units: number[]
  readonly receipt?: ReceiptUse | undefined
}

/** A lock-out that was not yet sent to the store. Times are milliseconds of `performance.now()`. */
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
 * Keeps changes until a store answers again: refunds, settlements and penalties in the order in which they came, and of each key under a
 * limit one lock-out. Bounded.
 */
export class Backlog {
  readonly #target: BacklogTarget
  #adjustments: Adjustment[] = []
  /** Charges in the adjustments. */
  #charges = 0
  /** Lock-outs by limiter and key, then by limit. */
  readonly #locks = new Map<string, Map<string, KeptLock>>()
  #locked = 0

  constructor(target: BacklogTarget) {
    this.#target = target
  }

  /** Throws `STORE_FAILED` when there is no room. */
  adjust({ charges, units, receipt }: Adjustment): void {
    if (this.#charges + charges.length > MOST)
      throw full('refunds, settlements and penalties of charges', 'This one is lost in the store')
    this.#charges += charges.length
    this.#adjustments.push({ charges: charges.map(keptCharge), units, receipt })
  }

  /** Keeps a lock-out in place of an earlier one. Throws `STORE_FAILED` when there is no room. */
  lock(charge: Charge, until: number, mode: LockMode): void {
    const { policy, key } = charge
    const place = copyText(placeOf(policy.limiter, key))
    const locks = this.#locks.get(place) ?? new Map<string, KeptLock>()
    const before = locks.get(policy.limit.name)
    if (before === undefined && this.#locked >= MOST)
      throw full('lock-outs', 'This lock-out applies only in this process')
    if (before === undefined) this.#locked++
    const kept =
      mode === 'extend' && before !== undefined ? extended(before, until) : { charge: keptCharge(charge), until, mode }
    this.#locks.set(place, locks.set(policy.limit.name, kept))
  }

  /** Drops a lock-out that another one replaces. */
  unlock({ policy, key }: Charge): void {
    const place = placeOf(policy.limiter, key)
    const locks = this.#locks.get(place)
    if (locks?.delete(policy.limit.name) !== true) return
    this.#locked--
    if (locks.size === 0) this.#locks.delete(place)
  }

  /** Drops the lock-outs and penalties of a key under all limits of a limiter. Refunds stay: they are too late for a key that was reset. */
  forget(limiter: string, key: string): void {
    const place = placeOf(limiter, key)
    this.#locked -= this.#locks.get(place)?.size ?? 0
    this.#locks.delete(place)
    const isPenaltyOf = (charge: Charge): boolean =>
      isPenalty(charge) && charge.key === key && charge.policy.limiter === limiter
    for (const { charges, units } of this.#adjustments)
      for (const [i, charge] of charges.entries()) if (isPenaltyOf(charge)) units[i] = 0
  }

  /** Sends what is due, some at a time: lock-outs first. One call of the store may not have two adjustments of the same key. */
  async send(): Promise<void> {
    await inTurn(this.#dueLocks(), (lock) => this.#sendLock(lock))
    await inTurn(this.#drain(), (adjustment) => this.#sendAdjustment(adjustment))
  }

  #dueLocks(): KeptLock[] {
    const due: KeptLock[] = []
    for (const locks of this.#locks.values())
      for (const each of locks.values()) if (!this.#target.isOutFor([each.charge])) due.push(each)
    return due
  }

  async #sendLock(kept: KeptLock): Promise<void> {
    const { charge, until, mode } = kept
    const { inner, isOutFor, failed } = this.#target
    // Another lock-out has replaced it, or its key was forgotten.
    if (this.#locks.get(placeOf(charge.policy.limiter, charge.key))?.get(charge.policy.limit.name) !== kept) return
    this.unlock(charge)
    const ms = Math.max(0, until - performance.now())
    if (ms === 0 && mode === 'extend') return
    try {
      await perform(inner, { kind: 'lock', charges: [charge], ms, mode })
    } catch (error) {
      if (isOutFor([charge])) this.lock(charge, until, mode)
      else failed([charge], error)
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
      failed(charges, error)
      // The store may have done it, and does what has a receipt only once.
      if (receipt !== undefined && isOutFor(charges)) this.adjust(adjustment)
    }
  }
}

/** True for a charge of `penalize`: no store has decided it. Only admitted charges are refunded or settled. */
export function isPenalty({ allowed }: Charge): boolean {
  return !allowed
}

async function inTurn<Item>(items: readonly Item[], work: (item: Item) => Promise<void>): Promise<void> {
  for (let i = 0; i < items.length; i += AT_ONCE) await Promise.all(items.slice(i, i + AT_ONCE).map(work))
}

function extended(before: KeptLock, until: number): KeptLock {
  return until > before.until ? { ...before, until } : before
}

/** Returns the same charge to keep for longer than its request: its key shares no memory with a header of the request. */
function keptCharge(charge: Charge): Charge {
  const kept = new Charge(charge.policy, copyText(charge.key), charge.cost)
  kept.adopt(charge)
  return kept
}

/** No name contains a NUL, so that no text can pass for a boundary. */
function placeOf(limiter: string, key: string): string {
  return `${limiter}\0${key}`
}

function full(what: string, effect: string): SluiceError {
  return new SluiceError(
    'STORE_FAILED',
    `The store does not answer, and ${MOST} ${what} already wait for it. ${effect}`,
  )
}
