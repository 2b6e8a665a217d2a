import { background } from '../util/clock.ts'

/** Repeated looks at a source. */
export interface Looks {
  /** Looks soon, because something may have changed. During a look, looks once more after it. */
  notice(): void
  readonly stop: () => void
}

/**
 * Looks at a source repeatedly, one look at a time. The timers do not keep the process running.
 * @param look returns the milliseconds until the next look
 * @param soon returns the milliseconds between a notice and the next look, for a source that notices changes
 */
export function repeatedLooks(look: () => Promise<number>, soon: () => number = () => 0): Looks {
  let cancel = (): void => undefined
  let isLooking = false
  let isNoticed = false
  let isStopped = false
  async function run(): Promise<void> {
    isLooking = true
    isNoticed = false
    const wait = await look()
    isLooking = false
    lookIn(isNoticed ? Math.min(soon(), wait) : wait)
  }
  function lookIn(ms: number): void {
    cancel()
    if (!isStopped) cancel = background(ms, () => void run())
  }
  void run()
  return {
    notice() {
      // Further notices do not delay the look.
      if (isNoticed) return
      isNoticed = true
      if (!isLooking) lookIn(soon())
    },
    stop() {
      isStopped = true
      cancel()
    },
  }
}
