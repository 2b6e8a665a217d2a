import { createReadStream } from 'node:fs'
import { pipeline, Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { madeOnce } from '../../util/copies.ts'
import { SluiceError } from '../../util/errors.ts'
import type { Chunk, LogEntry, LoggedRequest } from './request.ts'
import { Format } from './formats.ts'
import type { LogSettings } from './options.ts'
import { type Memory, Reorder } from './reorder.ts'

const CHUNK = 524_288

/**
 * Reads the bytes of a file, or of the standard input for `-`. Data that starts like gzip is decompressed, also if the name is different.
 */
export async function* bytesOf(
  path: string,
  read: (bytes: number) => void,
  stdin: AsyncIterable<Buffer> = process.stdin,
): AsyncGenerator<Buffer, void> {
  const input = path === '-' ? stdin : createReadStream(path, { highWaterMark: CHUNK })
  const chunks = counted(input, read)
  const first = await start(chunks)
  const whole = joined(first, chunks)
  yield* first[0] === 0x1f && first[1] === 0x8b ? decompressed(whole) : whole
}

function decompressed(chunks: AsyncGenerator<Buffer, void>): AsyncIterable<Buffer> {
  const gunzip = createGunzip({ chunkSize: CHUNK })
  // The error reaches the loop over the last stream.
  return pipeline(Readable.from(chunks), gunzip, () => undefined)
}

async function* counted(input: AsyncIterable<Buffer>, read: (bytes: number) => void): AsyncGenerator<Buffer, void> {
  for await (const chunk of input) {
    read(chunk.length)
    yield chunk
  }
}

/** Returns a copy of the start, at least two bytes if there are two. */
async function start(chunks: AsyncGenerator<Buffer, void>): Promise<Buffer> {
  let found: Buffer = Buffer.alloc(0)
  while (found.length < 2) {
    const { value, done } = await chunks.next()
    if (done === true) return found
    found = Buffer.concat([found, value])
  }
  return found
}

async function* joined(first: Buffer, rest: AsyncGenerator<Buffer, void>): AsyncGenerator<Buffer, void> {
  if (first.length > 0) yield first
  yield* rest
}

export const LONGEST_LINE = 65_536

/** The most bytes in one text. V8 allocates each text above 128 KiB separately, which takes twice as long. */
const PART = 32_768

const NOTHING = Buffer.alloc(0)

/** Cuts chunks into lines. Between two chunks it keeps at most one line of the longest length. */
export class Lines {
  #rest: Buffer = NOTHING
  /** True within a line that is too long. */
  #skips = false
  readonly #each: (line: string | undefined) => void

  /** @param each receives a line without its end, or `undefined` for a line that is too long */
  constructor(each: (line: string | undefined) => void) {
    this.#each = each
  }

  push(chunk: Buffer): void {
    let at = 0
    for (let end = this.#endOfPart(chunk, at); end !== -1; end = this.#endOfPart(chunk, at)) {
      this.#read(chunk.subarray(at, end))
      at = end + 1
    }
    this.#keep(chunk.subarray(at))
  }

  /** Takes the text after the last line feed as a line. */
  end(): void {
    if (this.#skips || this.#rest.length > 0) this.#read(NOTHING)
  }

  /** Returns the place of the line feed that ends a part, or -1. A part is one line, or several lines with at most `PART` bytes together. */
  #endOfPart(chunk: Buffer, at: number): number {
    const isStart = this.#rest.length === 0 && !this.#skips
    const last = isStart ? chunk.subarray(at, at + PART).lastIndexOf(10) : -1
    return last === -1 ? chunk.indexOf(10, at) : at + last
  }

  #keep(part: Buffer): void {
    if (this.#skips || part.length === 0) return
    this.#skips = this.#rest.length + part.length > LONGEST_LINE
    this.#rest = this.#skips ? NOTHING : Buffer.concat([this.#rest, part])
  }

  #read(part: Buffer): void {
    const whole = this.#rest.length === 0 ? part : Buffer.concat([this.#rest, part])
    const isLong = this.#skips || whole.length > LONGEST_LINE
    this.#rest = NOTHING
    this.#skips = false
    if (isLong) return this.#each(undefined)
    for (const line of whole.toString('utf8').split('\n')) this.#each(line.endsWith('\r') ? line.slice(0, -1) : line)
  }
}

/** The entries of one file in the order of their times, without the late lines. */
export class Source {
  readonly path: string
  /** The number of requests that were not late. */
  requests = 0
  /** The number of late requests, and the longest of their delays in milliseconds. */
  late = 0
  latest = 0
  readonly format: Format
  readonly #options: LogSettings
  readonly #problems: Problems
  readonly #chunks: AsyncGenerator<Buffer, void>
  readonly #lines: Lines
  readonly #memory: Memory
  readonly #reorder: Reorder
  #chunk: Chunk = { size: 0, held: 0 }
  #line = 0
  #ready: LogEntry[] = []
  #at = 0

