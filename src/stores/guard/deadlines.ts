import { background } from '../../util/clock.ts'
import type { Charge } from '../store.ts'

/** Looks at the clock during one deadline. A call is given up in at least half as many turns of the event loop. */
const LOOKS = 8

/** A call to a store that has not been answered. It is a node of a list, so that an answer removes it at once. */
export interface Call {
  /** Called when the deadline has passed. `wasBusy`: this process did not run for as long as a deadline while the call waited. */
  expire(wasBusy: boolean): void
  /** What it is about. */
  readonly charges: readonly Charge[]
  /** When it was sent, by the time in which this process ran, in milliseconds. Written by `Deadlines`, as are the others. */
  since: number
  /** The time in milliseconds for which this process had not run until then. */
  lost: number
  isPending: boolean
  before: Call | undefined
  after: Call | undefined
}

/**
 * Expires calls that a store has not answered in time. All calls have the same time, so the oldest one expires first, and one
 * timer serves all of them. It runs only while calls are pending.
 *
 * Only time in which this process runs counts. The timer rings eight times in a deadline. When a ring is late, this process
 * was busy: it could neither send requests nor read answers, and the time by which the ring was late is given to the calls again.
 * Each ring counts for something, so a call expires after a bounded number of turns of the event loop, however long they are.
 */
export class Deadlines {
  readonly #deadline: number
  readonly #every: number
  #oldest: Call | undefined
  #newest: Call | undefined
  #isTimed = false
  /** When the timer was set and for how long, in milliseconds of `performance.now()`. */
  #setAt = 0
  #wait = 0
  /** Milliseconds for which this process did not run. */
  #lost = 0
  #cancel: () => void = () => undefined

  /** @param deadline milliseconds */
  constructor(deadline: number) {
    this.#deadline = deadline
    this.#every = Math.max(1, deadline / LOOKS)
  }

  add(call: Call): void {
    const now = performance.now()
    call.since = now - this.#lost
    call.lost = this.#lost
    call.isPending = true
    call.before = this.#newest
    if (this.#newest === undefined) this.#oldest = call
    else this.#newest.after = call
    this.#newest = call
    if (!this.#isTimed) this.#start(now)
  }

  /** Removes a call that was answered. Returns false when it has expired before. */
  remove(call: Call): boolean {
    if (!call.isPending) return false
    const { before, after } = call
    if (before === undefined) this.#oldest = after
    else before.after = after
    if (after === undefined) this.#newest = before
    else after.before = before
    call.before = undefined
    call.after = undefined
    call.isPending = false
    return true
  }

  /** Expires the pending calls for which `isLost` returns true, whatever their age. */
  expireWhere(isLost: (call: Call) => boolean): void {
    const lost: Call[] = []
    for (let call = this.#oldest; call !== undefined; call = call.after) if (isLost(call)) lost.push(call)
    for (const call of lost) this.#expire(call)
  }

  /** Expires all pending calls and stops. */
  close(): void {
    for (let call = this.#oldest; call !== undefined; call = this.#oldest) this.#expire(call)
    this.#cancel()
    this.#isTimed = false
  }

  #expire(call: Call): void {
    if (this.remove(call)) call.expire(this.#lost - call.lost >= this.#deadline)
  }

  /** Sets the timer to the end of the oldest call, or to the next look at the clock before. */
  #start(now: number): void {
    this.#isTimed = true
    const left = this.#oldest!.since + this.#deadline - (now - this.#lost)
    this.#setAt = now
    this.#wait = Math.max(1, Math.ceil(Math.min(this.#every, left)))
    this.#cancel = background(this.#wait, this.#look)
  }

  readonly #look = (): void => {
    const now = performance.now()
    const late = now - this.#setAt - this.#wait
    // Timers have steps of a millisecond, and turns of some milliseconds are usual.
    if (late > Math.max(2, this.#every)) this.#lose(late, now)
    const last = now - this.#lost - this.#deadline
    for (let call = this.#oldest; call !== undefined && call.since <= last; call = this.#oldest) this.#expire(call)
    this.#isTimed = false
    if (this.#oldest !== undefined) this.#start(now)
  }

  /** This process did not run for so many milliseconds. Calls that came within them have lost only a part of them. */
  #lose(ms: number, now: number): void {
    this.#lost += ms
    for (let call = this.#newest; call !== undefined && call.since > now - this.#lost; call = call.before) {
      call.since = now - this.#lost
      call.lost = this.#lost
    }
  }
}
