import type { Duration } from '../engine/limit.ts'
import { shared } from '../util/copies.ts'
import { SluiceError } from '../util/errors.ts'
import type { Decision } from './decision.ts'

const waiting = shared('waiting requests', () => new Map<string, number>())

/** Returns how many requests wait now, by the name of their limiter: in `wait`, and for the delay of a leaky bucket. */
export function waitingRequests(): ReadonlyMap<string, number> {
  return waiting
}

/** Counts a waiting request. Returns a function to call once when it no longer waits. */
export function countWaiting(limiter: string): () => void {
  waiting.set(limiter, (waiting.get(limiter) ?? 0) + 1)
  return function release() {
    const left = waiting.get(limiter)! - 1
    if (left === 0) waiting.delete(limiter)
    else waiting.set(limiter, left)
  }
}

/** Options of `wait`. */
export interface WaitOptions {
  /** The cost against every limit. Default: the limiter's `cost`, else 1. */
  readonly cost?: number
  /** The longest wait: milliseconds from 0, or a text such as `'5s'`. `wait` rejects at once if it would take longer. Default: no limit. */
  readonly maxWait?: Duration
  /**
   * The most requests that may wait on the store: a whole number from 1. If there are more, the newest wait of the key with the most waits is rejected with
   * `WAIT_QUEUE_FULL`. Default 10,000.
   */
  readonly maxQueue?: number
  /**
   * The most requests that may wait with one key of the first limiter: a whole number from 1. A further wait is rejected with `WAIT_QUEUE_FULL`. Default:
   * as `maxQueue`.
   */
  readonly maxPerKey?: number
  /** Gives up the place when aborted. The promise is rejected with the signal's reason. */
  readonly signal?: AbortSignal
}

/** Returns the denial that is the cause of a refused wait; `undefined` for any other error. */
export function denialOf(error: unknown): Decision | undefined {
  const isRefusal = error instanceof SluiceError && (error.code === 'WAIT_TOO_LONG' || error.code === 'NEVER_ADMITTED')
  return isRefusal ? (error.cause as Decision | undefined) : undefined
}
