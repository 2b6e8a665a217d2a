import { SluiceError } from '../../util/errors.ts'
import { bytesOf } from './bytes.ts'
import type { Chunk, LogEntry } from './entry.ts'
import { Format } from './format.ts'
import { Lines, LONGEST_LINE } from './lines.ts'
import type { LogSettings } from './options.ts'
import type { Problems } from './problems.ts'
import { Reorder } from './reorder.ts'
import type { LoggedRequest } from './request.ts'

/** One file, as entries in the order of their times. */
export class Source {
  readonly path: string
  readonly format: Format
  readonly #options: LogSettings
  readonly #problems: Problems
  readonly #chunks: AsyncGenerator<Buffer, void>
  readonly #lines: Lines
  readonly #reorder: Reorder
  #chunk: Chunk = { size: 0, held: 0 }
  #line = 0
  #ready: LogEntry[] = []
  #at = 0

  /** @param read called with the number of bytes of each read */
  constructor(path: string, options: LogSettings, problems: Problems, read: (bytes: number) => void) {
    this.path = path
    this.#options = options
    this.#problems = problems
    this.format = new Format(options.format, options.parse)
    this.#reorder = new Reorder(options.reorder)
    this.#chunks = bytesOf(path, read)
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
    if (this.#reorder.hasOverflowed && this.next === undefined)
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
    const request = this.format.parse(line)
    if (typeof request === 'string') return this.#refuse(request, line)
    const cost = this.#options.costOf(request)
    if (cost === undefined) return this.#refuse('no cost that is a whole number from 0', line)
    const key = this.#options.keyOf(request)
    if (key === '') this.#problems.withoutKey++
    if (!Number.isInteger(request.time / 1000)) this.#problems.hasFractions = true
    const late = this.#reorder.add({ request: this.#kept(request), key, cost, line: this.#line, chunk: this.#chunk })
    if (late > 0) this.#problems.countLate(late, this.path, this.#line, line)
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
