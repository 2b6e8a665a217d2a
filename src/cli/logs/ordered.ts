import type { LogEntry } from './entry.ts'

/** Entries that leave in the order of their times. Entries of one time leave in the order of their lines. */
export interface Ordered {
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

export function isBefore(one: LogEntry, other: LogEntry): boolean {
  const difference = one.request.time - other.request.time
  return difference < 0 || (difference === 0 && one.line < other.line)
}
