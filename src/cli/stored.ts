import { readSignature } from '../stores/redis/signature.ts'
import { CHUNK, ENTRY } from '../stores/redis/lua/entries.ts'

/** The stored state of one limit. */
export interface StoredState {
  readonly limit: string
  /** The algorithm that wrote it; `''` if there is only a lock. */
  readonly algorithm: string
  /** The parameters, `perMs` first. */
  readonly numbers: readonly number[]
  readonly cells: readonly number[]
  readonly entries: readonly Entry[]
  /** The epoch microsecond until which the key is locked out; 0 if it is not. */
  readonly lock: number
}

export interface Entry {
  readonly time: number
  readonly cost: number
}

type Fields = ReadonlyMap<string, Buffer>

/** Bytes before the numbers: the hash of the header, and the second until which the key is known to be kept. */
const NUMBERS_AT = 12

/** Reads the fields of a hash, by the names of the limits. */
export function storedStates(fields: Fields): StoredState[] {
  const [names, states] = [fields.get('names'), fields.get('states')]
  if (names === undefined || states === undefined) return []
  let at = NUMBERS_AT
  const read = (): number => states.readDoubleLE((at += 8) - 8)
  const all = names
    .toString()
    .split('\n')
    .map((line) => stateOf(line, read, fields))
  return all.toSorted((a, b) => (a.limit < b.limit ? -1 : 1))
}

/** Reads a line of the header: the limit's name, the number of its cells, `+` for a log, `!` for a lock, and the signature. */
function stateOf(line: string, read: () => number, fields: Fields): StoredState {
  const [, limit = '', width, log, mark, text = ''] = /^([^\t]+)\t(\d)(\+?)(!?)(.*)$/.exec(line)!
  const { name: algorithm, numbers } = text === '' ? { name: '', numbers: [] } : readSignature(text)
  const lock = mark === '!' ? read() : 0
  const count = Number(width)
  if (log === '+') return { limit, algorithm, numbers, lock, ...logState(`log:${limit}`, count, fields) }
  return { limit, algorithm, numbers, lock, cells: Array.from({ length: count }, read), entries: [] }
}

function logState(field: string, count: number, fields: Fields): Pick<StoredState, 'cells' | 'entries'> {
  const value = fields.get(field)
  if (value === undefined) return { cells: Array.from({ length: count }, () => 0), entries: [] }
  const numbers = Array.from({ length: count + 2 }, (_, i) => value.readDoubleLE(8 * i))
  const [head, tail] = numbers.slice(-2) as [number, number]
  const entries = entriesIn(field, fields, value.subarray(8 * numbers.length), head, tail)
  return { cells: numbers.slice(0, count), entries }
}

/** The first and the newest chunk are part of the value, the others have fields of their own. */
function entriesIn(field: string, fields: Fields, inline: Buffer, head: number, tail: number): Entry[] {
  const firstEnd = Math.min((Math.floor(head / CHUNK) + 1) * CHUNK, tail)
  const newest = Math.max(Math.floor((tail - 1) / CHUNK) * CHUNK, firstEnd)
  return Array.from({ length: tail - head }, (_, i) => {
    const index = head + i
    if (index < firstEnd) return entryAt(inline, i)
    if (index >= newest) return entryAt(inline, firstEnd - head + index - newest)
    return entryAt(fields.get(`${field}\0${Math.floor(index / CHUNK)}`)!, index % CHUNK)
  })
}

function entryAt(bytes: Buffer, index: number): Entry {
  return { time: bytes.readDoubleLE(index * ENTRY), cost: bytes.readDoubleLE(index * ENTRY + 8) }
}
