const STEP = 0.1

/** Counts times in steps of a tenth of a millisecond. */
export class Histogram {
  #counts = new Map()
  #longest = 0

  add(ms, count = 1) {
    const step = Math.floor(ms / STEP)
    this.#counts.set(step, (this.#counts.get(step) ?? 0) + count)
    this.#longest = Math.max(this.#longest, ms)
  }

  /** Adds what `toJSON` of another one has returned. */
  merge({ counts, longest }) {
    for (const [step, count] of counts) this.add(step * STEP, count)
    this.#longest = Math.max(this.#longest, longest)
  }

  toJSON() {
    return { counts: [...this.#counts], longest: this.#longest }
  }

  /** The number of times, three quantiles and the longest time. */
  summary() {
    const sorted = [...this.#counts].toSorted(([one], [other]) => one - other)
    const total = sorted.reduce((sum, [, count]) => sum + count, 0)
    function quantile(share) {
      let left = share * total
      for (const [step, count] of sorted) if ((left -= count) <= 0) return (step + 1) * STEP
      return 0
    }
    return { total, p50: quantile(0.5), p99: quantile(0.99), p999: quantile(0.999), longest: this.#longest }
  }
}
