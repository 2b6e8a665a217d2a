import { OUTCOMES } from '../limiter/decision.ts'
import type { Degraded } from '../stores/store.ts'

/** What the decisions of one limit were. */
export class Counts {
  readonly limiter: string
  readonly limit: string
  /** How often each outcome was counted, by its number. */
  readonly outcomes: number[] = OUTCOMES.map(() => 0)
  /** Admitted with less than a fifth left. */
  nearLimit = 0

  constructor(limiter: string, limit: string) {
    this.limiter = limiter
    this.limit = limit
  }
}

/** The upper bounds of the histogram, in milliseconds. */
export const BOUNDS: readonly number[] = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 5000]

/** A histogram of milliseconds. */
export class Durations {
  /** How many are at most each bound and more than the one before. The last one has no bound. */
  readonly buckets: number[] = BOUNDS.map(() => 0).concat(0)
  sum = 0

  add(ms: number): void {
    let at = 0
    while (at < BOUNDS.length && ms > BOUNDS[at]!) at++
    this.buckets[at]!++
    this.sum += ms
  }
}

/** What is counted for a limiter as a whole. */
export class LimiterCounts {
  readonly limiter: string
  /** How many requests had each outcome, by its number. Each request counts once. */
  readonly outcomes: number[] = OUTCOMES.map(() => 0)
  readonly durations: Durations = new Durations()
  readonly degraded: Record<Degraded, number> = { open: 0, closed: 0, local: 0 }

  constructor(limiter: string) {
    this.limiter = limiter
  }
}