  /**
   * @param memory has room for the entries of all files
   * @param read is called with the number of bytes of each read
   */
  constructor(path: string, options: LogSettings, problems: Problems, memory: Memory, read: (bytes: number) => void) {
    this.path = path
    this.#options = options
    this.#problems = problems
    this.format = new Format(options.format, options.parse)
    this.#memory = memory
    this.#reorder = new Reorder(options.reorder, memory)
    this.#chunks = bytesOf(path, read, options.stdin)
    this.#lines = new Lines((line) => this.#add(line))
  }

  /** The next entry. `undefined` if more must be read first. */
  get next(): LogEntry | undefined {
    return this.#ready[this.#at]
  }

  /** Returns the next entry, and moves on. */
  take(): LogEntry {
    return this.#ready[this.#at++]!
  }

  /** True if the reorder window did not fit into memory. */
  get isFull(): boolean {
    return this.#reorder.hasOverflowed
  }

  /** Reads until there is a next entry. Returns false at the end. */
  async fill(): Promise<boolean> {
    while (this.next === undefined) {
      for (const entry of this.#ready) this.#memory.remove(entry)
      this.#ready.length = 0
      this.#at = 0
      const chunk = await this.#read()
      if (chunk === undefined) return this.#end()
      this.#chunk = { size: chunk.length, held: 0 }
      this.#lines.push(chunk)
      this.#reorder.release(this.#ready)
    }
    return true
  }

  /** Releases the remaining entries. Returns false if there are none. */
  #end(): boolean {
    this.#lines.end()
    this.#reorder.flush(this.#ready)
    if (this.isFull && this.next === undefined)
      this.#problems.notes.push(`${this.path}: the reorder window did not fit into memory, so it was shorter`)
    return this.next !== undefined
  }

  async #read(): Promise<Buffer | undefined> {
    try {
      const { value, done } = await this.#chunks.next()
      return done === true ? undefined : value
    } catch (error) {
      const { code = '', message } = error as NodeJS.ErrnoException
      if (!code.startsWith('Z_')) throw new SluiceError('LOG_UNREADABLE', `${this.path}: ${message}`, { cause: error })
      const reason = code === 'Z_BUF_ERROR' ? 'the compressed data is cut off' : 'the compressed data is damaged'
      this.#problems.notes.push(`${this.path}: ${reason}. Only the lines up to line ${this.#line} are read`)
      return undefined
    }
  }

  #add(line: string | undefined): void {
    this.#line++
    if (line === '') return
    this.#problems.lines++
    if (line === undefined) return this.#refuse(`longer than ${LONGEST_LINE / 1024} KiB`, '')
    const entry = this.#entryOf(line)
    if (typeof entry === 'string') return this.#refuse(entry, line)
    if (entry.key === '') this.#problems.withoutKey++
    if (!Number.isInteger(entry.request.time / 1000)) this.#problems.hasFractions = true
    const by = this.#reorder.add(entry)
    if (by === 0) this.requests++
    else {
      this.late++
      this.latest = Math.max(this.latest, by)
      this.#refuse('later than the reorder window', line)
    }
  }

  /** Returns the request of a line, or the reason why there is none. */
  #entryOf(text: string): LogEntry | string {
    const request = this.format.parse(text)
    if (typeof request === 'string') return request
    const cost = this.#options.costOf(request)
    if (cost === undefined) return 'no cost that is a whole number from 0'
    const key = this.#options.keyOf(request)
    return { request: this.#kept(request), key, cost, line: this.#line, chunk: this.#chunk }
  }

  /** Drops fields and headers that are no longer needed, so that long JSON lines do not fill the reorder window. */
  #kept(request: LoggedRequest): LoggedRequest {
    const { fields, headers } = request
    if (this.#options.keepsFacts || (fields ?? headers) === undefined) return request
    return { ...request, headers: undefined, fields: undefined }
  }

  #refuse(reason: string, line: string): void {
    this.#problems.count(reason, this.path, this.#line, line)
  }
}

interface Sample {
  readonly file: string
  readonly line: number
  /** The start of the line. */
  readonly text: string
}

/** Lines that were not read, all for the same reason. */
export interface Unread {
  readonly reason: string
  readonly lines: number
  /** The first of these lines. */
  readonly samples: readonly Sample[]
}

const MOST_SAMPLES = 3
const SAMPLE_LENGTH = 120

/** Counts the lines of logs, and the reasons why some are not read. */
export class Problems {
  /** The number of lines that are not empty. */
  lines = 0
  withoutKey = 0
  /** True if a time has a fraction of a second. */
  hasFractions = false
  /** Sentences about whole files. */
  readonly notes: string[] = []
  readonly #byReason = new Map<string, { readonly reason: string; lines: number; samples: Sample[] }>()

  count(reason: string, file: string, line: number, text: string): void {
    const found = madeOnce(this.#byReason, reason, () => ({ reason, lines: 0, samples: [] }))
    found.lines++
    if (found.samples.length >= MOST_SAMPLES) return
    const start = text.length > SAMPLE_LENGTH ? `${text.slice(0, SAMPLE_LENGTH)}…` : ` ${text}`.slice(1)
    found.samples.push({ file, line, text: start })
  }

  /** The most frequent reason first. */
  get unread(): Unread[] {
    return [...this.#byReason.values()].toSorted((one, other) => other.lines - one.lines)
  }
}
