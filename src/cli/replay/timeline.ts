/** The bars of a plot. */
const SLOTS = 240

/** Requests over time, in a fixed number of slots that become wider as the log gets longer. */
export interface TimelineReport {
  /** The start of the first slot, in ISO 8601. */
  readonly from: string
  /** Milliseconds of a slot. */
  readonly width: number
  readonly admitted: readonly number[]
  readonly denied: readonly number[]
}

/** Counts admitted and denied requests in slots of equal width. Times never decrease. */
export class Timeline {
  readonly #admitted = new Float64Array(SLOTS)
  readonly #denied = new Float64Array(SLOTS)
  #from = NaN
  #width = 1000
  #used = 0

  add(time: number, isDenied: boolean): void {
    if (this.#used === 0) this.#from = Math.floor(time / 1000) * 1000
    let slot = Math.floor((time - this.#from) / this.#width)
    for (; slot >= SLOTS; slot = Math.floor((time - this.#from) / this.#width)) this.#widen()
    this.#used = slot + 1
    const counts = isDenied ? this.#denied : this.#admitted
    counts[slot]!++
  }

  report(): TimelineReport {
    return {
      from: new Date(this.#used === 0 ? 0 : this.#from).toISOString(),
      width: this.#width,
      admitted: [...this.#admitted.subarray(0, this.#used)],
      denied: [...this.#denied.subarray(0, this.#used)],
    }
  }

  /** Joins two neighbouring slots into one. */
  #widen(): void {
    this.#width *= 2
    for (const counts of [this.#admitted, this.#denied]) {
      for (let i = 0; i < SLOTS / 2; i++) counts[i] = counts[2 * i]! + counts[2 * i + 1]!
      counts.fill(0, SLOTS / 2)
    }
  }
}
