import type { Duration } from '../limits/limit.ts'
import type { Charge, Store } from '../stores/store.ts'
import { type Clock, microseconds } from '../util/clock.ts'
import { shown, SluiceError } from '../util/errors.ts'
import type { MaybePromise } from '../util/maybe-promise.ts'
import { onAbort } from '../util/shared-listener.ts'
import { sleep } from '../util/timer.ts'
import { milliseconds, refuse } from '../util/validate.ts'
import type { Decision } from './decision.ts'

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
export class Waiter {
  /** Decides about the charges. */
  readonly store: Store
  readonly charges: readonly Charge[]
  readonly promise: Promise<Decision>
  /** True once it asks the store. */
  isServed = false
  /** Set when it is admitted and waits for the end of its delay. */
  held: Decision | undefined
  readonly refund: (decision: Decision) => MaybePromise<void>
  readonly #maxWait: number
  readonly #clock: Clock | undefined
  readonly #since: number
  readonly #ignoreAbort: () => void
  readonly #cancelDeadline: () => void
  #cancelHold: () => void = () => undefined
  #wake: () => void = () => undefined
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
  ) {
    const { signal } = options
    const maxWait = longestWait(options)
    if (signal !== undefined && typeof signal?.throwIfAborted !== 'function') refuse('signal', 'an AbortSignal', signal)
    signal?.throwIfAborted()
    this.store = store
    this.charges = charges
    this.refund = refund
    this.promise = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
    })
    // For a waiter that did not come into the queue. Callers of `wait` get the rejection of their own promise.
    this.promise.catch(() => undefined)
    this.#maxWait = maxWait
    this.#clock = store.clock.after === undefined ? undefined : store.clock
    this.#since = this.#now()
    const late = (): void =>
      giveUp(this, new SluiceError('WAIT_TOO_LONG', `Not admitted within maxWait, ${maxWait} ms`))
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
    return new Promise((resolve) => {
      const cancel = sleep(ms, resolve, this.#clock)
      this.#wake = () => {
        cancel()
        resolve()
      }
    })
  }

  wake(): void {
    this.#wake()
  }

  /** Resolves once the decision's delay has passed. */
  hold(decision: Decision): void {
    this.held = decision
    if (decision.delay === 0) return this.#resolve(decision)
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
  return isRefusal ? (error.cause as Decision) : undefined
}
