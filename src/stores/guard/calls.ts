import { background } from '../../util/clock.ts'
import { SluiceError } from '../../util/errors.ts'
import { isWorker, outlive } from '../../util/worker.ts'
import { type Degraded, isDeciding, type Operation, type Reply } from '../store.ts'
import { type Part, shownTime } from './health.ts'

/** The most milliseconds between two looks at the calls, and the least number of looks within a deadline. */
const LOOK = 5
const LOOKS = 8
/** The least number of looks before a call expires. Answers are read between two looks, even if the process is busy and each turn takes long. */
const TURNS = 6

/** Receives the end of a call. `error` is `undefined` for an answer. `by`: what has decided instead of the store. */
export type Ended = (error: unknown, call: Call, by?: Degraded | 'remembered') => unknown

/** A call to the store. It ends with an answer, with an error, or at its deadline. The parts that decide learn from it. */
export class Call implements Reply {
  readonly sent: number = performance.now()
  /** True if the call was not answered in time. */
  isLate = false
  /** True once the call was answered or has failed, even after its deadline. */
  isOver = false
  /** True if the caller no longer waits. The parts learn nothing from the call then. */
  isGivenUp = false
  /** Gives a decision up in the store. */
  stop: (() => void) | undefined
  /** The looks before the call was added, and the milliseconds for which this process did not run. Written by `Calls`. */
  turn = 0
  lost = 0
  /** Called when the call is over. Written by `Calls` in a Worker. */
  onOver: (() => void) | undefined
  /** Milliseconds, without what the other calls of its burst add. */
  readonly #own: number
  readonly #most: number
  readonly #calls: Calls
  readonly #burst: Burst
  readonly #operation: Operation
  readonly #parts: readonly Part[]
  readonly #ended: Ended
  readonly #late: Ended | undefined
  /** True if the time of the answer says little about a part: there are several parts, or the call may have to make a connection. */
  readonly #isUnsure: boolean
  /** True if the decision was given up at the deadline. Its answer comes after its refund. */
  #isRefunded = false

  /**
   * @param parts the parts that decide. None: its answer says nothing about any part
   * @param most the longest deadline in milliseconds. A call without parts has it
   * @param ended called once: for an answer or an error in time, or at the deadline
   * @param late called for an answer or an error after the deadline. A decision with it is not given up then
   */
  constructor(calls: Calls, operation: Operation, parts: readonly Part[], most: number, ended: Ended, late?: Ended) {
    let deadline = parts.length === 0 ? most : 0
    for (const part of parts) deadline = Math.max(deadline, part.begin(this.sent))
    this.#own = deadline
    this.#most = most
    this.#calls = calls
    this.#burst = calls.burst
    this.#operation = operation
    this.#parts = parts
    this.#ended = ended
    this.#late = late
    this.#isUnsure = parts.length > 1 || (parts[0]?.isConnecting ?? false)
  }

