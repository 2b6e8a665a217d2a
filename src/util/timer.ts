import type { Clock } from './clock.ts'
import { shown, SluiceError } from './errors.ts'
import { observer } from './warn.ts'

/** The longest time a platform timer can be set to. A longer one would fire at once. */
const LONGEST = 2 ** 31 - 1

/**
 * Calls `wake` once `ms` milliseconds have passed, however many. A clock that has its own timers measures them. Throws `INVALID_CLOCK` if
 * such a clock returns no function that cancels the timer.
 * @returns a function that cancels the timer, and never throws
 */
export function sleep(ms: number, wake: () => void, clock?: Clock): () => void {
  if (clock?.after !== undefined) return cancelOf(clock.after(ms, wake))
  let timer = setTimeout(tick, Math.min(ms, LONGEST))
  let left = ms - LONGEST
  function tick(): void {
    if (left <= 0) return wake()
    timer = setTimeout(tick, Math.min(left, LONGEST))
    left -= LONGEST
  }
  return () => clearTimeout(timer)
}

function cancelOf(given: unknown): () => void {
  if (typeof given === 'function') return observer(given as () => unknown, 'A timer of `clock.after` failed.')
  throw new SluiceError(
    'INVALID_CLOCK',
    `clock.after(): expected a function that cancels the timer, got ${shown(given)}`,
  )
}

/**
 * Calls `wake` once `ms` milliseconds have passed, unless the process ends before: the timer does not keep it alive.
 * @returns a function that cancels the timer
 */
export function background(ms: number, wake: () => void): () => void {
  const timer: unknown = setTimeout(wake, ms)
  ;(timer as { unref?(): void }).unref?.()
  return () => clearTimeout(timer as number)
}
