import { shared } from '../util/copies.ts'
import type { Duration } from '../engine/limit.ts'
import { Charge, type DecisionMode, perform, type Store } from '../stores/store.ts'
import { type Clock, microseconds, sleep } from '../util/clock.ts'
import { shown, SluiceError, textOf } from '../util/errors.ts'
import { chain, isPromise, type MaybePromise } from '../util/maybe-promise.ts'
import { onAbort } from '../util/shared-listener.ts'
import { milliseconds, refuse, wholeNumber } from '../util/validate.ts'
import { combine, type Decision, waitsForSlots } from './decision.ts'
import { warn } from '../util/warn.ts'

const held = shared('held requests', () => new Map<string, number>())

/** How many requests wait now, by the name of their limiter: in `wait`, and for the delay of a leaky bucket. */
export function heldRequests(): ReadonlyMap<string, number> {
  return held
}

/** Counts a request that waits. Returns a function to call once when it waits no longer. */
export function countHeld(limiter: string): () => void {
  held.set(limiter, (held.get(limiter) ?? 0) + 1)
  return function release() {
    const left = held.get(limiter)! - 1
    if (left === 0) held.delete(limiter)
    else held.set(limiter, left)
  }
}

/** Options of `wait`. */
export interface WaitOptions {
  /** The cost against every limit. Default: the limiter's `cost`, else 1. */
  readonly cost?: number
  /** The longest wait: milliseconds from 0, or a text such as `'5s'`. `wait` rejects at once if it would take longer. Default: no limit. */
  readonly maxWait?: Duration
  /** The most requests that may wait on the store. Beyond it a wait is rejected with `WAIT_QUEUE_FULL`. Default 10,000. */
  readonly maxQueue?: number
  /** Gives up the place when aborted. The promise is rejected with the signal's reason. */
  readonly signal?: AbortSignal
}

/** Returns the milliseconds of `maxWait`. Throws `INVALID_OPTION`. */
function longestWait({ maxWait = Infinity }: WaitOptions): number {
  if (typeof maxWait === 'string') return milliseconds('maxWait', maxWait)
  if (typeof maxWait === 'number' && maxWait >= 0) return maxWait
  return refuse('maxWait', "milliseconds from 0, or a text such as '5s'", maxWait)
}

/** Timers and clocks differ by less than this, in milliseconds. */
const TOLERANCE = 2

/** A request that waits to be admitted: its promise, and what can end it early. */
class Waiter {
  /** Decides about the charges. */
  readonly store: Store
  readonly charges: readonly Charge[]
  readonly promise: Promise<Decision>
  /** True once it asks the store. */
  isServed = false
  /** The latest denial. */
  denied: Decision | undefined
  /** Set when it is admitted and waits for the end of its delay. */
  held: Decision | undefined
  readonly refund: (decision: Decision) => MaybePromise<void>
  /** Called when it is not admitted or denied at once. */
  readonly waits: () => void
  readonly #maxWait: number
  readonly #clock: Clock | undefined
  readonly #since: number
  readonly #ignoreAbort: () => void
  readonly #cancelDeadline: () => void
  #cancelHold: () => void = () => undefined
  #wake: () => void = () => undefined
  /** True if it was woken since it has asked the store last. */
  #isWoken = false
  #settle!: { resolve(decision: Decision): void; reject(reason: unknown): void }

