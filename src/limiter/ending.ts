import { type Charge, perform, type ReceiptUse, renewParameters, type Store } from '../stores/store.ts'
import { chargedNothing, type ChargeSource, chargesOf, checkedCost, difference } from './charges.ts'
import { isOver, receiptIn, useOf } from './receipt.ts'
import { chain, isPromise, type MaybePromise } from '../util/maybe-promise.ts'
import { once, rareWarning } from '../util/warn.ts'
import { warnLater } from '../util/warn-later.ts'
import type { Renewed } from '../engine/adjust.ts'
import { shared } from '../util/copies.ts'
import { textOf } from '../util/errors.ts'
import type { Limit } from '../engine/limit.ts'
import type { Decision } from './decision.ts'
import { reportLost } from './lost-slots.ts'
import { noticeAdded } from './thresholds.ts'
import type { WaitPlace } from './wait-place.ts'

/** Decisions that were refunded or settled. This happens once for each decision. */
const settled = shared('settled decisions', () => new WeakSet<Decision>())
/**
 * Decisions whose slots are being given back, or could not be given back. They are not renewed any more. If a store gives slots back at once, the decision
 * holds none, so it is not added here: this would take 150 ns.
 */
const released = shared('released decisions', () => new WeakSet<Decision>())

/** Warns of refunds, settlements and releases that the store has not made. */
const warnFailed = rareWarning('SLUICE_OUTCOME')

const OVER =
  'A decision was refunded, settled or released after its receipt had ended, so nothing changes: another process may have done it. Increase ' +
  '`receiptFor`.'

/** Renewals that are under way. Other operations on these decisions wait for them, because a renewal changes the ticks of slots. */
const renewals = shared('renewals', () => new Map<Decision, Promise<unknown>>())

interface Ending {
  readonly decision: Decision
  readonly charges: readonly Charge[]
  readonly settles: boolean
  readonly releases: boolean
  readonly units: readonly number[]
  /** Absent for a decision without a receipt. */
  readonly use: ReceiptUse | undefined
}

/** Settles, releases and renews the decisions of a limiter. */
export class Endings {
  readonly #sources: readonly ChargeSource<never>[]
  readonly #place: WaitPlace
  readonly #warnUncharged = once((isAllowed: boolean) => warnLater('SLUICE_NOT_CHARGED', isAllowed))

  constructor(sources: readonly ChargeSource<never>[], place: WaitPlace) {
    this.#sources = sources
    this.#place = place
  }

  /** See `end` of `DefaultLimiter`. */
  end(decision: Decision, actual: ((limit: Limit) => number) | undefined, releases: boolean): MaybePromise<void> {
    const charges = chargesOf(decision)
    const settles = actual !== undefined && !settled.has(decision)
    if (!settles && !(releases && charges.some(holdsSlots))) return
    if (charges.length === 0) return
    if (settles && chargedNothing(decision, charges) && (!decision.allowed || charges.every(isSettled)))
      return this.#warnUncharged(decision.allowed)
    const costs = settles ? costsOf(charges, actual) : undefined
    if (settles) settled.add(decision)
    const renewal = renewals.size === 0 ? undefined : renewals.get(decision)
    if (renewal !== undefined) {
      if (releases) released.add(decision)
      return renewal.then(() => this.#adjust(decision, charges, costs, releases))
    }
    return this.#adjust(decision, charges, costs, releases)
  }

  /** Charges actual costs, if they are given, and gives slots back. With a receipt, another process may do the same. */
  #adjust(
    decision: Decision,
    charges: readonly Charge[],
    costs: readonly number[] | undefined,
    releases: boolean,
  ): MaybePromise<void> {
    const receipt = receiptIn(decision)
    const store = storeOf(charges)
    if (receipt !== undefined && isOver(receipt, store)) return warnFailed(() => OVER)
    const settles = costs !== undefined
    const units = unitsOf(charges, costs, releases)
    const use = receipt && useOf(receipt, { settles, releases })
    const ending = { decision, charges, settles, releases, units, use }
    let done: MaybePromise<unknown>
    try {
      done = perform(store, { kind: 'adjust', charges, units, receipt: use })
    } catch (error) {
      if (releases) released.add(decision)
      return failed(ending, error)
    }
    // Slots are given back once.
    if (releases) markReleased(charges)
    if (!isPromise(done)) return this.#adjusted(ending)
    if (releases) released.add(decision)
    return this.#adjustedLater(done, ending)
  }

