import type { LogEntry } from './entry.ts'

/** The most that a reorder window contains. Beyond it the oldest entries are released early. */
export interface ReorderBounds {
  readonly entries: number
  readonly bytes: number
}

export const BOUNDS: ReorderBounds = { entries: 500_000, bytes: 268_435_456 }

/**
 * Puts the entries of one file in the order of their times. An entry is released once the newest one is later by the window; entries of
 * one time keep the order of their lines. Most logs are nearly in order: entries in order are in a queue, the others in a heap.
 */
export class Reorder {
  /** True if a bound has shortened the window. */
  hasOverflowed = false
  readonly #window: number
  readonly #bounds: ReorderBounds
  #newest = -Infinity
  #released = -Infinity
  #bytes = 0
  #queue: LogEntry[] = []
  #head = 0
  readonly #heap: LogEntry[] = []

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
    const last = this.#queue.at(-1)
    if (this.#head === this.#queue.length || !isBefore(entry, last!)) this.#queue.push(entry)
    else this.#push(entry)
    if (time > this.#newest) this.#newest = time
    return 0
  }

  /** Moves the entries whose turn has come. */
  release(into: LogEntry[]): void {
    const until = this.#newest - this.#window
    for (let next = this.#next(); next !== undefined; next = this.#next()) {
      if (next.request.time > until) {
        if (!this.#isFull) break
        this.hasOverflowed = true
      }
      this.#take(next, into)
    }
    this.#queue.splice(0, this.#head)
    this.#head = 0
  }

  /** Moves all entries, after the last line. */
  flush(into: LogEntry[]): void {
    this.#newest = Infinity
    this.release(into)
  }

  get #isFull(): boolean {
    const size = this.#queue.length - this.#head + this.#heap.length
    return size > this.#bounds.entries || this.#bytes > this.#bounds.bytes
  }

  #next(): LogEntry | undefined {
    const [first, top] = [this.#queue[this.#head], this.#heap[0]]
    if (first === undefined || top === undefined) return first ?? top
    return isBefore(top, first) ? top : first
  }

  #take(entry: LogEntry, into: LogEntry[]): void {
    if (entry === this.#queue[this.#head]) this.#head++
    else this.#pop()
    this.#released = entry.request.time
    if (--entry.chunk.held === 0) this.#bytes -= entry.chunk.size
    into.push(entry)
  }

  #push(entry: LogEntry): void {
    const heap = this.#heap
    let at = heap.push(entry) - 1
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (!isBefore(entry, heap[parent]!)) break
      heap[at] = heap[parent]!
      at = parent
    }
    heap[at] = entry
  }

  #pop(): void {
    const heap = this.#heap
    const last = heap.pop()!
    if (heap.length === 0) return
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child++
      if (!isBefore(heap[child]!, last)) break
      heap[at] = heap[child]!
      at = child
    }
    heap[at] = last
  }
}

function isBefore(one: LogEntry, other: LogEntry): boolean {
  const difference = one.request.time - other.request.time
  return difference < 0 || (difference === 0 && one.line < other.line)
}
