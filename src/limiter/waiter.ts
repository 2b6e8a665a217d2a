import type { Decision } from './decision.ts'
import { shown, SluiceError } from '../util/errors.ts'
import { sleep } from '../util/timer.ts'
import type { Charge } from '../stores/store.ts'
import { refuse } from '../util/validate.ts'

export interface WaitOptions {
  /** What it costs against every limit. Default: the limiter's `cost`, else 1. */
  readonly cost?: number
  /** Give up, and at once, when it would take longer than so many milliseconds. Default: as long as it takes. */
  readonly maxWait?: number
  /** Gives up the place when aborted; the promise is rejected with the signal's reason. */
  readonly signal?: AbortSignal
}

/** Timers and clocks differ by less than this, in milliseconds. */
const TOLERANCE = 2

/** One who waits to be admitted: a promise, and what may end it early. */
export class Waiter {
  readonly charges: readonly Charge[]
  readonly promise: Promise<Decision>
  /** Admitted, and waiting for its slot. */
  held: Decision | undefined
  /** Kept once it is known whether the wait is in vain. */
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

  /** `leave` is called when it gives up, with the reason. Throws the signal's reason when that is aborted already. */
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
    const late = (): void =>
      leave(this, new SluiceError('WAIT_TOO_LONG', `This was not admitted within its maxWait of ${maxWait} ms`))
    this.#cancelDeadline = maxWait === Infinity ? () => undefined : sleep(maxWait + TOLERANCE, late)
  }

  /** It may stay. */
  remain(): void {
    this.#judge()
  }

  /** Why it cannot wait so many milliseconds more, as `cause` says; `undefined` when it can. */
  refusal(ms: number, cause: Decision): SluiceError | undefined {
    if (ms === Infinity) {
      const { cost, limit } = cause.binding!
      const never = `A cost of ${cost} is more than limit ${shown(limit.name)} ever admits at once`
      return new SluiceError('NEVER_ADMITTED', never, { cause })
    }
    const wait = performance.now() - this.#since + ms
    if (wait < this.#maxWait + TOLERANCE) return undefined
    const long = `This would take ${Math.round(wait)} ms, longer than its maxWait of ${this.#maxWait} ms`
    return new SluiceError('WAIT_TOO_LONG', long, { cause })
  }

  /** Lets it go on when its delay has passed. */
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
