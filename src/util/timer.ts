/** The longest that a timer of the platform can be set to; a longer one would fire at once. */
const LONGEST = 2 ** 31 - 1

/**
 * Calls `wake` once `ms` have passed, however many, unless it is cancelled before.
 * @returns what cancels it
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
