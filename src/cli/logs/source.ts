import { SluiceError } from '../../util/errors.ts'
import { bytesOf } from './bytes.ts'
import type { Chunk, LogEntry } from './entry.ts'
import { Format } from './format.ts'
import { Lines, LONGEST_LINE } from './lines.ts'
import type { LogSettings } from './options.ts'
import type { Problems } from './problems.ts'
import { Reorder } from './reorder.ts'
import type { LoggedRequest } from './request.ts'

/** What is read: the standard input, or a file. */
export interface Input {
  readonly path: string
  /** Its place in the list of all. Requests of one time are in the order of this list. */
  readonly place: number
  /** True for a file that can be read again. */
  readonly isFile: boolean
  /** The bytes that are read at most. */
  readonly most: number
}

/** Receives the lines that come later than the reorder window, and by how many milliseconds. */
export type OnLate = (source: Source, entry: LogEntry, by: number, text: string, problems: Problems) => void

/** One file, as entries in the order of their times, without its late lines. */
export class Source {
  readonly path: string
  readonly place: number
  readonly isFile: boolean
  /** The requests that were not late. */
  requests = 0
  /** The late ones. */
  late = 0
  /** The sum of their line numbers. */
  lateLines = 0
  /** The bytes that were read. */
  bytes = 0
  readonly format: Format
  readonly #options: LogSettings
  readonly #problems: Problems
  readonly #chunks: AsyncGenerator<Buffer, void>
  readonly #onLate: OnLate
  readonly #lines: Lines
  readonly #reorder: Reorder
  #chunk: Chunk = { size: 0, held: 0 }
  #line = 0
  #ready: LogEntry[] = []
  #at = 0

  /** @param read called with the number of bytes of each read */
  constructor(input: Input, options: LogSettings, problems: Problems, read: (bytes: number) => void, onLate: OnLate) {
    this.path = input.path
    this.place = input.place
    this.isFile = input.isFile
    this.#options = options
    this.#problems = problems
    this.#onLate = onLate
    this.format = new Format(options.format, options.parse)
    this.#reorder = new Reorder(options.reorder)
    const count = (bytes: number): void => {
      this.bytes += bytes
      read(bytes)
    }
    this.#chunks = bytesOf(input.path, count, input.most)
    this.#lines = new Lines((line) => this.#add(line))
  }

  /** The next entry, `undefined` if there is none before another read. */
  get next(): LogEntry | undefined {
    return this.#ready[this.#at]
  }

  take(): void {
    this.#at++
  }

  /** Reads until there is a next entry. Returns false at the end. */
  async fill(): Promise<boolean> {
    while (this.next === undefined) {
      this.#ready.length = 0
      this.#at = 0
      const chunk = await this.#read()
      if (chunk !== undefined) this.#push(chunk)
      else if (!this.#end()) return false
    }
    return true
  }

  #push(chunk: Buffer): void {
    this.#chunk = { size: chunk.length, held: 0 }
    this.#lines.push(chunk)
    this.#reorder.release(this.#ready)
  }

  /** Releases what is left. Returns false if nothing is. */
  #end(): boolean {
    this.#lines.end()
    this.#reorder.flush(this.#ready)
    if (this.#reorder.hasOverflowed && this.next === undefined && !this.isFile)
      this.#problems.notes.push(`${this.path}: the reorder window was full, so it was shorter than --reorder says`)
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
    const entry = this.entryOf(line, this.#line)
    if (typeof entry === 'string') return this.#refuse(entry, line)
    if (entry.key === '') this.#problems.withoutKey++
    if (!Number.isInteger(entry.request.time / 1000)) this.#problems.hasFractions = true
    const by = this.#reorder.add(entry)
    if (by === 0) this.requests++
    else this.#passOn(entry, by, line)
  }

  #passOn(entry: LogEntry, by: number, line: string): void {
    this.late++
    this.lateLines += entry.line
    this.#onLate(this, entry, by, line, this.#problems)
  }

  /** Returns the request of a line, or why there is none. */
  entryOf(text: string, line: number): LogEntry | string {
    const request = this.format.parse(text)
    if (typeof request === 'string') return request
    const cost = this.#options.costOf(request)
    if (cost === undefined) return 'no cost that is a whole number from 0'
    const key = this.#options.keyOf(request)
    return { request: this.#kept(request), key, cost, line, chunk: this.#chunk }
  }

  /** Drops what is no longer needed, so that long JSON lines do not fill the reorder window. */
  #kept(request: LoggedRequest): LoggedRequest {
    const { fields, headers } = request
    if (this.#options.keepsFacts || (fields ?? headers) === undefined) return request
    return { ...request, headers: undefined, fields: undefined }
  }

  #refuse(reason: string, line: string): void {
    this.#problems.count(reason, this.path, this.#line, line)
  }
}
