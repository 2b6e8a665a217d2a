/** The most milliseconds in the budget, and the milliseconds that come back in each millisecond. */
const MOST = 1000
const REFILL = 0.1

/**
 * Bounds the time for which waits may block the event loop: a second. 100 milliseconds of it come back in each second. So waits take at most two
 * seconds of any ten.
 */
export class WaitBudget {
  readonly #now: () => number
  #rest = MOST
  #at: number

  /** @param now a clock in milliseconds that never steps back. Default: `performance.now` */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now
    this.#at = now()
  }

  /** The milliseconds that are left now, 0 or more. */
  get left(): number {
    const now = this.#now()
    this.#rest = Math.min(MOST, this.#rest + (now - this.#at) * REFILL)
    this.#at = now
    return this.#rest
  }

  /** Takes the milliseconds of a wait from the budget. A negative number gives time back. */
  spend(ms: number): void {
    this.#rest = Math.min(MOST, Math.max(0, this.left - ms))
  }
}
