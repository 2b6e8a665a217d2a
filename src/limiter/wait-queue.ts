import type { Forecast } from '../stores/forecast.ts'
import type { Charge, DecisionMode, Store } from '../stores/store.ts'
import { shared } from '../util/copies.ts'
import { SluiceError, textOf } from '../util/errors.ts'
import { chain, isPromise, type MaybePromise } from '../util/maybe-promise.ts'
import { wholeNumber } from '../util/validate.ts'
import { warn } from '../util/warn.ts'
import { combine, type Decision } from './decision.ts'
import { addToLines, firstIn, isAheadOf, isFirst, removeFromLines } from './wait-lines.ts'
import { Waiter, type WaitOptions } from './waiter.ts'

/** How many requests can wait on a store by default. */
const MAX_QUEUE = 10_000

/** By what a store counts in. */
const queues = shared('queues', () => new WeakMap<object, WaitQueue>())

/**
 * Returns the queue of a store. All limiters whose stores count in one place share it, such as a store and a guard of it, so that each
 * key has one order of waiters.
 */
export function waitQueueOf(store: Store): WaitQueue {
  const place = store.identity ?? store
  const queue = queues.get(place) ?? new WaitQueue()
  queues.set(place, queue)
  return queue
}

/**
 * Serves waiters first come, first served. The waiter that is first in all of its lines asks the store, sleeps until the
 * time that the store names, and asks again. The others only sleep.
 */
export class WaitQueue {
  /** In the order of their arrival. */
  readonly #waiters = new Set<Waiter>()
  #forecast: Forecast<Charge> | undefined
  /** True when the forecast counts waiters that left early: it is too long, never too short. */
  #isTooLong = false
  #warned = false

