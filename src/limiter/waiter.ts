import type { Decision } from './decision.ts'
import { shown, SluiceError } from '../util/errors.ts'
import { sleep } from '../util/timer.ts'
import type { Charge } from '../stores/store.ts'
import { refuse } from '../util/validate.ts'

export interface WaitOptions {
  /** The cost against every limit. Default: the limiter's `cost`, else 1. */
  readonly cost?: number
  /** Rejects at once if the wait would take longer than this, in milliseconds. Default: no maximum. */
  readonly maxWait?: number
  /** Ends the wait when aborted. The promise is rejected with the signal's reason. */
  readonly signal?: AbortSignal
}

/** Timers and clocks differ by less than this, in milliseconds. */
const TOLERANCE = 2

/** One call of `wait`: its promise, and everything that can end it early. */
export class Waiter {
  readonly charges: readonly Charge[]
  readonly promise: Promise<Decision>
  /** The decision that admitted it, while its delay passes. */
  held: Decision | undefined
  /** Resolves once it is known whether the wait can succeed in time. */
  readonly judged: Promise<void>
  #judge!: () => void
  readonly #maxWait: number
  /** By `performance.now()`. */
  readonly #since: number
  readonly #signal: AbortSignal | undefined
  readonly #abort: () => void
  readonly #cancelDeadline: () => void
  #cancelHold: () => void = () => undefined
  #settle!: { resolve(decision: Decision): void; reject(reason: unknown): void }

  /** Calls `leave` with the reason when it gives up. Throws the signal's reason if the signal has aborted already. */
  constructor(charges: readonly Charge[], options: WaitOptions, leave: (waiter: Waiter, reason: unknown) => void) {
    const { maxWait = Infinity, signal } = options
    if (typeof maxWait !== 'number' || !(maxWait >= 0)) refuse('maxWait', 'milliseconds from 0', maxWait)
    if (signal !== undefined && typeof signal?.throwIfAborted !== 'function') refuse('signal', 'an AbortSignal', signal)
    signal?.throwIfAborted()
    this.charges = charges
    this.promise = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
    })
    this.judged = new Promise((resolve) => {
      this.#judge = resolve
    })
    this.#maxWait = maxWait
    this.#since = performance.now()
    this.#signal = signal
    this.#abort = () => leave(this, signal!.reason)
    signal?.addEventListener('abort', this.#abort)
    const giveUp = (): void =>
      leave(this, new SluiceError('WAIT_TOO_LONG', `Not admitted within maxWait, ${maxWait} ms`))
    this.#cancelDeadline = maxWait === Infinity ? () => undefined : sleep(maxWait + TOLERANCE, giveUp)
  }

  /** Notes that the wait can succeed in time. */
  remain(): void {
    this.#judge()
  }

  /** Returns the error of a wait that takes `ms` more milliseconds, with `cause`, or `undefined` if it can wait that long. */
  refusal(ms: number, cause: Decision): SluiceError | undefined {
    if (ms === Infinity) {
      const { cost, limit } = cause.binding!
      const never = `A cost of ${cost} is more than limit ${shown(limit.name)} ever admits at once`
      return new SluiceError('NEVER_ADMITTED', never, { cause })
    }
    const wait = performance.now() - this.#since + ms
    if (wait < this.#maxWait + TOLERANCE) return undefined
    const long = `The wait would take ${Math.round(wait)} ms, longer than maxWait, ${this.#maxWait} ms`
    return new SluiceError('WAIT_TOO_LONG', long, { cause })
  }

  /** Resolves once the decision's delay has passed. */
  hold(decision: Decision): void {
    this.held = decision
    if (decision.delay === 0) return this.resolve(decision)
    this.#cancelHold = sleep(decision.delay, () => this.resolve(decision))
  }

  resolve(decision: Decision): void {
    this.#release()
    this.#settle.resolve(decision)
  }

  reject(reason: unknown): void {
    this.#release()
    this.#settle.reject(reason)
  }

  #release(): void {
    this.#judge()
    this.#cancelHold()
    this.#cancelDeadline()
    this.#signal?.removeEventListener('abort', this.#abort)
  }
}
