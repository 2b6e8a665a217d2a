import { background } from '../../util/timer.ts'
import type { Charge } from '../store.ts'

/** A call to a store that has not been answered. It is a node of a list, so that an answer removes it at once. */
export interface Call {
  /** Called when the deadline has passed. */
  expire(): void
  /** What it is about. */
  readonly charges: readonly Charge[]
  /** Milliseconds of `performance.now()` at which it was sent. Written by `Deadlines`, as are the others. */
  since: number
  isPending: boolean
  before: Call | undefined
  after: Call | undefined
}

interface Runtime {
  setImmediate?(work: () => void): unknown
}

/**
 * Expires calls that a store has not answered in time. All calls have the same time, so the oldest one expires first, and one
 * timer serves all of them. It runs only while calls are pending.
 */
export class Deadlines {
  readonly #deadline: number
  #oldest: Call | undefined
  #newest: Call | undefined
  #isTimed = false
  #cancel: () => void = () => undefined

  /** @param deadline milliseconds */
  constructor(deadline: number) {
    this.#deadline = deadline
  }

  add(call: Call): void {
    call.since = performance.now()
    call.isPending = true
    call.before = this.#newest
    if (this.#newest === undefined) this.#oldest = call
    else this.#newest.after = call
    this.#newest = call
    if (!this.#isTimed) this.#start(this.#deadline)
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
    for (const call of lost) if (this.remove(call)) call.expire()
  }

  /** Expires all pending calls and stops. */
  close(): void {
    for (let call = this.#oldest; call !== undefined; call = this.#oldest) {
      this.remove(call)
      call.expire()
    }
    this.#cancel()
    this.#isTimed = false
  }

  #start(ms: number): void {
    this.#isTimed = true
    this.#cancel = background(ms, this.#ring)
  }

  /** When this process was busy, answers may have arrived and wait to be read. They are read before the calls are expired. */
  readonly #ring = (): void => {
    const { setImmediate } = globalThis as Runtime
    if (setImmediate === undefined) this.#sweep()
    else setImmediate(this.#sweep)
  }

  readonly #sweep = (): void => {
    const last = performance.now() - this.#deadline
    for (let call = this.#oldest; call !== undefined && call.since <= last; call = this.#oldest) {
      this.remove(call)
      call.expire()
    }
    this.#isTimed = false
    if (this.#oldest !== undefined) this.#start(Math.max(1, Math.ceil(this.#oldest.since - last)))
  }
}
