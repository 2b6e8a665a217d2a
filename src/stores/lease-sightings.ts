import { mixedHash } from '../util/fnv.ts'

/** The largest number in a cell. */
export const MOST_SEEN = 255

/** The cells in each of the two rows. Keys with the same hash share a cell. */
const CELLS = 65_536

/**
 * Counts the latest decisions of keys in a fixed amount of memory, so that a key with few decisions takes none. The result is never too small. It is a
 * count-min sketch (Cormode and Muthukrishnan, 2005): each key has a cell in each of two rows, and the smaller one is the result.
 */
export class Sightings {
  #now = new Uint8Array(2 * CELLS)
  #before = new Uint8Array(2 * CELLS)
  #since = -Infinity

  /** Counts a key. Returns how often it was counted within the last one to two spans. A span is in microseconds. */
  see(key: string, span: number, now: number): number {
    if (now - this.#since >= span || now < this.#since) this.#turn(span, now)
    const hash = mixedHash(key)
    const [one, other] = [hash & (CELLS - 1), CELLS + (hash >>> 16)]
    const counts = this.#now
    const seen = Math.min(counts[one]!, counts[other]!)
    if (seen < MOST_SEEN) {
      if (counts[one] === seen) counts[one] = seen + 1
      if (counts[other] === seen) counts[other] = seen + 1
    }
    return seen + 1 + Math.min(this.#before[one]!, this.#before[other]!)
  }

  #turn(span: number, now: number): void {
    const isRecent = now - this.#since < 2 * span && now >= this.#since
    const older = this.#before
    if (!isRecent) this.#now.fill(0)
    this.#before = this.#now
    this.#now = older.fill(0)
    this.#since = now
  }
}
