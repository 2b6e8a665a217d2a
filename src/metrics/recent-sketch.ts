import { SpaceSaving } from './space-saving.ts'

/** The slices of a window. One more is being filled. */
export const SLICES = 5

/** An item, and how often it occurred: at most `count` times, and at least `count - error` times. */
export interface Estimate {
  readonly item: string
  readonly count: number
  readonly error: number
}

/** The most frequent items of a time. */
export interface Summary {
  /** The items of the stream. */
  readonly total: number
  /** The largest counts first. */
  readonly items: readonly Estimate[]
  /** An item that is not in the list occurred at most so many times. */
  readonly unlisted: number
}

/**
 * The most frequent items of the last `window` milliseconds: a sketch for each fifth of the window, and one for the fifth that is not
 * over yet. What it counts began between 1 and 1.2 windows ago.
 *
 * Sketches are merged as in Agarwal et al., "Mergeable summaries" (2012): an item without a counter in a sketch is counted with the
 * least count of that sketch, and as much error.
 */
export class RecentSketch {
  readonly #capacity: number
  readonly #slice: number
  #sketches: SpaceSaving[]
  /** The number of the newest slice since the epoch. */
  #newest = -Infinity

  constructor(capacity: number, window: number) {
    this.#capacity = capacity
    this.#slice = window / SLICES
    this.#sketches = []
  }

  /** `now` in milliseconds. A clock that steps back counts into the newest slice. */
  add(item: string, now: number): void {
    this.#advance(now)
    this.#sketches.at(-1)!.add(item)
  }

  /** Returns at most `size` items. */
  summary(size: number, now: number): Summary {
    this.#advance(now)
    const estimates = this.#estimates()
    const least = sum(this.#sketches, ({ least }) => least)
    return {
      total: sum(this.#sketches, ({ total }) => total),
      items: estimates.slice(0, size),
      unlisted: Math.max(least, estimates[size]?.count ?? 0),
    }
  }

  #estimates(): Estimate[] {
    const items = new Set(this.#sketches.flatMap((sketch) => [...sketch.items()]))
    return Array.from(items, (item) => this.#estimate(item)).toSorted((a, b) => b.count - a.count)
  }

  #estimate(item: string): Estimate {
    let count = 0
    let error = 0
    for (const sketch of this.#sketches) {
      const counter = sketch.get(item)
      count += counter?.count ?? sketch.least
      error += counter?.error ?? sketch.least
    }
    return { item, count, error }
  }

  /** Begins the slices up to now, and drops those that are older than the window. */
  #advance(now: number): void {
    const slice = Math.floor(now / this.#slice)
    const missing = Math.min(slice - this.#newest, SLICES + 1)
    if (!(missing > 0)) return
    for (let i = 0; i < missing; i++) this.#sketches.push(new SpaceSaving(this.#capacity))
    this.#sketches = this.#sketches.slice(-SLICES - 1)
    this.#newest = slice
  }
}

function sum<Each>(each: readonly Each[], value: (each: Each) => number): number {
  return each.reduce((total, one) => total + value(one), 0)
}
