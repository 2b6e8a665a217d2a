/** Counts below this are kept exactly, larger ones to 11 binary digits. */
const EXACT = 2048

/** How often each number occurs. Its size does not depend on how many numbers are added. */
export class Histogram {
  /** How many numbers were added. */
  total = 0
  max = 0
  readonly #counts = new Map<number, number>()

  /** How many different counts are kept. */
  get size(): number {
    return this.#counts.size
  }

  /** Adds a whole number from 0. */
  add(number: number): void {
    const rounded = number < EXACT ? number : roundedDown(number)
    this.#counts.set(rounded, (this.#counts.get(rounded) ?? 0) + 1)
    this.total++
    if (number > this.max) this.max = number
  }

  /**
   * Returns the smallest number that is at least as large as a share of all numbers; 0 without numbers. It is up to 0.1 % too small
   * above 2048.
   * @param share from 0 to 1
   */
  percentile(share: number): number {
    const rank = Math.max(1, Math.ceil(share * this.total))
    if (rank >= this.total) return this.max
    let seen = 0
    for (const [number, count] of this.#sorted()) {
      seen += count
      if (seen >= rank) return number
    }
    return this.max
  }

  /** Returns how many numbers are above a limit, and the sum of what they are above it. */
  above(limit: number): { readonly count: number; readonly excess: number } {
    let [count, excess] = [0, 0]
    for (const [number, times] of this.#counts) {
      if (number <= limit) continue
      count += times
      excess += times * (number - limit)
    }
    return { count, excess }
  }

  #sorted(): [number, number][] {
    return [...this.#counts].toSorted(([one], [other]) => one - other)
  }
}

function roundedDown(number: number): number {
  const step = 2 ** (Math.floor(Math.log2(number)) - 10)
  return Math.floor(number / step) * step
}
