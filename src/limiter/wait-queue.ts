import { combine, type Decision } from './decision.ts'
import type { MaybePromise } from '../util/maybe-promise.ts'
import { sleep } from '../util/timer.ts'
import { Charge, type Store, type DecisionMode } from '../stores/store.ts'
import { Waiter, type WaitOptions } from './waiter.ts'

type Refund = (decision: Decision) => MaybePromise<void>

/** Holds the calls of `wait` that are not admitted yet: one queue for each set of keys. */
export class WaitQueue {
  readonly #store: Store
  readonly #refund: Refund
  readonly #queues = new Map<string, Queue>()

  constructor(store: Store, refund: Refund) {
    this.#store = store
    this.#refund = refund
  }

  /** Resolves once the charges are admitted and their delay has passed. */
  async enter(charges: readonly Charge[], options: WaitOptions): Promise<Decision> {
    const name = queueName(charges)
    const queue = this.#queues.get(name) ?? new Queue(this.#store, this.#refund)
    const waiter = new Waiter(charges, options, (gone, reason) => queue.giveUp(gone, reason))
    this.#queues.set(name, queue)
    void queue.join(waiter)?.then(() => queue.isEmpty && this.#queues.delete(name))
    return waiter.promise
  }
}

/**
 * The waiters of one set of keys, first come first served. The first one asks the store, sleeps until its decision says to
 * retry, and asks again. The others only sleep.
 */
class Queue {
  readonly #store: Store
  readonly #refund: Refund
  readonly #waiters: Waiter[] = []
  #wake: () => void = () => undefined

  constructor(store: Store, refund: Refund) {
    this.#store = store
    this.#refund = refund
  }

  get isEmpty(): boolean {
    return this.#waiters.length === 0
  }

  /** Adds a waiter at the end. The first one of an empty queue serves it: the promise resolves once all have left. */
  join(waiter: Waiter): Promise<void> | undefined {
    const before = this.#waiters.at(-1)
    this.#waiters.push(waiter)
    if (before === undefined) return this.#serve()
    void this.#rejectIfTooLong(waiter, before)
    return undefined
  }

  giveUp(waiter: Waiter, reason: unknown): void {
    if (!this.#leave(waiter) && waiter.held !== undefined) void this.#refund(waiter.held)
    waiter.reject(reason)
  }

  async #serve(): Promise<void> {
    for (let first = this.#waiters[0]; first !== undefined; first = this.#waiters[0]) {
      try {
        const decision = await this.#ask(first.charges, 'consume')
        if (first !== this.#waiters[0]) await this.#refund(decision)
        else if (decision.allowed) await this.#admit(first, decision)
        else if (!this.#rejected(first, decision.retryAfter, decision)) await this.#sleep(decision.retryAfter)
      } catch (error) {
        this.giveUp(first, error)
      }
    }
  }

  async #admit(waiter: Waiter, decision: Decision): Promise<void> {
    const refusal = waiter.refusal(decision.delay, decision)
    if (refusal !== undefined) await this.#refund(decision)
    this.#leave(waiter)
    if (refusal === undefined) waiter.hold(decision)
    else waiter.reject(refusal)
  }

  /** Rejects at once a later waiter whose wait would take too long, as soon as it is known who stays ahead of it. */
  async #rejectIfTooLong(waiter: Waiter, before: Waiter): Promise<void> {
    try {
      await before.judged
      const decision = await this.#ask(waiter.charges, 'peek')
      const queue = this.#waiters.slice(0, this.#waiters.indexOf(waiter) + 1).map((each) => undecided(each.charges))
      const forecast =
        decision.retryAfter === Infinity || queue.length === 0 ? undefined : this.#store.forecast?.(queue)
      if (queue.length > 0) this.#rejected(waiter, (await forecast) ?? decision.retryAfter, decision)
    } catch (error) {
      this.giveUp(waiter, error)
    }
  }

  #rejected(waiter: Waiter, wait: number, decision: Decision): boolean {
    const refusal = waiter.refusal(wait, decision)
    if (refusal === undefined) {
      waiter.remain()
      return false
    }
    this.#leave(waiter)
    waiter.reject(refusal)
    return true
  }

  #leave(waiter: Waiter): boolean {
    const place = this.#waiters.indexOf(waiter)
    if (place === -1) return false
    this.#waiters.splice(place, 1)
    if (place === 0) this.#wake()
    return true
  }

  async #ask(charges: readonly Charge[], mode: DecisionMode): Promise<Decision> {
    const asked = undecided(charges)
    return combine(asked, await this.#store.take(asked, mode))
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = sleep(ms, resolve)
      this.#wake = () => {
        cancel()
        resolve()
      }
    })
  }
}

/** Returns the same charges without verdicts. */
function undecided(charges: readonly Charge[]): Charge[] {
  return charges.map(({ policy, key, cost }) => new Charge(policy, key, cost))
}

/** Returns a name for a set of keys. The length before each part keeps different sets apart. */
function queueName(charges: readonly Charge[]): string {
  const keys = new Set(
    charges.map(({ policy, key }) => `${policy.limiter.length}:${policy.limiter}${key.length}:${key}`),
  )
  return [...keys].join('')
}
