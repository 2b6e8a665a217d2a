import { Charge, type DecisionMode, perform, type Store } from '../stores/store.ts'
import { shared } from '../util/copies.ts'
import { SluiceError, textOf } from '../util/errors.ts'
import { chain, isPromise, type MaybePromise } from '../util/maybe-promise.ts'
import { wholeNumber } from '../util/validate.ts'
import { warn } from '../util/warn.ts'
import { combine, type Decision } from './decision.ts'
import { addToLines, costInLine, firstIn, isAheadOf, isFirst, removeFromLines } from './wait-lines.ts'
import { Waiter, type WaitOptions } from './waiter.ts'

/** How many requests can wait on a store by default. */
const MAX_QUEUE = 10_000

/** By the places of stores. */
const queues = shared('queues', () => new WeakMap<object, WaitQueue>())

/**
 * Returns the queue of a store. All limiters whose stores count in one place share it, such as a store and a guard of it, so that each
 * key has one order of waiters.
 */
export function waitQueueOf(store: Store): WaitQueue {
  const queue = queues.get(store.place) ?? new WaitQueue()
  queues.set(store.place, queue)
  return queue
}

/**
 * Serves waiters first come, first served. The waiter that is first in all of its lines asks the store, sleeps until the
 * time that the store names, and asks again. The others only sleep.
 */
export class WaitQueue {
  /** In the order of their arrival. */
  readonly waiters: Set<Waiter> = new Set<Waiter>()
  #warned = false

  /** Resolves once the charges are admitted and their delay has passed. Rejects with `WAIT_QUEUE_FULL`. */
  async enter(store: Store, charges: readonly Charge[], options: WaitOptions, refund: Refund): Promise<Decision> {
    const { maxQueue = MAX_QUEUE } = options
    wholeNumber('maxQueue', maxQueue)
    if (this.waiters.size >= maxQueue) throw queueFull(maxQueue)
    const waiter = new Waiter(store, charges, options, refund, (gone, reason) => this.#giveUp(gone, reason))
    this.waiters.add(waiter)
    addToLines(waiter)
    if (isFirst(waiter)) void this.#serve(waiter)
    else void this.#judge(waiter)
    return waiter.promise
  }

  /** True when a waiter is to be served before these charges. Without waiters, there is nothing to look up. */
  isAheadOf(charges: readonly Charge[]): boolean {
    return isAheadOf(charges)
  }

  /** Denies charges that waiters are ahead of, until those are served. Charges nothing. */
  deny(store: Store, charges: readonly Charge[]): MaybePromise<Decision> {
    const behind = charges.map((charge) => withAhead(charge, costInLine(charge) + charge.cost))
    return chain(decide(store, behind, 'peek'), ({ degraded }) => {
      const verdicts = charges.map((charge, i) => verdictBehind(charge, behind[i]!))
      return combine(verdicts, degraded)
    })
  }

  /** Asks again for the first waiters, of these charges or of all: states have changed, so that they wait shorter or longer. */
  wake(charges?: readonly Charge[]): void {
    if (this.waiters.size === 0) return
    for (const waiter of charges === undefined ? this.waiters : firstIn(charges)) if (isFirst(waiter)) waiter.wake()
  }

  async #serve(waiter: Waiter): Promise<void> {
    waiter.isServed = true
    try {
      while (this.waiters.has(waiter)) {
        const asked = decide(waiter.store, sameCharges(waiter), 'consume')
        const decision = isPromise(asked) ? await asked : asked
        if (!this.waiters.has(waiter)) await this.#giveBack(waiter, decision)
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

  /**
   * Rejects a waiter behind others at once if its wait is surely too long. Asks when a request would be admitted that costs as much as the waiter
   * and all before it. Where that is more than a limit ever admits at once, the rest of the wait is known when the turn of the waiter comes.
   */
  async #judge(waiter: Waiter): Promise<void> {
    try {
      // The waiter is the last one in its lines.
      const behind = waiter.charges.map((charge) => withAhead(charge, costInLine(charge)))
      const decision = await decide(waiter.store, behind, 'peek')
      if (this.waiters.has(waiter) && !waiter.isServed) this.#refused(waiter, decision.retryAfter, decision)
    } catch (error) {
      this.#giveUp(waiter, error)
    }
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
    if (!this.waiters.delete(waiter)) return
    for (const first of removeFromLines(waiter)) if (!first.isServed && isFirst(first)) void this.#serve(first)
  }
}

/** Undoes a decision that nothing waits for any longer. */
export type Refund = (decision: Decision) => MaybePromise<void>

/** Decides charges. A wait can be long, so it never starts from an answer that a wrapper of the store remembers. */
function decide(store: Store, charges: readonly Charge[], mode: DecisionMode): MaybePromise<Decision> {
  return chain(perform(store, { kind: mode, charges, fresh: true }), (degraded) => combine(charges, degraded))
}

/** The charges of a waiter, not decided yet. */
function sameCharges({ charges }: Waiter): Charge[] {
  return charges.map((charge) => charge.copy())
}

/** Returns a charge with a cost that includes those ahead of it, as far as its limit ever admits them at once. */
function withAhead({ policy, key, cost }: Charge, sum: number): Charge {
  return new Charge(policy, key, Math.max(cost, Math.min(sum, policy.compiled.capacity)))
}

/** Returns the verdict of a charge that waiters are ahead of. */
function verdictBehind(charge: Charge, behind: Charge): Charge {
  const verdict = charge.copy()
  verdict.adopt(behind)
  if (!isAheadOf([charge])) return verdict
  verdict.allowed = false
  verdict.remaining = 0
  verdict.delay = 0
  verdict.retryAfter = Math.max(1, verdict.retryAfter)
  verdict.resetAfter = Math.max(verdict.retryAfter, verdict.resetAfter)
  return verdict
}

function queueFull(maxQueue: number): SluiceError {
  return new SluiceError(
    'WAIT_QUEUE_FULL',
    `${maxQueue} requests are already waiting, the most that \`maxQueue\` allows. Reject this request, or increase \`maxQueue\``,
  )
}
