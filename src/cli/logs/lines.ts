/** The bytes of the longest line that is read. */
export const LONGEST_LINE = 65_536

/** The bytes that become one text. V8 allocates each text of more than 128 KiB by itself, which takes twice as long. */
const PART = 32_768

const NOTHING = Buffer.alloc(0)

/** Cuts chunks into lines. It keeps at most one line of the longest length between two chunks. */
export class Lines {
  #rest: Buffer = NOTHING
  /** True within a line that is too long. */
  #skips = false
  readonly #each: (line: string | undefined) => void

  /** @param each receives a line without its end, or `undefined` for one that is too long */
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

  /** Takes what follows the last line feed as a line. */
  end(): void {
    if (this.#skips || this.#rest.length > 0) this.#read(NOTHING)
  }

  /** Returns the place of the line feed that ends a part, or -1. A part has one line, or several of together at most `PART` bytes. */
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
    const isLong = this.#skips || this.#rest.length + part.length > LONGEST_LINE
    const text = isLong
      ? undefined
      : (this.#rest.length === 0 ? part : Buffer.concat([this.#rest, part])).toString('utf8')
    this.#rest = NOTHING
    this.#skips = false
    if (text === undefined) this.#each(undefined)
    else this.#cut(text)
  }

  #cut(text: string): void {
    let start = 0
    for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', start)) {
      this.#emit(text, start, end)
      start = end + 1
    }
    this.#emit(text, start, text.length)
  }

  #emit(text: string, start: number, end: number): void {
    const last = end > start && text.charCodeAt(end - 1) === 13 ? end - 1 : end
    this.#each(text.slice(start, last))
  }
}
