/** Longer lines are not read. */
export const LONGEST_LINE = 65_536

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
    const end = chunk.lastIndexOf(10)
    if (end === -1) return this.#keep(chunk)
    const head = chunk.subarray(0, end)
    const text = (this.#rest.length === 0 ? head : Buffer.concat([this.#rest, head])).toString('utf8')
    this.#rest = NOTHING
    this.#cut(text)
    this.#keep(chunk.subarray(end + 1))
  }

  /** Takes what follows the last line feed as a line. */
  end(): void {
    if (this.#skips || this.#rest.length > 0) this.#cut(this.#rest.toString('utf8'))
    this.#rest = NOTHING
  }

  #keep(part: Buffer): void {
    if (this.#skips || part.length === 0) return
    this.#skips = this.#rest.length + part.length > LONGEST_LINE
    this.#rest = this.#skips ? NOTHING : Buffer.concat([this.#rest, part])
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
    const isLong = this.#skips || end - start > LONGEST_LINE
    this.#skips = false
    const last = end > start && text.charCodeAt(end - 1) === 13 ? end - 1 : end
    this.#each(isLong ? undefined : text.slice(start, last))
  }
}
