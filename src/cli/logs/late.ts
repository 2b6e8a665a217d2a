import type { LogEntry } from './request.ts'
import { getHeapStatistics } from 'node:v8'
import { copyText } from '../../util/bounded-key.ts'
import { SluiceError } from '../../util/errors.ts'
import { grouped } from '../print.ts'

/** Entries that leave in the order of their times. Entries of one time leave in the order of their lines. */
interface Ordered {
  /** The entry that leaves next. */
  readonly first: LogEntry | undefined
  /** Returns false for an entry that it does not take. */
  add(entry: LogEntry): boolean
  /** Removes the first entry. */
  shift(): void
}

/** Takes only entries that are in order. */
export class Queue implements Ordered {
  /** Removed entries are `undefined`, until they are half of it. */
  readonly #entries: (LogEntry | undefined)[] = []
  #head = 0

  get first(): LogEntry | undefined {
    return this.#entries[this.#head]
  }

  add(entry: LogEntry): boolean {
    if (this.first !== undefined && isBefore(entry, this.#entries.at(-1)!)) return false
    this.#entries.push(entry)
    return true
  }

  shift(): void {
    this.#entries[this.#head++] = undefined
    if (2 * this.#head < this.#entries.length) return
    this.#entries.splice(0, this.#head)
    this.#head = 0
  }
}

/** A binary heap. It takes all entries, and is slower than a queue. */
export class Heap<Entry> {
  readonly #entries: Entry[] = []
  readonly #isBefore: (one: Entry, other: Entry) => boolean

  constructor(before: (one: Entry, other: Entry) => boolean) {
    this.#isBefore = before
  }

  get first(): Entry | undefined {
    return this.#entries[0]
  }

  add(entry: Entry): boolean {
    const entries = this.#entries
    let at = entries.push(entry) - 1
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (!this.#isBefore(entry, entries[parent]!)) break
      entries[at] = entries[parent]!
      at = parent
    }
    entries[at] = entry
    return true
  }

  shift(): void {
    const entries = this.#entries
    const last = entries.pop()!
    if (entries.length === 0) return
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= entries.length) break
      if (child + 1 < entries.length && this.#isBefore(entries[child + 1]!, entries[child]!)) child++
      if (!this.#isBefore(entries[child]!, last)) break
      entries[at] = entries[child]!
      at = child
    }
    entries[at] = last
  }
}

function isBefore(one: LogEntry, other: LogEntry): boolean {
  const difference = one.request.time - other.request.time
  return difference < 0 || (difference === 0 && one.line < other.line)
}

/** The most that a reorder window contains. Beyond it the oldest entries are released early. */
interface ReorderBounds {
  readonly entries: number
  readonly bytes: number
}

const BOUNDS: ReorderBounds = { entries: 500_000, bytes: 268_435_456 }

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

/** A line that came later than the reorder window. */
export interface LateLine {
  /** Epoch milliseconds. */
  readonly time: number
  /** The place of its file in the list of files. */
  readonly file: number
  /** From 1. */
  readonly line: number
  readonly text: string
}

/** What an object and its place in a list take, in bytes. Measured: 96. */
const BYTES_PER_LINE = 128

/** Sorts the late lines of all files by time, file and line, in memory. */
export class LateLines {
  readonly #most: number
  readonly #lines: LateLine[] = []
  #bytes = 0

  /** @param most bytes; by default half of what Node may allocate for all objects */
  constructor(most: number = getHeapStatistics().heap_size_limit / 2) {
    this.#most = most
  }

  /** How many were added. */
  get count(): number {
    return this.#lines.length
  }

  /** Throws `LOG_UNREADABLE` if they do not fit into memory. */
  add(late: LateLine): void {
    // Two bytes a character, for the text of a line that is not Latin.
    this.#bytes += BYTES_PER_LINE + 2 * late.text.length
    if (this.#bytes > this.#most) throw tooMany(this.count)
    this.#lines.push({ ...late, text: copyText(late.text) })
  }

  /** Returns all lines in order. */
  *sorted(): Generator<LateLine, void> {
    yield* this.#lines.toSorted((one, other) => one.time - other.time || one.file - other.file || one.line - other.line)
  }
}

function tooMany(count: number): SluiceError {
  return new SluiceError(
    'LOG_UNREADABLE',
    `More than ${grouped(count)} lines are out of order, which do not fit into memory. Sort the log by time, set a larger --reorder, or give Node more memory: NODE_OPTIONS=--max-old-space-size=8192`,
  )
}
