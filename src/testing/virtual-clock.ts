import type { Clock } from '../util/clock.ts'

/** A clock that stands still until it is told to go on. */
export interface VirtualClock extends Clock {
  /** Goes on by so many milliseconds; back, when negative. */
  advance(ms: number): void
  /** Goes to an epoch millisecond. */
  set(ms: number): void
}

/**
 * A clock for tests: time passes when you say so.
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
