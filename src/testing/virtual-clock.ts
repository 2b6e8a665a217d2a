import type { Clock } from '../util/clock.ts'

/** A clock that only moves when a test moves it. */
export interface VirtualClock extends Clock {
  /** Moves by this many milliseconds; back, if negative. */
  advance(ms: number): void
  /** Moves to an epoch millisecond. */
  set(ms: number): void
}

/**
 * Makes a clock for tests. Time passes only through `advance` and `set`.
 * @example
 * const clock = virtualClock()
 * const limiter = createLimiter({ keyer, limits: perSecond(1), store: memoryStore({ clock }) })
 * limiter.consume(user)
 * clock.advance(1000)
 */
export function virtualClock(start = 1_767_225_600_000): VirtualClock {
  let now = start
  return {
    now: () => now,
    advance(ms) {
      // Whole microseconds, so that a long test does not drift.
      now = Math.round((now + ms) * 1000) / 1000
    },
    set(ms) {
      now = ms
    },
  }
}