  /** Milliseconds. Grows while more calls are sent at the same time. */
  get deadline(): number {
    return Math.min(this.#most, this.#own + this.#burst.size * this.#calls.perOperation)
  }

  get isPending(): boolean {
    return !this.isLate && !this.isOver
  }

  waitsFor(part: Part): boolean {
    return this.#parts.includes(part)
  }

  readonly giveUp = (): void => {
    if (!this.isPending || this.isGivenUp) return
    this.isGivenUp = true
    this.stop?.()
  }

  expire(): void {
    if (!this.isPending) return
    this.isLate = true
    for (const part of this.#parts) part.failed(this)
    if (this.#late === undefined && this.stop !== undefined && !this.isGivenUp) {
      this.#isRefunded = true
      this.stop()
    }
    this.#ended(new SluiceError('STORE_FAILED', `no answer within ${shownTime(this.deadline)}`), this)
  }

  answered(by?: Degraded | 'remembered'): void {
    this.#end(undefined, by)
  }

  failed(error: unknown): void {
    this.#end(error ?? new Error('no reason'))
  }

  #end(error: unknown, by?: Degraded | 'remembered'): void {
    if (this.isOver) return
    this.isOver = true
    this.onOver?.()
    // What a wrapper of the store remembers says nothing about the health of the store.
    if (!this.isGivenUp && by !== 'remembered') this.#teach(error)
    if (this.isLate) this.#late?.(error, this)
    else this.#ended(error, this, by)
  }

  #teach(error: unknown): void {
    const now = performance.now()
    const took = now - this.sent
    // The time also says little if this process did not run for more than a quarter of it.
    const isUnsure = this.#isUnsure || this.#calls.lostSince(this, now) > took / 4
    for (const part of this.#parts)
      if (!this.isLate && error !== undefined) part.failed(this, error)
      else if (!this.isLate) part.answered(took, now, isUnsure, hasWritten(this.#operation))
      // An answer after a refund has taken two trips.
      else if (error === undefined)
        part.learn(this.#isRefunded ? Math.max(this.deadline, took / 2) : took, now, isUnsure)
  }
}

/** Returns true if an operation that has ended has written in the store. */
function hasWritten(operation: Operation): boolean {
  return !isDeciding(operation) || operation.charges.some(({ charged }) => charged > 0)
}

/** Calls that were sent at the same time: between two looks. */
interface Burst {
  size: number
}

/**
 * Expires calls that a store has not answered in time. One timer checks all calls, and runs only while calls are pending. It costs less than a timer
 * for each call, and detects when this process was busy. In a Worker, a timer ends with its request, so each call has its own timer.
 *
 * Answers that wait to be read at a deadline are read before the call expires.
 */
export class Calls {
  /** See `Place`. */
  readonly perOperation: number
  /** The calls since the latest look. */
  burst: Burst = { size: 0 }
  readonly #every: number
  /** Pending calls, and answered calls until the next look. A `Set` without answered calls takes twice the time, because its old tables keep them alive. */
  #calls: Call[] = []
  #turn = 0
  #lookedAt = 0
  /** Milliseconds for which this process did not run while calls were pending. */
  #lost = 0
  #isTimed = false
  #cancel: () => void = () => undefined

  /** @param least the shortest deadline in milliseconds */
  constructor(least: number, perOperation = 0) {
    this.perOperation = perOperation
    this.#every = Math.min(LOOK, Math.max(1, Math.floor(least / LOOKS)))
  }

  add(call: Call): void {
    if (isWorker) return expireAlone(call)
    call.turn = this.#turn
    call.lost = this.#lost
    this.burst.size++
    this.#calls.push(call)
    if (!this.#isTimed) this.#start(performance.now())
  }

  /** Returns the milliseconds for which this process did not run since a call was added. The answer may have waited to be read in this time. */
  lostSince(call: Call, now: number): number {
    return this.#lost - call.lost + (this.#isTimed ? this.#late(now) : 0)
  }

  /** Expires the pending calls of any age for which `isLost` returns true. */
  expireWhere(isLost: (call: Call) => boolean): void {
    for (const call of this.#calls.filter(isLost)) call.expire()
  }

  close(): void {
    this.expireWhere(() => true)
    this.#calls = []
    this.#cancel()
    this.#isTimed = false
  }

  #start(now: number): void {
    this.#isTimed = true
    this.#lookedAt = now
    this.#cancel = background(this.#every, this.#look)
  }

  readonly #look = (): void => {
    const now = performance.now()
    this.#lost += this.#late(now)
    this.#turn++
    this.burst = { size: 0 }
    this.#isTimed = false
    this.#calls = this.#calls.filter(({ isPending }) => isPending)
    if (this.#calls.length === 0) return
    this.#start(now)
    const due = this.#calls.filter(({ sent, deadline, turn }) => now - sent >= deadline && this.#turn - turn >= TURNS)
    if (due.length > 0) soon(() => due.forEach((call) => call.expire()))
  }

  /** Returns how many milliseconds a look is late. A small delay counts as 0: timers have steps of a millisecond, and turns of some milliseconds are usual. */
  #late(now: number): number {
    const late = now - this.#lookedAt - this.#every
    return late > Math.max(2, this.#every) ? late : 0
  }
}

/** Expires a call by its own timer. Keeps the request of the Worker alive until the store has answered. */
function expireAlone(call: Call): void {
  const cancel = background(call.deadline, () => call.expire())
  const over = new Promise<void>((resolve) => (call.onOver = resolve))
  outlive(over.then(cancel))
}

/** Calls a function after the waiting answers were read: the event loop reads them between timers and `setImmediate`. */
const soon: (call: () => void) => unknown =
  (globalThis as Partial<Pick<typeof globalThis, 'setImmediate'>>).setImmediate ?? ((call) => background(0, call))
