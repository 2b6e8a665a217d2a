/** The longest delay of a timer, in milliseconds. A timer with a longer one fires at once. */
const LONGEST = 2 ** 31 - 1

/**
 * Calls `wake` after `ms` milliseconds. Longer delays than a timer allows are fine.
 * @returns a function that cancels the call
 */
export function sleep(ms: number, wake: () => void): () => void {
  let timer = setTimeout(tick, Math.min(ms, LONGEST))
  let left = ms - LONGEST
  function tick(): void {
    if (left <= 0) return wake()
    timer = setTimeout(tick, Math.min(left, LONGEST))
    left -= LONGEST
  }
  return () => clearTimeout(timer)
}