  #adjustedLater(done: Promise<unknown>, ending: Ending): Promise<void> {
    return done.then(
      () => this.#adjusted(ending),
      (error: unknown) => failed(ending, error),
    )
  }

  #adjusted({ charges, units, use }: Ending): MaybePromise<void> {
    this.#place.queue?.wake(charges)
    if (use?.isRepeated !== true) return noticeAdded(charges, units)
  }

  /** See `renew` of `Limiter`. */
  renew(decision: Decision): MaybePromise<boolean> {
    const charges = chargesOf(decision).filter(holdsSlots)
    if (charges.length === 0 || released.has(decision)) return false
    const before = renewals.get(decision)
    if (before !== undefined) return before.then(() => this.renew(decision))
    const renewed: Renewed[] = []
    const store = storeOf(charges)
    const receipt = receiptIn(decision)
    if (receipt !== undefined && isOver(receipt, store)) return false
    // The receipt can be used for its whole time again.
    const keep = receipt && Math.ceil(store.clock.now()) + receipt.life
    const use = receipt && useOf(receipt, { settles: false, releases: false, keep: keep! })
    const done = chain(perform(store, { kind: 'renew', charges, renewed, receipt: use }), () => {
      // If the store does not answer, slots keep their ticks, and the receipt its end.
      if (receipt !== undefined && charges.some(({ at }, i) => renewed[i]!.units > 0 && renewed[i]!.at > at))
        receipt.until = Math.max(receipt.until, use!.keep)
      const isEnded = use?.isRepeated === true || released.has(decision)
      let isHeld = true
      for (const [i, charge] of charges.entries()) {
        const { at, units } = renewed[i]!
        const gone = charge.charged - units
        charge.markCharged(at, units)
        if (units === 0) isHeld = false
        if (gone <= 0 || isEnded) continue
        const source = this.#sources.find((each) => each.owns(charge.limiter))
        reportLost(decision, charge, gone, source?.slotLost)
      }
      return isHeld
    })
    if (isPromise(done)) {
      const over = (): void => void renewals.delete(decision)
      renewals.set(decision, done.then(over, over))
    }
    return done
  }
}

export function wasSettled(decision: Decision): boolean {
  return settled.has(decision)
}

/** Reports a failure of the store as a warning: the work of the request is done, and an error would replace its result. */
function failed({ decision, charges, settles, releases, units, use }: Ending, error: unknown): void {
  // With a receipt, the store does each part only once, so it can be asked again.
  if (use !== undefined && settles) settled.delete(decision)
  // Slots can be given back again.
  if (releases) charges.forEach((charge, i) => isSettled(charge) || charge.markCharged(charge.at, -units[i]!))
  warnFailed(() => `A refund, settlement or release failed, so the charge does not change. ${textOf(error)}`)
}

function costsOf(charges: readonly Charge[], actual: (limit: Limit) => number): number[] {
  return charges.map((charge) => (isSettled(charge) ? checkedCost(actual(charge.limit)) : 0))
}

function unitsOf(charges: readonly Charge[], costs: readonly number[] | undefined, releases: boolean): number[] {
  const units = new Array<number>(charges.length)
  for (let i = 0; i < charges.length; i++) {
    const charge = charges[i]!
    renewParameters(charge.policy)
    if (isSettled(charge)) units[i] = costs === undefined ? 0 : difference(charge, costs[i]!)
    else units[i] = releases && charge.allowed ? -charge.charged : 0
  }
  return units
}

function markReleased(charges: readonly Charge[]): void {
  for (let i = 0; i < charges.length; i++) {
    const charge = charges[i]!
    if (!isSettled(charge)) charge.markCharged(charge.at, 0)
  }
}

/** Returns false for slots, which are given back and not settled. */
function isSettled({ policy }: Charge): boolean {
  return !policy.compiled.slots
}

function holdsSlots(charge: Charge): boolean {
  return !isSettled(charge) && charge.charged > 0
}

/** Returns the store that has decided. It may be the guard of an adapter. */
function storeOf([first]: readonly Charge[]): Store {
  return first!.policy.store
}
