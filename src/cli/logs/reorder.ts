import type { LogEntry } from './request.ts'

/** The bounds of a reorder window. Above them, the oldest entries are released early. */
const BOUNDS = { entries: 500_000, bytes: 268_435_456 }

/**
 * Puts the entries of one file in the order of their times. An entry is released when the newest one is later by the whole window. Entries
 * with the same time keep the order of their lines.
 */
export class Reorder {
  /** True if a bound has shortened the window. */
  hasOverflowed = false
  readonly #window: number
  readonly #bounds: typeof BOUNDS
  #newest = -Infinity
  #released = -Infinity
  #bytes = 0
  /** The waiting entries in order, and the entries that were added since the last release. */
  readonly #waiting: LogEntry[] = []
  #added: LogEntry[] = []

  /** @param window milliseconds */
  constructor(window: number, bounds: typeof BOUNDS = BOUNDS) {
    this.#window = window
    this.#bounds = bounds
  }

  /** Adds an entry and returns 0. A late entry is not added: returns the milliseconds between its time and the newest time. */
  add(entry: LogEntry): number {
    const { time } = entry.request
    // Because of a bound, entries inside the window may have been released.
    if (time < Math.max(this.#newest - this.#window, this.#released)) return this.#newest - time
    if (entry.chunk.held++ === 0) this.#bytes += entry.chunk.size
    this.#added.push(entry)
    if (time > this.#newest) this.#newest = time
    return 0
  }

  /** Moves the entries that are older than the window to `into`. */
  release(into: LogEntry[]): void {
    this.#merge()
    const until = this.#newest - this.#window
    let count = 0
    for (const entry of this.#waiting) {
      if (entry.request.time > until) {
        if (this.#waiting.length - count <= this.#bounds.entries && this.#bytes <= this.#bounds.bytes) break
        this.hasOverflowed = true
      }
      count++
      this.#released = entry.request.time
      if (--entry.chunk.held === 0) this.#bytes -= entry.chunk.size
      into.push(entry)
    }
    this.#waiting.splice(0, count)
  }

  /** Moves all entries to `into`, after the last line. */
  flush(into: LogEntry[]): void {
    this.#newest = Infinity
    this.release(into)
  }

  /** Merges the added entries. Most logs are nearly in order, so only the last waiting entries are sorted again. */
  #merge(): void {
    const waiting = this.#waiting
    const earliest = this.#added.reduce((least, { request }) => Math.min(least, request.time), Infinity)
    let at = waiting.length
    while (at > 0 && waiting[at - 1]!.request.time > earliest) at--
    const last = waiting.splice(at).concat(this.#added)
    for (const entry of last.toSorted((one, other) => one.request.time - other.request.time)) waiting.push(entry)
    this.#added = []
  }
}
