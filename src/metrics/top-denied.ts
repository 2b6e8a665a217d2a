import { copyText } from '../util/bounded-key.ts'
import { madeOnce } from '../util/copies.ts'
import { type DecisionEvent, decisions } from '../limiter/decision.ts'
import { type Duration, warnIfShort } from '../engine/limit.ts'
import { type Clock, clockGiven, steadyClock } from '../util/clock.ts'
import { knownOptions, milliseconds, refuse, wholeNumber } from '../util/validate.ts'
import { observer } from '../util/warn.ts'

/** An item of a sketch. It occurred at most `count` times, and at least `count - error` times. */
interface Counter {
  count: number
  readonly error: number
}

/** How many times more counters than its capacity a sketch has before it drops some. */
const SLACK = 1.25

/**
 * The most frequent items of a stream, in bounded memory: Space-Saving, from Metwally, Agrawal and El Abbadi, "Efficient
 * computation of frequent and top-k elements in data streams" (2005), except that many counters are dropped at once. A new counter begins at `least`,
 * which is its error. If there are too many counters, the largest stay, as many as the capacity, and `least` becomes the largest count of the others.
 *
 * With m as the capacity and n items in the stream, `least` and each error are at most n / m. Each item that occurred more than `least` times has
 * a counter.
 */
export class SpaceSaving {
  readonly #capacity: number
  readonly #counters = new Map<string, Counter>()
  total = 0
  /** An item without a counter occurred at most this many times. */
  least = 0

  constructor(capacity: number) {
    this.#capacity = capacity
  }

  get(item: string): Counter | undefined {
    return this.#counters.get(item)
  }

  items(): Iterable<string> {
    return this.#counters.keys()
  }

  add(item: string): void {
    this.total++
    const known = this.#counters.get(item)
    if (known !== undefined) known.count++
    else this.#counters.set(copyText(item), { count: this.least + 1, error: this.least })
    if (this.#counters.size > SLACK * this.#capacity) this.#drop()
  }

  #drop(): void {
    const counts = Float64Array.from(this.#counters.values(), ({ count }) => count).toSorted()
    this.least = counts[counts.length - this.#capacity - 1]!
    for (const [item, { count }] of this.#counters) if (count <= this.least) this.#counters.delete(item)
  }
}

/** The number of full slices in a window. One more slice is being filled. */
export const SLICES = 5

/** An item, and how often it occurred: at most `count` times, and at least `count - error` times. */
interface Estimate {
  readonly item: string
  readonly count: number
  readonly error: number
}

interface Summary {
  readonly total: number
  /** The largest counts first. */
  readonly items: readonly Estimate[]
  /** An item that is not in the list occurred at most this many times. */
  readonly unlisted: number
}

/**
 * The most frequent items of the last `window` milliseconds. There is a sketch for each fifth of the window, and one for the current fifth.
 * The oldest sketch began between 1 and 1.2 windows ago.
 *
 * Sketches are merged as in Agarwal et al., "Mergeable summaries" (2012): if a sketch has no counter for an item, the item gets the least
 * count of that sketch, and the same error.
 */
export class RecentSketch {
  readonly #capacity: number
  readonly #slice: number
  /** The sketches by the number of their slice. A slice without items has none. */
  readonly #sketches = new Map<number, SpaceSaving>()
  /** The number of the newest slice since the epoch. */
  #newest = -Infinity

  constructor(capacity: number, window: number) {
    this.#capacity = capacity
    this.#slice = window / SLICES
  }

  /** Counts an item. `now` is in milliseconds. If the clock steps back, the item counts in the newest slice. */
  add(item: string, now: number): void {
    this.#advance(now)
    madeOnce(this.#sketches, this.#newest, () => new SpaceSaving(this.#capacity)).add(item)
  }

  summary(size: number, now: number): Summary {
    this.#advance(now)
    const sketches = [...this.#sketches.values()]
    const items = new Set(sketches.flatMap((sketch) => [...sketch.items()]))
    const estimates = Array.from(items, (item) => estimate(sketches, item)).toSorted((a, b) => b.count - a.count)
    const least = sum(sketches, ({ least }) => least)
    return {
      total: sum(sketches, ({ total }) => total),
      items: estimates.slice(0, size),
      unlisted: Math.max(least, estimates[size]?.count ?? 0),
    }
  }

  /** Begins the slice of now, and drops those that are older than the window. */
  #advance(now: number): void {
    const slice = Math.floor(now / this.#slice)
    if (!(slice > this.#newest)) return
    this.#newest = slice
    for (const each of this.#sketches.keys()) if (each < slice - SLICES) this.#sketches.delete(each)
  }
}

function estimate(sketches: readonly SpaceSaving[], item: string): Estimate {
  return {
    item,
    count: sum(sketches, (sketch) => sketch.get(item)?.count ?? sketch.least),
    error: sum(sketches, (sketch) => sketch.get(item)?.error ?? sketch.least),
  }
}

function sum<Each>(each: readonly Each[], value: (each: Each) => number): number {
  return each.reduce((total, one) => total + value(one), 0)
}

/** Options of `topDenied`. */
export interface TopDeniedOptions {
  /** The most keys in the list, from 1 to 10,000. Default 100. Memory is about 10 kB for each. */
  readonly size?: number
  /** The time that is counted, in milliseconds or as a string such as `'10m'`. Default `'5m'`. */
  readonly window?: Duration
  /** Default: a clock that never steps back. */
  readonly clock?: Clock
}

/** A denied key, and the limit that denied it. */
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
  /** The number of denials in the window, for all keys. */
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
  /** Stops counting. The list stays until the end of its window. */
  close(): void
}

/** The number of counters for each key of the list. More counters make the errors smaller. */
const COUNTERS = 8
const LARGEST = 10_000

/**
 * Counts which keys are denied most, by all limiters of the process, in bounded memory. It counts from this call until `close`. A
 * denial counts for the limit that decides it (`decision.binding`). Denials that happen because a store does not answer are not counted.
 *
 * A list contains all denials of the last `window`, and no denial that is older than 1.2 windows. An error is at most the denials in that time, divided by
 * `8 * size`. Errors are 0 while at most `8 * size` keys are denied in each fifth of the window.
 *
 * Throws `INVALID_OPTION` and `UNKNOWN_OPTION`.
 * @example
 * const denied = topDenied({ size: 10 })
 * setInterval(() => console.log(denied.list().keys), 60_000)
 */
export function topDenied(options: TopDeniedOptions = {}): TopDenied {
  options = knownOptions('topDenied', options, ['size', 'window', 'clock'])
  const { size = 100, window = '5m', clock = steadyClock } = options
  if (wholeNumber('size', size) > LARGEST) refuse('size', `at most ${LARGEST}`, size)
  const sketch = new RecentSketch(COUNTERS * size, milliseconds('window', window))
  warnIfShort('topDenied: window', window)
  clockGiven(clock)
  function add({ decision }: DecisionEvent): void {
    const { allowed, binding, degraded } = decision
    if (allowed || binding === undefined || degraded === 'closed') return
    sketch.add(`${binding.limiter}\0${binding.limit.name}\0${binding.key}`, clock.now())
  }
  // An error in a subscriber would end the process.
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

/** Splits an item. The names of limiters and limits are printable, so each name ends at the first NUL. */
function deniedKey({ item, count, error }: Estimate): DeniedKey {
  const [limiter, limit] = item.split('\0', 2) as [string, string]
  return { key: item.slice(limiter.length + limit.length + 2), limiter, limit, count, error }
}
