import { background } from '../../util/clock.ts'
import { isWorker } from '../../util/worker.ts'

/** Milliseconds between two looks at the calls, at most. A shorter deadline is divided by eight. */
const LOOK = 5
const LOOKS = 8
/** Looks during which an answer can be read, at least, before a call expires. */
const TURNS = 6

/** A call to a store that has not been answered. */
export interface Pending {
  /** When it was sent, in milliseconds of `performance.now()`. */
  readonly sent: number
  /** Milliseconds. */
  readonly deadline: number
  /** The looks before it was added. Written by `Calls`. */
  turn: number
  /** The milliseconds before for which this process did not run. Written by `Calls`. */
  lost: number
  /** Ends a timer of its own. Written by `Calls` in a Worker. */
  cancel?: () => void
  /** Called when the deadline has passed. `wasBusy`: for half of that time this process did not run. */
  expire(wasBusy: boolean): void
}

/** After the answers that wait to be read: they come between the timers of a turn and this. */
const soon: (call: () => void) => unknown =
  (globalThis as Partial<Pick<typeof globalThis, 'setImmediate'>>).setImmediate ?? ((call) => background(0, call))

/**
 * Expires calls that a store has not answered in time. One timer looks at all of them, and runs only while calls are pending: to add a call
 * and to remove it costs about 0.1 µs. A timer for each call costs 0.15 µs, and does not see that this process was busy.
 *
 * In a Worker, a timer ends with its request, so that each call has one of its own.
 *
 * A call of a busy process expires after at least six looks: between them the answers that came are read. So does any call after the answers that
 * wait when its time is over.
 */
export class Calls<Each extends Pending = Pending> {
  readonly #pending = new Set<Each>()
  readonly #every: number
  #turn = 0
  #lookedAt = 0
  /** Milliseconds for which this process did not run while calls were pending. */
  #lost = 0
  #isTimed = false
  #cancel: () => void = () => undefined

  /** @param least the shortest deadline in milliseconds */
  constructor(least: number) {
    this.#every = Math.min(LOOK, Math.max(1, Math.floor(least / LOOKS)))
  }

  add(call: Each): void {
    call.turn = this.#turn
    call.lost = this.#lost
    // Nothing is kept of a call whose request ends.
    if (isWorker) return void (call.cancel = background(call.deadline, () => call.expire(false)))
    this.#pending.add(call)
    if (!this.#isTimed) this.#start(performance.now())
  }

  /** Removes a call that was answered. Returns false if it is not pending. */
  remove(call: Each): boolean {
    call.cancel?.()
    return this.#pending.delete(call)
  }

  /** Milliseconds for which this process did not run since a call was added, so that its answer may have waited to be read. */
  lostSince(call: Each, now: number): number {
    return this.#lost - call.lost + (this.#isTimed ? this.#late(now) : 0)
  }

  /** Expires the pending calls for which `isLost` returns true, whatever their age. */
  expireWhere(isLost: (call: Each) => boolean): void {
    for (const call of this.#pending) if (isLost(call)) this.#expire(call, false)
  }

  /** Expires all pending calls and stops. */
  close(): void {
    this.expireWhere(() => true)
    this.#cancel()
    this.#isTimed = false
  }

  #expire(call: Each, wasBusy: boolean): void {
    if (this.#pending.delete(call)) call.expire(wasBusy)
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
    this.#isTimed = false
    if (this.#pending.size === 0) return
    this.#start(now)
    const due = [...this.#pending].filter(
      ({ sent, deadline, turn }) => now - sent >= deadline && this.#turn - turn >= TURNS,
    )
    if (due.length === 0) return
    soon(() => {
      for (const call of due) this.#expire(call, this.#lost - call.lost >= call.deadline / 2)
    })
  }

  /** Timers have steps of a millisecond, and turns of some milliseconds are usual. */
  #late(now: number): number {
    const late = now - this.#lookedAt - this.#every
    return late > Math.max(2, this.#every) ? late : 0
  }
}
