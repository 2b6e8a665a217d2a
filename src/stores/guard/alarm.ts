import { background } from '../../util/clock.ts'
import { isWorker } from '../../util/worker.ts'

/** A timer in the background that is set again and again. In a Worker, it would end with its request, so that later requests call `look`. */
export class Alarm {
  #cancel: (() => void) | undefined
  #due: { readonly at: number; readonly wake: () => void } | undefined

  get isSet(): boolean {
    return this.#cancel !== undefined || this.#due !== undefined
  }

  /** Calls `wake` once so many milliseconds have passed, in place of what was set before. */
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

  /** Calls `wake` if it is due and no timer does so. */
  look(): void {
    const due = this.#due
    if (due === undefined || performance.now() < due.at) return
    this.#due = undefined
    due.wake()
  }
}