  /**
   * `giveUp` is called when the signal is aborted or `maxWait` has passed. Throws the signal's reason when it is aborted
   * already, and `INVALID_OPTION`.
   * @param store its clock, if it was given one, measures the wait
   */
  constructor(
    store: Store,
    charges: readonly Charge[],
    options: WaitOptions,
    refund: (decision: Decision) => MaybePromise<void>,
    giveUp: (waiter: Waiter, reason: unknown) => void,
    waits: () => void,
  ) {
    const { signal } = options
    const maxWait = longestWait(options)
    if (signal !== undefined && typeof signal?.throwIfAborted !== 'function') refuse('signal', 'an AbortSignal', signal)
    signal?.throwIfAborted()
    this.store = store
    this.charges = charges
    this.refund = refund
    this.waits = waits
    this.promise = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
    })
    // For a waiter that did not come into the queue. Callers of `wait` get the rejection of their own promise.
    this.promise.catch(() => undefined)
    this.#maxWait = maxWait
    this.#clock = store.clock.after === undefined ? undefined : store.clock
    this.#since = this.#now()
    const late = (): void => {
      const cause = this.denied && { cause: this.denied }
      giveUp(this, new SluiceError('WAIT_TOO_LONG', `Not admitted within maxWait, ${maxWait} ms`, cause))
    }
    this.#cancelDeadline = maxWait === Infinity ? () => undefined : sleep(maxWait + TOLERANCE, late, this.#clock)
    this.#ignoreAbort =
      signal === undefined ? () => undefined : onAbort(signal, () => giveUp(this, signal.reason as unknown))
  }

  /** True when a wait of so many more milliseconds is longer than `maxWait`. */
  isTooLong(ms: number): boolean {
    return this.#now() - this.#since + ms >= this.#maxWait + TOLERANCE
  }

  /** Returns why it cannot wait so many more milliseconds, with the decision that says so as `cause`. */
  refusal(ms: number, cause: Decision): SluiceError | undefined {
    if (ms === Infinity) {
      const { cost, limit } = cause.binding!
      const never = `A cost of ${cost} is more than limit ${shown(limit.name)} ever admits at once`
      return new SluiceError('NEVER_ADMITTED', never, { cause })
    }
    if (!this.isTooLong(ms)) return undefined
    const total = Math.round(this.#now() - this.#since + ms)
    const message = `The wait would take ${total} ms, longer than maxWait, ${this.#maxWait} ms`
    return new SluiceError('WAIT_TOO_LONG', message, { cause })
  }

  /** Sleeps for so many milliseconds, or until `wake` is called. */
  sleep(ms: number): Promise<void> {
    this.waits()
    if (this.#isWoken) return Promise.resolve()
    return new Promise((resolve) => {
      const cancel = sleep(ms, resolve, this.#clock)
      this.#wake = () => {
        cancel()
        resolve()
      }
    })
  }

  wake(): void {
    this.#isWoken = true
    this.#wake()
  }

  /** It is about to ask the store: what happens from now on wakes it. */
  asks(): void {
    this.#isWoken = false
  }

  /** Resolves once the decision's delay has passed. */
  hold(decision: Decision): void {
    this.held = decision
    if (decision.delay === 0) return this.#resolve(decision)
    this.waits()
    this.#cancelHold = sleep(decision.delay, () => this.#resolve(decision), this.#clock)
  }

  reject(reason: unknown): void {
    this.held = undefined
    this.#release()
    this.#settle.reject(reason)
  }

  #resolve(decision: Decision): void {
    this.held = undefined
    this.#release()
    this.#settle.resolve(decision)
  }

  #release(): void {
    this.#wake()
    this.#cancelHold()
    this.#cancelDeadline()
    this.#ignoreAbort()
  }

  #now(): number {
    return this.#clock === undefined ? performance.now() : microseconds(this.#clock) / 1000
  }
}

/** The denial behind the error of a wait that was refused; `undefined` for every other error. */
export function denialOf(error: unknown): Decision | undefined {
  const isRefusal = error instanceof SluiceError && (error.code === 'WAIT_TOO_LONG' || error.code === 'NEVER_ADMITTED')
  return isRefusal ? (error.cause as Decision | undefined) : undefined
}

/** The waiters for one key under one limit, in the order of their arrival, and the cost of all of them. */
interface Line {
  readonly waiters: Set<Waiter>
  cost: number
}

/** By the places of stores, then by limiter, limit and key. An empty line is removed. */
const linesIn = shared('lines', () => new WeakMap<object, Map<string, Line>>())

/** Puts a waiter at the end of a line for each limit that it is charged to. */
function addToLines(waiter: Waiter): void {
  for (const charge of waiter.charges) {
    if (charge.cost === 0) continue
    const { place } = charge.policy.store
    const lines = linesIn.get(place) ?? new Map<string, Line>()
    linesIn.set(place, lines)
    const name = lineName(charge)
    const line = lines.get(name) ?? { waiters: new Set(), cost: 0 }
    lines.set(name, line)
    line.waiters.add(waiter)
    line.cost += charge.cost
  }
}

/** Removes a waiter from its lines. Returns the waiters that are first in these lines now. */
function removeFromLines(waiter: Waiter): Set<Waiter> {
  const first = new Set<Waiter>()
  for (const charge of waiter.charges) {
    const line = lineOf(charge)
    if (line === undefined) continue
    line.waiters.delete(waiter)
    line.cost -= charge.cost
    const next = line.waiters.values().next().value
    if (next !== undefined) first.add(next)
    else removeLine(charge)
  }
  return first
}

