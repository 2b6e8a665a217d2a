import type { LogEntry } from './entry.ts'
import { Heap, isBefore, type Ordered, Queue } from './ordered.ts'

/** The most that a reorder window contains. Beyond it the oldest entries are released early. */
export interface ReorderBounds {
  readonly entries: number
  readonly bytes: number
}

export const BOUNDS: ReorderBounds = { entries: 500_000, bytes: 268_435_456 }

/** Apache writes the second in which a request began at its end. A few queues then contain all entries, each those of some duration. */
const QUEUES = 4

/**
 * Puts the entries of one file in the order of their times. An entry is released once the newest one is later by the window; entries of
 * one time keep the order of their lines. Most logs are nearly in order: most entries are in queues, the others in a heap.
 */
export class Reorder {
  /** True if a bound has shortened the window. */
  hasOverflowed = false
  readonly #window: number
  readonly #bounds: ReorderBounds
  #newest = -Infinity
  #released = -Infinity
  #bytes = 0
  #size = 0
  /** An entry is added to the first of them that takes it. */
  readonly #parts: readonly Ordered[] = [...Array.from({ length: QUEUES }, () => new Queue()), new Heap(isBefore)]

  /** @param window milliseconds */
  constructor(window: number, bounds: ReorderBounds = BOUNDS) {
    this.#window = window
    this.#bounds = bounds
  }

  /** Returns 0, or by how many milliseconds an entry that comes too late is earlier than the newest one. A late entry is not taken. */
  add(entry: LogEntry): number {
    const { time } = entry.request
    // A bound may have released more than the window.
    if (time < Math.max(this.#newest - this.#window, this.#released)) return this.#newest - time
    if (entry.chunk.held++ === 0) this.#bytes += entry.chunk.size
    for (const part of this.#parts) if (part.add(entry)) break
    this.#size++
    if (time > this.#newest) this.#newest = time
    return 0
  }

  /** Moves the entries whose turn has come. */
  release(into: LogEntry[]): void {
    const until = this.#newest - this.#window
    for (let part = this.#earliest(); part !== undefined; part = this.#earliest()) {
      const entry = part.first!
      if (entry.request.time > until) {
        if (!this.#isFull) break
        this.hasOverflowed = true
      }
      part.shift()
      this.#forget(entry)
      into.push(entry)
    }
  }

  /** Moves all entries, after the last line. */
  flush(into: LogEntry[]): void {
    this.#newest = Infinity
    this.release(into)
  }

  get #isFull(): boolean {
    return this.#size > this.#bounds.entries || this.#bytes > this.#bounds.bytes
  }

  /** Returns the part with the entry that leaves next, `undefined` if there is none. */
  #earliest(): Ordered | undefined {
    let found: Ordered | undefined
    let least: LogEntry | undefined
    for (const part of this.#parts) {
      const { first } = part
      if (first === undefined || (least !== undefined && !isBefore(first, least))) continue
      found = part
      least = first
    }
    return found
  }

  #forget({ request, chunk }: LogEntry): void {
    this.#released = request.time
    this.#size--
    if (--chunk.held === 0) this.#bytes -= chunk.size
  }
}
