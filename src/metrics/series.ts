import { warn } from '../util/warn.ts'
import { Counts, LimiterCounts } from './counts.ts'

/** The name for all limiters and limits beyond the most. */
export const OTHER = 'other'

/**
 * The counts by limiter and limit, of a bounded number. Limiters and limits that are made per customer would be one series each: those
 * beyond the bound count together, as `other`, with one warning.
 */
export class Series {
  readonly #most: number
  readonly #limiters = new Map<string, LimiterCounts>()
  readonly #limits = new Map<string, Map<string, Counts>>()
  readonly #all: Counts[] = []
  #otherLimiter: LimiterCounts | undefined
  #otherLimit: Counts | undefined
  #count = 0
  #warned = false

  constructor(most: number) {
    this.#most = most
  }

  ofLimiter(limiter: string): LimiterCounts {
    return this.#limiters.get(limiter) ?? this.#addLimiter(limiter)
  }

  ofLimit(limiter: string, limit: string): Counts {
    return this.#limits.get(limiter)?.get(limit) ?? this.#addLimit(limiter, limit)
  }

  limiters(): LimiterCounts[] {
    return [...this.#limiters.values(), ...present(this.#otherLimiter)]
  }

  limits(): Counts[] {
    return this.#all.concat(present(this.#otherLimit))
  }

  #addLimiter(limiter: string): LimiterCounts {
    if (!this.#hasRoom()) return (this.#otherLimiter ??= new LimiterCounts(OTHER))
    const counts = new LimiterCounts(limiter)
    this.#limiters.set(limiter, counts)
    return counts
  }

  #addLimit(limiter: string, limit: string): Counts {
    if (!this.#hasRoom()) return (this.#otherLimit ??= new Counts(OTHER, OTHER))
    const counts = new Counts(limiter, limit)
    const limits = this.#limits.get(limiter) ?? new Map<string, Counts>()
    this.#limits.set(limiter, limits.set(limit, counts))
    this.#all.push(counts)
    return counts
  }

  #hasRoom(): boolean {
    if (this.#count < this.#most) return ++this.#count > 0
    if (!this.#warned) warnOfMany(this.#most)
    this.#warned = true
    return false
  }
}

function present<Value>(value: Value | undefined): Value[] {
  return value === undefined ? [] : [value]
}

function warnOfMany(most: number): void {
  warn(
    'SLUICE_MANY_SERIES',
    `Metrics have series for ${most} pairs of limiter and limit (\`maxSeries\`). Further pairs count together as "${OTHER}". Put user data ` +
      'into the key, not into the name of a limiter or limit. If the limits are real, increase `maxSeries`.',
  )
}