/** True when no other waiter is to be served before this one. */
function isFirst(waiter: Waiter): boolean {
  return waiter.charges.every((charge) => {
    const line = lineOf(charge)
    return line === undefined || line.waiters.values().next().value === waiter
  })
}

/** The first waiter in the line of each charge. */
function firstIn(charges: readonly Charge[]): Set<Waiter> {
  const first = new Set<Waiter>()
  for (const charge of charges) {
    const waiter = lineOf(charge)?.waiters.values().next().value
    if (waiter !== undefined) first.add(waiter)
  }
  return first
}

/** True when any waiter is to be served before these charges. */
function isAheadOf(charges: readonly Charge[]): boolean {
  return charges.some((charge) => lineOf(charge) !== undefined)
}

/** Returns the cost of all waiters for the key of a charge under its limit. */
function costInLine(charge: Charge): number {
  return lineOf(charge)?.cost ?? 0
}

function lineOf(charge: Charge): Line | undefined {
  return charge.cost === 0 ? undefined : linesIn.get(charge.policy.store.place)?.get(lineName(charge))
}

function removeLine(charge: Charge): void {
  linesIn.get(charge.policy.store.place)!.delete(lineName(charge))
}

/** Lengths come first, so that no text can pass for a boundary. */
function lineName({ policy: { limiter, limit }, key }: Charge): string {
  return `${limiter.length}:${limiter}${limit.name.length}:${limit.name}${key}`
}

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

  /**
   * Resolves once the charges are admitted and their delay has passed. Rejects with `WAIT_QUEUE_FULL`.
   * @param waits called if they are not admitted or denied at once
   */
  async enter(
    store: Store,
    charges: readonly Charge[],
    options: WaitOptions,
    refund: Refund,
    waits: () => void,
  ): Promise<Decision> {
    const { maxQueue = MAX_QUEUE } = options
    wholeNumber('maxQueue', maxQueue)
    if (this.waiters.size >= maxQueue) throw queueFull(maxQueue)
    const waiter = new Waiter(store, charges, options, refund, (gone, reason) => this.#giveUp(gone, reason), waits)
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
        waiter.asks()
        const asked = decide(waiter.store, sameCharges(waiter), 'consume')
        const decision = isPromise(asked) ? await asked : asked
        if (!this.waiters.has(waiter)) {
          if (decision.allowed) await this.#giveBack(waiter, decision)
        } else if (decision.allowed) this.#admit(waiter, decision)
        else if (!this.#refused(waiter, promisedWait(decision), decision)) await waiter.sleep(pauseAfter(decision))
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
      if (this.waiters.has(waiter) && !waiter.isServed) this.#refused(waiter, promisedWait(decision), decision)
    } catch (error) {
      this.#giveUp(waiter, error)
    }
  }

  #refused(waiter: Waiter, wait: number, decision: Decision): boolean {
    waiter.denied = decision
    const refusal = waiter.refusal(wait, decision)
    if (refusal === undefined) return false
    waiter.reject(refusal)
    this.#leave(waiter)
    return true
  }

  #giveUp(waiter: Waiter, reason: unknown): void {
    if (waiter.held !== undefined) void this.#giveBack(waiter, waiter.held)
    waiter.waits()
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
    for (const first of removeFromLines(waiter)) {
      if (first.isServed || !isFirst(first)) continue
      first.waits()
      void this.#serve(first)
    }
  }
}

/** Undoes a decision that nothing waits for any longer. */
type Refund = (decision: Decision) => MaybePromise<void>

/** Milliseconds after which the first waiter for a slot asks again, and what is added at random. A release in this process wakes it at once. */
const ASK_AGAIN = 50
const JITTER = 25

/** Returns the milliseconds that a denied request surely has to wait. Nobody knows when a slot is released. */
function promisedWait({ limits }: Decision): number {
  let wait = 0
  for (const status of limits)
    if (!status.allowed && status.limit.shadow !== true && !waitsForSlots(status))
      wait = Math.max(wait, status.retryAfter)
  return wait
}

/** Returns the milliseconds until a denied request asks again. */
function pauseAfter(decision: Decision): number {
  return Math.max(promisedWait(decision), decision.limits.some(waitsForSlots) ? ASK_AGAIN + Math.random() * JITTER : 0)
}

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
