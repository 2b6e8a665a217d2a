import { SluiceError } from '../../util/errors.ts'
import type { Degraded, Operation, Reply } from '../store.ts'
import type { Calls, Pending } from './calls.ts'
import { type Part, shownTime } from './health.ts'

/** What has decided instead of the store. */
type By = Degraded | 'remembered'

/** Receives what became of a call: without an error, an answer. */
export type Ended = (error: unknown, call: Call, by?: By) => unknown

/** A call to the store. It ends by an answer in time, by an error, or at the deadline. Its answer is also one of the parts, or their failure. */
export class Call implements Pending, Reply {
  readonly sent: number = performance.now()
  readonly deadline: number
  turn = 0
  lost = 0
  cancel?: () => void
  isPending = true
  /** It was not answered in time. */
  isLate = false
  /** Nobody waits for it any more. */
  isGivenUp = false
  /** Ends a decision in the store. */
  stop: (() => void) | undefined
  readonly #calls: Calls<Call>
  readonly #kind: Operation['kind']
  readonly #parts: readonly Part[]
  readonly #ended: Ended
  readonly #late: Ended | undefined
  /** What it teaches is unsure: it may have to make a connection, or says nothing about a single part. */
  readonly #isUnsure: boolean
  /** Its answer comes after its refund. */
  #isRefunded = false
  #isOver = false
  #resolveOver: () => void = () => undefined

  /**
   * @param parts the parts that decide. None: its answer says nothing about any part
   * @param most milliseconds that a call without parts may take
   * @param ended called once: for an answer or an error in time, or at the deadline
   * @param late called for an answer or an error after the deadline. A decision with it is not given up then
   */
  constructor(
    calls: Calls<Call>,
    kind: Operation['kind'],
    parts: readonly Part[],
    most: number,
    ended: Ended,
    late: Ended | undefined,
  ) {
    let deadline = parts.length === 0 ? most : 0
    for (const part of parts) deadline = Math.max(deadline, part.begin(this.sent))
    this.deadline = deadline
    this.#calls = calls
    this.#kind = kind
    this.#parts = parts
    this.#ended = ended
    this.#late = late
    this.#isUnsure = parts.length > 1 || parts.some((part) => part.isConnecting)
  }

  /** Resolves when the store has answered, also after the deadline. */
  over(): Promise<void> {
    return new Promise((resolve) => (this.#resolveOver = resolve))
  }

  waitsFor(part: Part): boolean {
    return this.#parts.includes(part)
  }

  readonly giveUp = (): void => {
    if (!this.isPending || this.isGivenUp) return
    this.isGivenUp = true
    this.stop?.()
  }

  expire(wasBusy: boolean): void {
    this.isPending = false
    this.isLate = true
    for (const part of this.#parts) part.failed(this, undefined, wasBusy)
    if (!this.isGivenUp && this.stop !== undefined && this.#late === undefined) {
      this.#isRefunded = this.#kind === 'consume'
      this.stop()
    }
    this.#ended(new SluiceError('STORE_FAILED', `no answer within ${shownTime(this.deadline)}`), this)
  }

  answered(by?: By): void {
    const now = performance.now()
    const took = now - this.sent
    const parts = this.#parts
    if (!this.isPending) {
      // An answer after a refund has taken two trips.
      const trip = this.#isRefunded ? Math.max(this.deadline, took / 2) : took
      if (!this.#isOver && parts.length === 1 && !this.isGivenUp) parts[0]!.learn(trip, now, this.#wasUnsure(took, now))
      return this.#endLate(undefined)
    }
    this.#end()
    // What a wrapper of the store remembers says nothing about the health of the store.
    if (by !== 'remembered' && !this.isGivenUp) {
      const wasUnsure = this.#wasUnsure(took, now)
      for (const part of parts) part.answered(took, now, wasUnsure)
    }
    this.#ended(undefined, this, by)
  }

  failed(error: unknown): void {
    error ??= new Error('no reason')
    if (!this.isPending) return this.#endLate(error)
    this.#end()
    if (!this.isGivenUp) for (const part of this.#parts) part.failed(this, error, false)
    this.#ended(error, this)
  }

  #end(): void {
    this.isPending = false
    this.#isOver = true
    this.#calls.remove(this)
    this.#resolveOver()
  }

  #endLate(error: unknown): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#late?.(error, this)
    this.#resolveOver()
  }

  /** So it is if a good part of the time is one for which this process did not run. */
  #wasUnsure(took: number, now: number): boolean {
    return this.#isUnsure || this.#calls.lostSince(this, now) > took / 4
  }
}
