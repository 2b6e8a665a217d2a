const MINUTE = 60_000
/** With at least this number of answers in a minute, the deadline is twice their usual time. With fewer, it is ten times the slowest. */
const ENOUGH = 20
const FACTOR = 2
const FIRST_FACTOR = 10
/** The percentile of the answers that counts as their usual time. */
const PART = 0.95
/** The longest deadline in milliseconds that can be learned after the first minute. */
const LONGEST_RAISED = 250
/** Milliseconds between two calculations of the deadline. */
const EVERY = 100
/** The number of buckets. There are eight for each power of two, so each is 9 % wide. The last one has all answers after more than half an hour. */
const BUCKETS = 170
const PER_OCTAVE = 8

/** The bounds of a deadline in milliseconds. They are equal for a fixed deadline. */
export interface Bounds {
  readonly least: number
  readonly most: number
}

/**
 * The deadline for one part of a store: twice the 95th percentile of the times of its answers in the last minute, between the bounds. It falls at
 * once. In the first minute it also rises at once. Later it rises by at most a factor of two in a minute, and to at most 250 ms, so that requests do
 * not wait for a store that becomes slow.
 */
export class Deadline {
  /** Milliseconds. */
  ms: number
  readonly #bounds: Bounds
  /** Histograms of the times of answers, in this half of a minute and in the one before. */
  #younger = new Uint32Array(BUCKETS)
  #older = new Uint32Array(BUCKETS)
  #since = -Infinity
  #first: number | undefined
  #isKnown = false
  #lookAt = -Infinity
  /** The deadline at the start of this half of a minute, or a shorter one since then. */
  #before: number

  constructor(bounds: Bounds) {
    this.#bounds = bounds
    this.ms = bounds.most
    this.#before = bounds.most
  }

  /**
   * Learns from an answer that took `took` milliseconds. `isUnsure`: something else than the store may have taken the time, such as a busy process. Such
   * an answer counts only if it was fast.
   */
  learn(took: number, now: number, isUnsure: boolean): void {
    const { least, most } = this.#bounds
    if (least === most || (isUnsure && took * FACTOR > least)) return
    this.#first ??= now
    if (now - this.#since > MINUTE / 2) this.#turn(now)
    this.#younger[bucketOf(took)]!++
    if (this.#isKnown && now < this.#lookAt) return
    this.#lookAt = now + EVERY
    const { count, usual } = this.#usual()
    if (count < ENOUGH && this.#isKnown) return
    this.#isKnown = count >= ENOUGH
    const wanted = Math.min(most, Math.max(least, usual * (this.#isKnown ? FACTOR : FIRST_FACTOR)))
    this.#before = Math.min(this.#before, wanted)
    if (wanted <= this.ms || now - this.#first <= MINUTE) this.ms = wanted
    else this.ms = Math.max(this.ms, Math.min(wanted, this.#before * Math.SQRT2, LONGEST_RAISED))
  }

  #turn(now: number): void {
    const isGap = now - this.#since > MINUTE
    this.#older = isGap ? new Uint32Array(BUCKETS) : this.#younger
    this.#younger = new Uint32Array(BUCKETS)
    this.#since = now
    this.#before = this.ms
  }

  /** Returns the number of answers, and the milliseconds that 95 % of them take at most. */
  #usual(): { readonly count: number; readonly usual: number } {
    let count = 0
    for (let i = 0; i < BUCKETS; i++) count += this.#younger[i]! + this.#older[i]!
    let left = Math.ceil(count * PART)
    let bucket = 0
    while ((left -= this.#younger[bucket]! + this.#older[bucket]!) > 0) bucket++
    return { count, usual: 2 ** (bucket / PER_OCTAVE) }
  }
}

/** Returns the first bucket whose upper bound is at least `ms`. */
function bucketOf(ms: number): number {
  return Math.min(BUCKETS - 1, Math.max(0, Math.ceil(Math.log2(ms) * PER_OCTAVE)))
}
