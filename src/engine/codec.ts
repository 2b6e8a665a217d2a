import { type Algorithm, MAX_CELLS } from '../algorithms/algorithm.ts'
import { EntryArray } from '../algorithms/entries.ts'
import { type CompiledLimit, fromParameters } from './compiled-limit.ts'
import { knownAlgorithms, withVariants } from './limit.ts'
import { SluiceError } from '../util/errors.ts'
import { CHANGE_UNTIL, DENIALS_UNTIL, LOCKED_UNTIL, RARE, Row } from './row.ts'
import { TOLERANCE_MS } from '../util/ticks.ts'

/**
 * The bytes of rows, little-endian. A record has all rows of one key under one limiter:
 *
 *     u8  version
 *     u32 FNV-1a hash of all that follows
 *     then for each limit
 *     u16 length, name of the limit in UTF-8
 *     u32 length of what follows: a section
 *     f64 the microsecond until which the state counts
 *     u8  bits of the rare parts that are not 0, f64 each
 *     u16 length, signature of the limit that wrote the state in UTF-8; 0 for no state, and nothing follows
 *     u8  count, f64 cells
 *     u32 count, f64 time and f64 cost of each entry
 *
 * The sections of limits that a request does not name are copied as bytes, so they count again when a limit is changed back.
 */
const VERSION = 1
const HEAD_BYTES = 5
/** The largest record. A log of the largest quota takes 1.6 MB. */
export const MOST_BYTES: number = 4 << 20

/** The sections of a record, by name of limit. */
export type Sections = Map<string, Uint8Array>

const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { fatal: true })

/** Splits a record. Throws `DAMAGED_ROW` for bytes that no version of the package wrote. */
export function decodeRecord(bytes: Uint8Array | undefined): Sections {
  const sections: Sections = new Map()
  if (bytes === undefined) return sections
  const reader = new Reader(bytes)
  if (bytes.length > MOST_BYTES || reader.u8() !== VERSION || reader.u32() !== hash(bytes)) throw damaged()
  while (!reader.isAtEnd) sections.set(reader.text(reader.u16()), reader.bytes(reader.u32()))
  return sections
}

/**
 * Returns the record of the sections that count, and until when it does; no record when none does. A section is kept for the time by which a
 * clock may step back. Throws `STORE_REJECTED` for a record that is too large.
 */
export function encodeRecord(sections: Sections, now: number): { row: Uint8Array | undefined; until: number } {
  const out = new Writer()
  const oldest = now - TOLERANCE_MS * 1000
  let until = oldest
  out.u8(VERSION)
  out.u32(0)
  for (const [name, section] of sections) {
    const ending = expiryOf(section)
    if (ending <= oldest) continue
    until = Math.max(until, ending)
    out.text(name)
    out.u32(section.length)
    out.bytes(section)
  }
  if (until === oldest) return { row: undefined, until }
  const row = out.done()
  if (row.length > MOST_BYTES) throw tooLarge(row.length)
  new DataView(row.buffer).setUint32(1, hash(row), true)
  return { row, until }
}

export function encodeRow(row: Row): Uint8Array {
  const { writer, rare } = row
  const out = new Writer()
  out.f64(row.until)
  let bits = 0
  for (let i = 0; i < RARE; i++) if (rare[i] !== 0) bits |= 1 << i
  out.u8(bits)
  for (let i = 0; i < RARE; i++) if (rare[i] !== 0) out.f64(rare[i]!)
  if (row.unread !== undefined) {
    out.bytes(row.unread)
    return out.done()
  }
  out.text(writer?.signature ?? '')
  if (writer === undefined) return out.done()
  out.u8(writer.cells)
  for (let i = 0; i < writer.cells; i++) out.f64(row.cells[i]!)
  out.u32(row.entries?.length ?? 0)
  row.entries?.each((time, cost) => {
    out.f64(time)
    out.f64(cost)
  })
  return out.done()
}

/** Reads a section as the row of a limit, or as that of whichever limit wrote it. */
export function decodeRow(section: Uint8Array, compiled?: CompiledLimit): Row {
  const { row, signature, cells, entries, state } = decodeStored(section)
  if (signature === '') return row
  const writer = signature === compiled?.signature ? compiled : writerOf(compiled?.algorithm, signature)
  if (writer === undefined) row.unread = state
  else if (writer.cells !== cells.length) throw damaged()
  else {
    row.cells.set(cells)
    row.writer = writer
    if (writer.hasEntries) row.entries = entries
  }
  return row
}

/** A section as it is stored, whatever limit wrote it. */
interface StoredSection {
  /** Its times and rare parts. */
  readonly row: Row
  /** Of the limit that wrote the state: the algorithm, ticks in a millisecond, the parameters. `''` for no state. */
  readonly signature: string
  readonly cells: readonly number[]
  readonly entries: EntryArray
  /** The bytes of the state. */
  readonly state: Uint8Array
}

export function decodeStored(section: Uint8Array): StoredSection {
  const reader = new Reader(section)
  const row = decodeHead(reader)
  const state = reader.rest()
  const signature = reader.text(reader.u16())
  if (signature !== '') {
    const cells = Array.from({ length: Math.min(reader.u8(), MAX_CELLS) }, () => reader.f64())
    return { row, signature, cells, entries: readEntries(reader), state }
  }
  reader.end()
  return { row, signature, cells: [], entries: new EntryArray(), state }
}

