import type { LogEntry } from './request.ts'
import { randomUUID } from 'node:crypto'
import { closeSync, ftruncateSync, openSync, readSync, unlinkSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SluiceError } from '../../util/errors.ts'

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

/** What is stored in memory, and how many runs of one length are stored in a file before they are merged into a longer one. */
interface LateBounds {
  readonly bytes: number
  readonly lines: number
  readonly runs: number
}

const LATE_BOUNDS: LateBounds = { bytes: 33_554_432, lines: 524_288, runs: 128 }

/** A record is its time, its line, its file, the bytes of its text, and its text. */
const HEADER = 24
/** The bytes that are read and written at once. The longest line fits in, also if each of its bytes becomes a replacement character. */
const BLOCK = 262_144

/**
 * Sorts the late lines of all files by time, file and line: an external merge sort. It holds a bounded part of them in memory. The others
 * are in temporary files, which have no name, so they are gone when the process ends for whatever reason.
 */
export class LateLines {
  /** How many were added. */
  count = 0
  readonly #bounds: LateBounds
  #part: Part | undefined
  /** The runs of each length, the shortest first. */
  readonly #levels: Level[] = []

  constructor(bounds: LateBounds = LATE_BOUNDS) {
    this.#bounds = bounds
  }

  /** Throws `LOG_UNREADABLE` if a temporary file is needed and cannot be written. */
  add(late: LateLine): void {
    this.count++
    this.#part ??= new Part(this.#bounds)
    if (this.#part.add(late)) return
    this.#store(0, [this.#part.sorted()])
    this.#part.add(late)
  }

  /** Returns all lines in order. Nothing can be added afterwards. */
  *sorted(): Generator<LateLine, void> {
    const rest = this.#part?.sorted()
    this.#part = undefined
    const runs = this.#levels.flatMap(({ file, ends }) => runsIn(file, ends))
    if (rest !== undefined) runs.push(new Run(rest, rest.length))
    for (const run of merged(runs)) yield run.late
  }

  close(): void {
    for (const { file } of this.#levels) file.close()
    this.#levels.length = 0
  }

  /** Appends a run to a level. A full level becomes one run of the next level. */
  #store(at: number, records: Iterable<Buffer>): void {
    const level = (this.#levels[at] ??= { file: new TemporaryFile(), ends: [] })
    for (const bytes of records) level.file.append(bytes)
    level.ends.push(level.file.size)
    if (level.ends.length < this.#bounds.runs) return
    this.#store(at + 1, recordsOf(runsIn(level.file, level.ends)))
    level.file.clear()
    level.ends = []
  }
}

interface Level {
  readonly file: TemporaryFile
  /** Where each run ends. */
  ends: number[]
}

function runsIn(file: TemporaryFile, ends: readonly number[]): Run[] {
  return ends.map((end, i) => new Run(Buffer.allocUnsafeSlow(BLOCK), 0, file, ends[i - 1] ?? 0, end))
}

function* recordsOf(runs: readonly Run[]): Generator<Buffer, void> {
  for (const run of merged(runs)) yield run.record
}

/** Returns, for each record of sorted runs in order, the run that has it at its head. */
function* merged(runs: readonly Run[]): Generator<Run, void> {
  const heads = new Heap<Run>(isRunBefore)
  for (const run of runs) if (run.next()) heads.add(run)
  for (let run = heads.first; run !== undefined; run = heads.first) {
    yield run
    heads.shift()
    if (run.next()) heads.add(run)
  }
}

function isRunBefore(one: Run, other: Run): boolean {
  return order(one.bytes, one.at, other.bytes, other.at) < 0
}

/** Compares two records by time, file and line. */
function order(one: Buffer, at: number, other: Buffer, otherAt: number): number {
  return (
    one.readDoubleLE(at) - other.readDoubleLE(otherAt) ||
    one.readUInt32LE(at + 16) - other.readUInt32LE(otherAt + 16) ||
    one.readDoubleLE(at + 8) - other.readDoubleLE(otherAt + 8)
  )
}

/** Records in memory, in the order in which they came. */
class Part {
  readonly #bytes: Buffer
  readonly #copy: Buffer
  readonly #places: Uint32Array
  #size = 0
  #count = 0

  constructor({ bytes, lines }: LateBounds) {
    // None of them takes memory before it is written.
    this.#bytes = Buffer.allocUnsafeSlow(bytes)
    this.#copy = Buffer.allocUnsafeSlow(bytes)
    this.#places = new Uint32Array(lines)
  }

  /** Returns false if there is no room. */
  add({ time, file, line, text }: LateLine): boolean {
    const at = this.#size
    if (this.#count === this.#places.length || at + HEADER + 3 * text.length > this.#bytes.length) return false
    const length = this.#bytes.write(text, at + HEADER)
    this.#bytes.writeDoubleLE(time, at)
    this.#bytes.writeDoubleLE(line, at + 8)
    this.#bytes.writeUInt32LE(file, at + 16)
    this.#bytes.writeUInt32LE(length, at + 20)
    this.#places[this.#count++] = at
    this.#size += HEADER + length
    return true
  }

  /** Returns the records in order, and removes them. They are valid until the next call. */
  sorted(): Buffer {
    const bytes = this.#bytes
    let size = 0
    for (const at of this.#places.subarray(0, this.#count).toSorted((one, other) => order(bytes, one, bytes, other))) {
      size += bytes.copy(this.#copy, size, at, at + HEADER + bytes.readUInt32LE(at + 20))
    }
    this.#size = 0
    this.#count = 0
    return this.#copy.subarray(0, size)
  }
}

/** Sorted records: those in a buffer, and those that follow in a part of a file. */
class Run {
  readonly bytes: Buffer
  /** Where the head is. */
  at = 0
  #next = 0
  #end: number
  readonly #file: TemporaryFile | undefined
  #position: number
  readonly #until: number

  /** @param end the bytes of the buffer that have records */
  constructor(bytes: Buffer, end: number, file?: TemporaryFile, position = 0, until = 0) {
    this.bytes = bytes
    this.#end = end
    this.#file = file
    this.#position = position
    this.#until = until
  }

  /** Moves to the next record. Returns false at the end. */
  next(): boolean {
    this.at = this.#next
    if (!this.#has(HEADER)) return false
    const length = HEADER + this.bytes.readUInt32LE(this.at + 20)
    this.#has(length)
    this.#next = this.at + length
    return true
  }

  get record(): Buffer {
    return this.bytes.subarray(this.at, this.#next)
  }

  get late(): LateLine {
    const { bytes, at } = this
    return {
      time: bytes.readDoubleLE(at),
      line: bytes.readDoubleLE(at + 8),
      file: bytes.readUInt32LE(at + 16),
      text: bytes.toString('utf8', at + HEADER, this.#next),
    }
  }

  /** Reads on if the buffer has fewer bytes of the head. Returns false if there are none. */
  #has(length: number): boolean {
    if (this.at + length <= this.#end) return true
    if (this.#file === undefined || this.#position === this.#until) return this.at < this.#end
    this.#end = this.bytes.copy(this.bytes, 0, this.at, this.#end)
    this.at = 0
    const size = Math.min(this.bytes.length - this.#end, this.#until - this.#position)
    this.#file.read(this.bytes.subarray(this.#end, this.#end + size), this.#position)
    this.#position += size
    this.#end += size
    return true
  }
}

/** A file whose name is removed at once, so that the system deletes it when it is closed or the process ends. */
class TemporaryFile {
  readonly #descriptor: number
  readonly #waiting = Buffer.allocUnsafeSlow(BLOCK)
  #waits = 0
  #written = 0

  constructor() {
    this.#descriptor = attempted(() => {
      const path = join(tmpdir(), `sluice-${randomUUID()}`)
      const descriptor = openSync(path, 'wx+', 0o600)
      unlinkSync(path)
      return descriptor
    })
  }

  get size(): number {
    return this.#written + this.#waits
  }

  append(bytes: Buffer): void {
    if (this.#waits + bytes.length > BLOCK) this.#flush()
    if (bytes.length > BLOCK) return this.#write(bytes)
    this.#waits += bytes.copy(this.#waiting, this.#waits)
  }

  /** Fills a buffer with what is at a position. */
  read(into: Buffer, position: number): void {
    this.#flush()
    attempted(() => {
      for (let at = 0; at < into.length;) {
        const size = readSync(this.#descriptor, into, at, into.length - at, position + at)
        if (size === 0) throw new Error('a temporary file is shorter than it was written')
        at += size
      }
    })
  }

  clear(): void {
    attempted(() => ftruncateSync(this.#descriptor))
    this.#written = 0
    this.#waits = 0
  }

  close(): void {
    closeSync(this.#descriptor)
  }

  #flush(): void {
    this.#write(this.#waiting.subarray(0, this.#waits))
    this.#waits = 0
  }

  #write(bytes: Buffer): void {
    attempted(() => {
      for (let at = 0; at < bytes.length;)
        at += writeSync(this.#descriptor, bytes, at, bytes.length - at, this.#written + at)
    })
    this.#written += bytes.length
  }
}

function attempted<Answer>(work: () => Answer): Answer {
  try {
    return work()
  } catch (cause) {
    const reason = `A log is out of order, and it cannot be sorted in a temporary file: ${(cause as Error).message}`
    throw new SluiceError('LOG_UNREADABLE', `${reason}. Set TMPDIR to a folder with enough room`, { cause })
  }
}
