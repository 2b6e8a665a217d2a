import type { Algorithm } from '../algorithms/algorithm.ts'
import { EntryArray } from '../algorithms/entries.ts'
import { type CompiledLimit, fromParameters } from './compiled-limit.ts'
import { withVariants } from './all-algorithms.ts'
import { fnv1a } from '../util/fnv.ts'
import { broughtAlgorithms } from './limit.ts'
import { SluiceError } from '../util/errors.ts'
import { Row } from './row.ts'
import { TOLERANCE_MS } from '../util/ticks.ts'

/**
 * Rows are JSON in UTF-8, so that `SELECT` shows them. A record has all rows of one key under one limiter, by the names of their limits:
 *
 *     {"v":1,"sum":"3e0c2f71","limits":{"daily":{"until":1767229200000000,"by":"gcra,1000,…","cells":[1767225960000000]}}}
 *
 * `sum` is the FNV-1a hash of the text of `limits`, so a row that another program has changed is refused. Rows of limits that a request does not have are
 * kept, so they count again when a limit is changed back.
 *
 * A new version is first read by one release and written by the next, so that old and new processes can run together.
 */
const VERSION = 1
const HEAD = /^\{"v":1,"sum":"([0-9a-f]{8})","limits":/
/** The largest record. A log of the largest quota takes 1.9 MB. */
export const MOST_BYTES: number = 4 << 20

/** The names of the rare parts, in their order. Parts that are 0 are not stored. */
const RARE_NAMES = [
  'lockedUntil',
  'lockedAt',
  'denials',
  'deniedAt',
  'denialsUntil',
  'changedAt',
  'changeUntil',
  'cut',
] as const

interface Stored extends Readonly<Partial<Record<(typeof RARE_NAMES)[number], number>>> {
  /** The microsecond until which the state counts. */
  readonly until: number
  /** The signature of the limit that wrote the state. Absent: there is no state. */
  readonly by?: string | undefined
  /** The cells. Numbers that JSON does not have are texts. */
  readonly cells?: readonly (number | string)[] | undefined
  /** The time and cost of each entry, the oldest first. */
  readonly entries?: readonly number[] | undefined
}

/** The stored data of each limit, by its name. It is checked when it is used. */
export type Sections = Map<string, Stored>

const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Reads a record. Throws `DAMAGED_ROW` for bytes that this version of the package did not write. */
export function decodeRecord(bytes: Uint8Array | undefined): Sections {
  if (bytes === undefined) return new Map()
  if (bytes.length > MOST_BYTES) throw damaged()
  try {
    const text = decoder.decode(bytes)
    const [head, sum] = HEAD.exec(text)!
    const limits = text.slice(head.length, -1)
    if (sum === hash(limits) && text.endsWith('}')) return new Map(Object.entries(JSON.parse(limits) as object))
  } catch {
    // An error here means the same as a wrong hash.
  }
  throw damaged()
}

/**
 * Returns the record of the sections that count, and the microsecond until which it counts. Returns no record if no section counts. A section is kept longer
 * by the time by which a clock may step back. Throws `STORE_REJECTED` for a record that is too large.
 */
export function encodeRecord(sections: Sections, now: number): { row: Uint8Array | undefined; until: number } {
  const oldest = now - TOLERANCE_MS * 1000
  let until = oldest
  const kept: [string, Stored][] = []
  for (const [name, section] of sections) {
    const ending = decodeHead(section).expiry()
    if (ending > oldest) kept.push([name, section])
    until = Math.max(until, ending)
  }
  if (kept.length === 0) return { row: undefined, until }
  const limits = JSON.stringify(Object.fromEntries(kept))
  const row = encoder.encode(`{"v":${VERSION},"sum":"${hash(limits)}","limits":${limits}}`)
  if (row.length > MOST_BYTES)
    throw new SluiceError(
      'STORE_REJECTED',
      `The state of a key would take ${row.length} bytes, more than ${MOST_BYTES}. Use slidingWindowBuckets in place of slidingWindowLog, ` +
        'or fewer limits for each key',
    )
  return { row, until }
}

export function encodeRow(row: Row): Stored {
  const { writer, rare, until } = row
  const section: { -readonly [Part in keyof Stored]: Stored[Part] } = { until }
  if (row.hasRare) for (const [i, name] of RARE_NAMES.entries()) if (rare[i] !== 0) section[name] = rare[i]!
  if (writer === undefined) return section
  section.by = writer.signature
  section.cells = Array.from(row.cells.subarray(0, writer.cells), jsonOf)
  if (row.entries !== undefined && row.entries.length > 0) {
    const entries: number[] = []
    row.entries.each((time, cost) => entries.push(time, cost))
    section.entries = entries
  }
  return section
}

/**
 * Reads a section as the row of a limit. Without `compiled`, reads it as the row of the limit that wrote it. A state of an algorithm that is not known here
 * counts as none.
 */
export function decodeRow(section: Stored, compiled?: CompiledLimit): Row {
  const { row, signature, cells, entries } = decodeStored(section)
  const writer = signature === compiled?.signature ? compiled : writerOf(compiled?.algorithm, signature)
  if (writer === undefined) return row
  if (writer.cells !== cells.length) throw damaged()
  row.cells.set(cells)
  row.writer = writer
  if (writer.hasEntries) row.entries = entries
  return row
}

/** A checked section. */
interface StoredSection {
  /** The times and the rare parts. */
  readonly row: Row
  /** The limit that wrote the state: its algorithm, ticks in a millisecond and parameters. `''` if there is no state. */
  readonly signature: string
  readonly cells: readonly number[]
  readonly entries: EntryArray
}

/** Checks a section. Throws `DAMAGED_ROW`. */
export function decodeStored(section: Stored): StoredSection {
  const row = decodeHead(section)
  const { by = '', cells = [], entries = [] } = section
  if (typeof by !== 'string' || !Array.isArray(cells)) throw damaged()
  return { row, signature: by, cells: cells.map(numberOf), entries: entriesOf(entries) }
}

/** Reads the end of the state of a section, and the rare parts. */
function decodeHead(section: Stored): Row {
  const row = new Row()
  row.until = timeOf(section?.until)
  for (const [i, name] of RARE_NAMES.entries()) {
    if (section[name] === undefined) continue
    row.rare[i] = timeOf(section[name])
    row.hasRare = true
  }
  return row
}

function entriesOf(stored: readonly number[]): EntryArray {
  if (!Array.isArray(stored) || stored.length % 2 !== 0) throw damaged()
  const entries = new EntryArray()
  let newest = -Infinity
  for (let i = 0; i < stored.length; i += 2) {
    const time = timeOf(stored[i])
    const cost = timeOf(stored[i + 1])
    if (!(time > newest) || !(cost > 0)) throw damaged()
    entries.push(time, cost)
    newest = time
  }
  return entries
}

function timeOf(value: unknown): number {
  if (Number.isFinite(value)) return value as number
  throw damaged()
}

/** The numbers that JSON does not have. */
const NOT_IN_JSON: Readonly<Record<string, number>> = { '-0': -0, Infinity, '-Infinity': -Infinity }

function jsonOf(cell: number): number | string {
  return Object.is(cell, -0) ? '-0' : Number.isFinite(cell) ? cell : String(cell)
}

/** Reads a number of a state. No algorithm has NaN in its state. */
function numberOf(cell: number | string): number {
  return typeof cell === 'string' && Object.hasOwn(NOT_IN_JSON, cell) ? NOT_IN_JSON[cell]! : timeOf(cell)
}

/** Returns the limit that wrote a state, in a form that can convert the state and find its end; `undefined` if its algorithm is unknown. */
function writerOf(algorithm: Algorithm | undefined, signature: string): CompiledLimit | undefined {
  for (const by of withVariants([...(algorithm === undefined ? [] : [algorithm]), ...broughtAlgorithms()])) {
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

function hash(text: string): string {
  return fnv1a(text).toString(16).padStart(8, '0')
}

function damaged(): SluiceError {
  return new SluiceError(
    'DAMAGED_ROW',
    'A row in the database is damaged, or another version of the package wrote it. `reset` deletes it, and the key starts from zero',
  )
}
