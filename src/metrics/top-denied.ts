import { type DecisionEvent, decisions } from '../limiter/decision.ts'
import type { Duration } from '../limits/limit.ts'
import { type Clock, clockGiven, steadyClock } from '../util/clock.ts'
import { knownOptions, milliseconds, refuse, wholeNumber } from '../util/validate.ts'
import { observer } from '../util/warn.ts'
import { type Estimate, RecentSketch } from './recent-sketch.ts'

/** Options of `topDenied`. */
export interface TopDeniedOptions {
  /** The most keys in the list, from 1 to 10,000. Default 100. Memory is about 10 kB for each. */
  readonly size?: number
  /** The time that is counted, in milliseconds or as a string such as `'10m'`. Default `'5m'`. */
  readonly window?: Duration
  /** Default: a clock that never steps back. */
  readonly clock?: Clock
}

/** A key that was denied, and by which limit. */
export interface DeniedKey {
  /** As in a decision: at most 64 characters, or a hash. `''` for requests without a key. */
  readonly key: string
  /** The name of the limiter. */
  readonly limiter: string
  /** The name of the limit. */
  readonly limit: string
  /** The key was denied at most this many times. */
  readonly count: number
  /** The key was denied at least `count - error` times. */
  readonly error: number
}

/** The keys that were denied most. */
export interface TopDeniedList {
  /** All denials of the window, of all keys. */
  readonly denied: number
  /** The largest counts first. */
  readonly keys: readonly DeniedKey[]
  /** A key that is not in the list was denied at most this many times. */
  readonly unlisted: number
}

/** What `topDenied` returns. */
export interface TopDenied {
  /** Returns the keys that were denied most. It takes a few milliseconds for a `size` of 100. */
  list(): TopDeniedList
  /** Stops counting. The list remains, until the end of its window. */
  close(): void
}

/** The counters for each key of the list. More of them make the errors smaller. */
const COUNTERS = 8
const LARGEST = 10_000

/**
 * Counts which keys are denied most, by all limiters of the process, in bounded memory. It counts from the call until `close`. A
 * denial counts for the limit that decides it (`decision.binding`). Denials because a store does not answer are not counted.
 *
 * The window moves in fifths: a list contains all denials of the last `window`, and no denial that is older than 1.2 windows. Errors are at
 * most an eighth of the denials in that time, divided by `size` (Space-Saving, Metwally et al. 2005), and 0 while no more than
 * `8 * size` keys are denied in a fifth of the window.
 *
 * Throws `INVALID_OPTION` and `UNKNOWN_OPTION`.
 * @example
 * const denied = topDenied({ size: 10 })
 * setInterval(() => console.log(denied.list().keys), 60_000)
 */
export function topDenied(options: TopDeniedOptions = {}): TopDenied {
  knownOptions('topDenied', options, ['size', 'window', 'clock'])
  const { size = 100, window = '5m', clock = steadyClock } = options
  if (wholeNumber('size', size) > LARGEST) refuse('size', `at most ${LARGEST}`, size)
  const sketch = new RecentSketch(COUNTERS * size, milliseconds('window', window))
  clockGiven(clock)
  function add({ decision }: DecisionEvent): void {
    const { allowed, binding, degraded } = decision
    if (allowed || binding === undefined || degraded === 'closed') return
    sketch.add(`${binding.limiter}\0${binding.limit.name}\0${binding.key}`, clock.now())
  }
  // Node ends the process for an error of a subscriber.
  const count = observer(add, 'The clock of topDenied failed. The denial is not counted.')
  decisions.subscribe(count)
  return {
    list() {
      const { total, items, unlisted } = sketch.summary(size, clock.now())
      return { denied: total, keys: items.map(deniedKey), unlisted }
    },
    close: () => decisions.unsubscribe(count),
  }
}

/** The name of a limiter and of a limit are printable, so each ends at the first NUL. */
function deniedKey({ item, count, error }: Estimate): DeniedKey {
  const limiterEnd = item.indexOf('\0')
  const limitEnd = item.indexOf('\0', limiterEnd + 1)
  return {
    key: item.slice(limitEnd + 1),
    limiter: item.slice(0, limiterEnd),
    limit: item.slice(limiterEnd + 1, limitEnd),
    count,
    error,
  }
}
