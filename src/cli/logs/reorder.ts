import { getHeapStatistics } from 'node:v8'
import type { LogEntry } from './request.ts'

/** The bytes of the objects of an entry, without the text of its line. */
const BYTES_PER_ENTRY = 400

/** The memory for the entries of all files. */
export class Memory {
  #bytes = 0
  readonly #most: number

  /** @param most the largest number of bytes. Default: half of the memory that Node may use for objects */
  constructor(most: number = getHeapStatistics().heap_size_limit / 2) {
    this.#most = most
  }

  /** The number of bytes above the bound. Not positive if there is room. */
  get excess(): number {
    return this.#bytes - this.#most
  }

  add({ chunk }: LogEntry): void {
    if (chunk.held++ === 0) this.#bytes += chunk.size
    this.#bytes += BYTES_PER_ENTRY
  }

  remove({ chunk }: LogEntry): void {
    if (--chunk.held === 0) this.#bytes -= chunk.size
    this.#bytes -= BYTES_PER_ENTRY
  }
}

/**
 * Puts the entries of one file in the order of their times. An entry is released when the newest one is later by the whole window. Entries
 * with the same time keep the order of their lines. If the windows of all files do not fit into memory, the oldest entries are released early.
 */
export class Reorder {
  /** True if the bound has shortened the window. */
  hasOverflowed = false
  readonly #window: number
  readonly #memory: Memory
  #newest = -Infinity
  #released = -Infinity
  /** The waiting entries in order, and the entries that were added since the last release. */
  readonly #waiting: LogEntry[] = []
  #added: LogEntry[] = []
  /** The earliest time of the entries that wait. */
  #earliest = Infinity

  /**
   * @param window milliseconds
   * @param memory counts the entries that are added. The caller removes them from it when it drops them
   */
  constructor(window: number, memory: Memory = new Memory()) {
    this.#window = window
    this.#memory = memory
  }

  /** Adds an entry and returns 0. A late entry is not added: returns the milliseconds between its time and the newest time. */
  add(entry: LogEntry): number {
    const { time } = entry.request
    // Because of a bound, entries inside the window may have been released.
    if (time < Math.max(this.#newest - this.#window, this.#released)) return this.#newest - time
    this.#memory.add(entry)
    this.#added.push(entry)
    if (time > this.#newest) this.#newest = time
    if (time < this.#earliest) this.#earliest = time
    return 0
  }

  /** Moves the entries that are older than the window to `into`. */
  release(into: LogEntry[]): void {
    const until = this.#newest - this.#window
    let { excess } = this.#memory
    if (this.#earliest > until && excess <= 0) return
    this.#merge()
    let count = 0
    for (const entry of this.#waiting) {
      if (entry.request.time > until) {
        if (excess <= 0) break
        this.hasOverflowed = true
      }
      count++
      this.#released = entry.request.time
      excess -= BYTES_PER_ENTRY
      into.push(entry)
    }
    this.#waiting.splice(0, count)
    this.#earliest = this.#waiting[0]?.request.time ?? Infinity
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
