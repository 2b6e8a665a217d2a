import type { Duration } from '../engine/limit.ts'
import type { Clock } from '../util/clock.ts'
import { parseDuration } from '../util/duration.ts'
import { refuse } from '../util/validate.ts'

/** A clock that moves only when a test moves it. */
export interface VirtualClock extends Clock {
  /**
   * Moves the clock forward by milliseconds or by a duration such as `'15m'`, or back by negative milliseconds. Waits and delays that end in
   * this time resolve.
   * @throws `INVALID_OPTION` for any other value. The clock then does not move.
   */
  advance(by: Duration): void
  /**
   * Sets the clock to a time in milliseconds since 1970.
   * @throws `INVALID_OPTION` for any other value. The clock then does not move.
   */
  set(ms: number): void
  after(ms: number, wake: () => void): () => void
}

interface Timer {
  readonly at: number
  readonly wake: () => void
}

/**
 * Creates a clock for tests. It only moves when the test moves it. `wait()` and the delays of `leakyBucket` follow this clock.
 * It starts at `start`, in milliseconds since 1970. The default is 2026-01-01T00:00:00Z.
 * @throws `INVALID_OPTION` if `start` is not a number.
 * @example
 * const clock = virtualClock()
 * const limiter = createLimiter({ keyer, limits: perSecond(1), store: memoryStore({ clock }) })
 * limiter.consume(user)
 * const waiting = limiter.wait(user)
 * clock.advance('1s')
 * await waiting
 */
export function virtualClock(start = 1_767_225_600_000): VirtualClock {
  let now = time('start', start)
  const timers = new Set<Timer>()

  function earliest(until: number): Timer | undefined {
    let first: Timer | undefined
    for (const timer of timers) if (timer.at <= until && (first === undefined || timer.at < first.at)) first = timer
    return first
  }

  function moveTo(ms: number): void {
    const isForward = ms >= now
    for (let timer = earliest(ms); timer !== undefined; timer = earliest(ms)) {
      timers.delete(timer)
      now = Math.max(now, timer.at)
      timer.wake()
    }
    // A timer may have moved the clock further.
    now = isForward ? Math.max(now, ms) : ms
  }

  return {
    now: () => now,
    // The time is rounded to whole microseconds, so that it stays exact in a long test.
    advance: (by) => moveTo(Math.round((now + span(by)) * 1000) / 1000),
    set: (ms) => moveTo(time('set', ms)),
    after(ms, wake) {
      const timer = { at: now + ms, wake }
      timers.add(timer)
      return () => void timers.delete(timer)
    },
  }
}

/** Checks a time at once. Otherwise the first decision would fail, far from the mistake. */
function time(option: string, given: unknown): number {
  return Number.isFinite(given) ? (given as number) : refuse(option, 'milliseconds since 1970', given)
}

function span(given: unknown): number {
  const ms = typeof given === 'string' ? parseDuration(given) : given
  return Number.isFinite(ms) ? (ms as number) : refuse('advance', "milliseconds, or a string such as '15m'", given)
}