/** Reads until when the state of a section counts, and the rare parts. */
function decodeHead(reader: Reader): Row {
  const row = new Row()
  row.until = reader.time()
  const bits = reader.u8()
  for (let i = 0; i < RARE; i++) if ((bits & (1 << i)) !== 0) row.rare[i] = reader.time()
  row.hasRare = bits !== 0
  return row
}

/** Returns the microsecond until which anything of a section counts. */
function expiryOf(section: Uint8Array): number {
  const { until, rare } = decodeHead(new Reader(section))
  return Math.max(until, rare[LOCKED_UNTIL]!, rare[DENIALS_UNTIL]!, rare[CHANGE_UNTIL]!)
}

function readEntries(reader: Reader): EntryArray {
  const entries = new EntryArray()
  let newest = -Infinity
  for (let left = reader.u32(); left > 0; left--) {
    const time = reader.time()
    const cost = reader.time()
    if (!(time > newest) || !(cost > 0)) throw damaged()
    entries.push(time, cost)
    newest = time
  }
  reader.end()
  return entries
}

/** Returns the limit that wrote a state, as far as it is needed to convert it and to see until when it counts, if its algorithm is known. */
function writerOf(algorithm: Algorithm | undefined, signature: string): CompiledLimit | undefined {
  for (const by of withVariants([...(algorithm === undefined ? [] : [algorithm]), ...knownAlgorithms()])) {
    if (!signature.startsWith(`${by.name},`)) continue
    const [perMs, ...values] = signature
      .slice(by.name.length + 1)
      .split(',')
      .map(Number)
    if (values.length !== by.parameters.length || !values.every(Number.isFinite)) continue
    if (perMs !== 1 && perMs !== 1000) continue
    return fromParameters(by, Object.fromEntries(by.parameters.map((name, i) => [name, values[i]!])), perMs)
  }
  return undefined
}

/** Returns FNV-1a of a record behind its hash. */
function hash(bytes: Uint8Array): number {
  let h = 0x811c9dc5
  for (let i = HEAD_BYTES; i < bytes.length; i++) h = Math.imul(h ^ bytes[i]!, 0x01000193)
  return h >>> 0
}

function damaged(): SluiceError {
  return new SluiceError(
    'DAMAGED_ROW',
    'A row in the database is damaged, or a later version of the package wrote it. `reset` deletes it, and the key starts from zero',
  )
}

function tooLarge(bytes: number): SluiceError {
  return new SluiceError(
    'STORE_REJECTED',
    `The state of a key would take ${bytes} bytes, more than ${MOST_BYTES}. Use slidingWindowBuckets in place of slidingWindowLog, ` +
      'or fewer limits for each key',
  )
}

/** Reads numbers. Throws `DAMAGED_ROW` beyond the end. */
class Reader {
  readonly #view: DataView
  readonly #bytes: Uint8Array
  #at = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length
  }

  end(): void {
    if (!this.isAtEnd) throw damaged()
  }

  u8(): number {
    return this.#view.getUint8(this.#skip(1))
  }

  u16(): number {
    return this.#view.getUint16(this.#skip(2), true)
  }

  u32(): number {
    return this.#view.getUint32(this.#skip(4), true)
  }

  f64(): number {
    const value = this.#view.getFloat64(this.#skip(8), true)
    if (Number.isNaN(value)) throw damaged()
    return value
  }

  /** A number that is finite. */
  time(): number {
    const value = this.f64()
    if (!Number.isFinite(value)) throw damaged()
    return value
  }

  bytes(length: number): Uint8Array {
    const at = this.#skip(length)
    return this.#bytes.subarray(at, at + length)
  }

  rest(): Uint8Array {
    return this.#bytes.subarray(this.#at)
  }

  text(length: number): string {
    try {
      return decoder.decode(this.bytes(length))
    } catch {
      throw damaged()
    }
  }

  #skip(length: number): number {
    const at = this.#at
    if (at + length > this.#bytes.length) throw damaged()
    this.#at += length
    return at
  }
}

/** Writes numbers into bytes that grow. */
class Writer {
  #bytes = new Uint8Array(128)
  #view = new DataView(this.#bytes.buffer)
  #length = 0

  u8(value: number): void {
    const at = this.#grow(1)
    this.#view.setUint8(at, value)
  }

  u16(value: number): void {
    const at = this.#grow(2)
    this.#view.setUint16(at, value, true)
  }

  u32(value: number): void {
    const at = this.#grow(4)
    this.#view.setUint32(at, value, true)
  }

  f64(value: number): void {
    const at = this.#grow(8)
    this.#view.setFloat64(at, value, true)
  }

  bytes(value: Uint8Array): void {
    const at = this.#grow(value.length)
    this.#bytes.set(value, at)
  }

  /** The length in bytes, and the text. */
  text(text: string): void {
    const bytes = encoder.encode(text)
    this.u16(bytes.length)
    this.bytes(bytes)
  }

  done(): Uint8Array {
    return this.#bytes.slice(0, this.#length)
  }

  /** Returns where so many more bytes begin. `#bytes` and `#view` may be new afterwards. */
  #grow(length: number): number {
    const at = this.#length
    this.#length += length
    if (this.#length <= this.#bytes.length) return at
    const bytes = new Uint8Array(2 * this.#length)
    bytes.set(this.#bytes)
    this.#bytes = bytes
    this.#view = new DataView(bytes.buffer)
    return at
  }
}
