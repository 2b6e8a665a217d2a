import type { Clock } from './clock.ts'

/** The longest time a platform timer can be set to. A longer one would fire at once. */
const LONGEST = 2 ** 31 - 1

/**
 * Calls `wake` once `ms` milliseconds have passed, however many. A clock that has its own timers measures them.
 * @returns a function that cancels the timer
 */
export function sleep(ms: number, wake: () => void, clock?: Clock): () => void {
  if (clock?.after !== undefined) return clock.after(ms, wake)
  let timer = setTimeout(tick, Math.min(ms, LONGEST))
  let left = ms - LONGEST
  function tick(): void {
    if (left <= 0) return wake()
    timer = setTimeout(tick, Math.min(left, LONGEST))
    left -= LONGEST
  }
  return () => clearTimeout(timer)
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
