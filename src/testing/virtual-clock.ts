import type { Clock } from '../util/clock.ts'

/** A clock that moves only when a test moves it. */
export interface VirtualClock extends Clock {
  /** Moves the clock forward by milliseconds, or back if negative. Waits and delays that end in this time resolve. */
  advance(ms: number): void
  /** Sets the clock to a time in milliseconds since 1970. */
  set(ms: number): void
  after(ms: number, wake: () => void): () => void
}

interface Timer {
  readonly at: number
  readonly wake: () => void
}

/**
 * Creates a clock for tests. Time passes only when the test advances it, and `wait()` and the delays of `leakyBucket` follow it.
 * @example
 * const clock = virtualClock()
 * const limiter = createLimiter({ keyer, limits: perSecond(1), store: memoryStore({ clock }) })
 * limiter.consume(user)
 * const waiting = limiter.wait(user)
 * clock.advance(1000)
 * await waiting
 */
export function virtualClock(start = 1_767_225_600_000): VirtualClock {
  let now = start
  const timers = new Set<Timer>()

  function earliest(until: number): Timer | undefined {
    let first: Timer | undefined
    for (const timer of timers) if (timer.at <= until && (first === undefined || timer.at < first.at)) first = timer
    return first
  }

  function moveTo(ms: number): void {
    for (let timer = earliest(ms); timer !== undefined; timer = earliest(ms)) {
      timers.delete(timer)
      now = Math.max(now, timer.at)
      timer.wake()
    }
    now = ms
  }

  return {
    now: () => now,
    // Whole microseconds, so that a long test does not drift.
    advance: (ms) => moveTo(Math.round((now + ms) * 1000) / 1000),
    set: moveTo,
    after(ms, wake) {
      const timer = { at: now + ms, wake }
      timers.add(timer)
      return () => void timers.delete(timer)
    },
  }
}
