import { background } from '../../util/clock.ts'
import { isWorker } from '../../util/worker.ts'

/** A timer in the background that can be set again. In a Worker, a timer would end with its request, so later requests call `look` instead. */
export class Alarm {
  #cancel: (() => void) | undefined
  #due: { readonly at: number; readonly wake: () => void } | undefined

  get isSet(): boolean {
    return this.#cancel !== undefined || this.#due !== undefined
  }

  /** Calls `wake` after `ms` milliseconds. Replaces an earlier alarm. */
  set(ms: number, wake: () => void): void {
    this.cancel()
    if (isWorker) this.#due = { at: performance.now() + ms, wake }
    else
      this.#cancel = background(ms, () => {
        this.#cancel = undefined
        wake()
      })
  }

  cancel(): void {
    this.#cancel?.()
    this.#cancel = undefined
    this.#due = undefined
  }

  /** Calls `wake` if it is due and there is no timer for it. */
  look(): void {
    const due = this.#due
    if (due === undefined || performance.now() < due.at) return
    this.#due = undefined
    due.wake()
  }
}