  /** Resolves once the charges are admitted and their delay has passed. Rejects with `WAIT_QUEUE_FULL`. */
  async enter(store: Store, charges: readonly Charge[], options: WaitOptions, refund: Refund): Promise<Decision> {
    const { maxQueue = MAX_QUEUE } = options
    wholeNumber('maxQueue', maxQueue)
    if (this.#waiters.size >= maxQueue) throw queueFull(maxQueue)
    const waiter = new Waiter(store, charges, options, refund, (gone, reason) => this.#giveUp(gone, reason))
    this.#waiters.add(waiter)
    addToLines(waiter)
    if (isFirst(waiter)) void this.#serve(waiter)
    else void this.#judge(waiter)
    return waiter.promise
  }

  /** True when a waiter is to be served before these charges. Without waiters, there is nothing to look up. */
  isAheadOf(charges: readonly Charge[]): boolean {
    return this.#waiters.size > 0 && isAheadOf(charges)
  }

  /** Denies charges that waiters are ahead of, until those are served. Charges nothing. */
  deny(store: Store, charges: readonly Charge[]): MaybePromise<Decision> {
    const verdicts = copies(charges)
    const degraded = store.take(verdicts, 'peek') as MaybePromise<Decision['degraded']>
    return chain(degraded, (known) => this.#denied(store, verdicts, known))
  }

  /** Asks again for the first waiters, of these charges or of all: what they wait for may have been refunded. */
  wake(charges?: readonly Charge[]): void {
    if (this.#waiters.size === 0) return
    this.#isTooLong = true
    for (const waiter of charges === undefined ? this.#waiters : firstIn(charges)) if (isFirst(waiter)) waiter.wake()
  }

  /** The same after states have changed so that requests may be admitted later than was predicted, too. */
  changed(charges: readonly Charge[]): void {
    this.#forecast = undefined
    this.wake(charges)
  }

  #denied(store: Store, verdicts: readonly Charge[], degraded: Decision['degraded']): Decision {
    const forecast = this.#openForecast(store)
    const wait = forecast === undefined ? 1 : Math.max(1, forecast.add(verdicts, false) - forecast.now())
    for (const verdict of verdicts) {
      if (!isAheadOf([verdict])) continue
      verdict.allowed = false
      verdict.remaining = 0
      verdict.delay = 0
      verdict.retryAfter = Math.max(wait, verdict.retryAfter)
      verdict.resetAfter = Math.max(wait, verdict.resetAfter)
    }
    return combine(verdicts, degraded)
  }

  async #serve(waiter: Waiter): Promise<void> {
    waiter.isServed = true
    try {
      this.#forecast?.add(waiter.charges, true)
      while (this.#waiters.has(waiter)) {
        const asked = ask(waiter, 'consume')
        const decision = isPromise(asked) ? await asked : asked
        if (!this.#waiters.has(waiter)) await this.#giveBack(waiter, decision)
        else if (decision.allowed) this.#admit(waiter, decision)
        else if (!this.#refused(waiter, decision.retryAfter, decision)) await waiter.sleep(decision.retryAfter)
      }
    } catch (error) {
      this.#giveUp(waiter, error)
    }
  }

  #admit(waiter: Waiter, decision: Decision): void {
    const refusal = waiter.refusal(decision.delay, decision)
    if (refusal === undefined) waiter.hold(decision)
    else {
      void this.#giveBack(waiter, decision)
      waiter.reject(refusal)
    }
    this.#leave(waiter)
  }

  /** Rejects a waiter behind others as soon as it is known that its wait is too long. */
  async #judge(waiter: Waiter): Promise<void> {
    try {
      const asked = ask(waiter, 'peek')
      const decision = isPromise(asked) ? await asked : asked
      if (!this.#waiters.has(waiter) || waiter.isServed) return
      if (!this.#refused(waiter, this.#waitOf(waiter, decision), decision)) this.#forecast?.add(waiter.charges, true)
    } catch (error) {
      this.#giveUp(waiter, error)
    }
  }

  /** Milliseconds until a waiter is admitted after those before it; at least so many where the store has no forecast. */
  #waitOf(waiter: Waiter, { retryAfter }: Decision): number {
    if (retryAfter === Infinity || waiter.isPatient) return retryAfter
    let wait = this.#forecastOf(waiter)
    if (wait !== undefined && this.#isTooLong && waiter.isTooLong(wait)) {
      this.#forecast = undefined
      wait = this.#forecastOf(waiter)
    }
    return wait ?? retryAfter
  }

  #forecastOf(waiter: Waiter): number | undefined {
    const forecast = this.#openForecast(waiter.store, waiter)
    return forecast && forecast.add(waiter.charges, false) - forecast.now()
  }

  /** The forecast of all waiters but `last`, each of which is added once. */
  #openForecast(store: Store, last?: Waiter): Forecast<Charge> | undefined {
    if (this.#forecast !== undefined) return this.#forecast
    const forecast = store.forecast?.()
    if (forecast !== undefined)
      for (const waiter of this.#waiters) if (waiter !== last) forecast.add(waiter.charges, true)
    this.#isTooLong = false
    this.#forecast = forecast
    return forecast
  }

  #refused(waiter: Waiter, wait: number, decision: Decision): boolean {
    const refusal = waiter.refusal(wait, decision)
    if (refusal === undefined) return false
    waiter.reject(refusal)
    this.#leave(waiter)
    return true
  }

  #giveUp(waiter: Waiter, reason: unknown): void {
    if (waiter.held !== undefined) void this.#giveBack(waiter, waiter.held)
    waiter.reject(reason)
    this.#leave(waiter)
    this.#isTooLong = true
  }

  /** Refunds the charge of a waiter that has left. Its promise is settled, so a failure is a warning. */
  async #giveBack(waiter: Waiter, decision: Decision): Promise<void> {
    try {
      await waiter.refund(decision)
    } catch (error) {
      if (!this.#warned)
        warn('SLUICE_WAIT', `A wait ended early, and its charge could not be refunded: ${textOf(error)}`)
      this.#warned = true
    }
  }

  #leave(waiter: Waiter): void {
    if (!this.#waiters.delete(waiter)) return
    const next = removeFromLines(waiter, (charge) => {
      try {
        this.#forecast?.forget(charge)
      } catch {
        // The forecast of a user's store has failed. It is made again when it is needed.
        this.#forecast = undefined
      }
    })
    if (this.#waiters.size === 0) this.#forecast = undefined
    for (const first of next) if (!first.isServed && isFirst(first)) void this.#serve(first)
  }
}

/** Undoes a decision that nothing waits for any longer. */
export type Refund = (decision: Decision) => MaybePromise<void>

/** A wait can be long, so it never starts from an answer that a wrapper of the store remembers. */
function ask({ store, charges }: Waiter, mode: DecisionMode): MaybePromise<Decision> {
  const asked = copies(charges)
  const degraded = store.take(asked, mode, true) as MaybePromise<Decision['degraded']>
  return chain(degraded, (known) => combine(asked, known))
}

/** The same charges, not decided yet. */
function copies(charges: readonly Charge[]): Charge[] {
  return charges.map((charge) => charge.copy())
}

function queueFull(maxQueue: number): SluiceError {
  return new SluiceError(
    'WAIT_QUEUE_FULL',
    `${maxQueue} requests are already waiting, the most that \`maxQueue\` allows. Reject this request, or increase \`maxQueue\``,
  )
}
