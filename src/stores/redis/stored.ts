import type { ScriptClient } from './clients.ts'
import { UNREADABLE } from './failure.ts'
import { ENTRY, readSignature, RECORD } from './keys.ts'
import script from './stored.lua?raw'
import type { Entry, Stored, StoredState } from '../held.ts'
import { SluiceError } from '../../util/errors.ts'

/** Reads the state of a key, its expiry and the time in one call. */
export async function fetchStored(runner: ScriptClient, key: string): Promise<Stored> {
  const [seconds, micros, ttl, ...rest] = ((await runner.call('eval', script, [key], [])) as unknown[]).map(String)
  const fields = new Map<string, Buffer>()
  for (let i = 0; i < rest.length; i += 2) {
    fields.set(Buffer.from(rest[i]!, 'hex').toString(), Buffer.from(rest[i + 1]!, 'hex'))
  }
  return { now: Number(seconds) * 1_000_000 + Number(micros), ttl: Number(ttl), states: readStates(fields) }
}

/** Throws `DAMAGED_ROW` for fields that this version of the package did not write. */
function readStates(fields: Fields): StoredState[] {
  try {
    return storedStates(fields)
  } catch (cause) {
    throw new SluiceError('DAMAGED_ROW', UNREADABLE, { cause })
  }
}

type Fields = ReadonlyMap<string, Buffer>

/** Bytes before the numbers: the hash of the header, and the second until which the key is kept at least. */
const NUMBERS_AT = 12
/** Bytes between the cells of a log and its entries. */
const LAYOUT = 12

/** Reads the fields of a hash, by the names of the limits. */
function storedStates(fields: Fields): StoredState[] {
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

/**
 * Reads a line of the header: the limit's name, the number of its cells, `+` for a log, `!` for a lock, `~` for a change, `#` for denials,
 * `^` for units that were cut off, the signature.
 */
function stateOf(line: string, read: () => number, fields: Fields): StoredState {
  const parts = /^([^\t]+)\t([0-8])(\+?)(!?)(~?)(#?)(\^?)(.*)$/.exec(line)!
  const [, limit = '', width, log, mark, change, denied, cut, text = ''] = parts
  const { name: algorithm, numbers } = text === '' ? { name: '', numbers: [] } : readSignature(text)
  const [lock] = mark === '!' ? [read(), read()] : [0]
  if (change === '~') for (let i = 0; i < 2; i++) read()
  const [denials] = denied === '#' ? [read(), read(), read()] : [0]
  if (cut === '^') read()
  const count = Number(width)
  if (log === '+') return { limit, algorithm, numbers, lock, denials, ...logState(`log:${limit}`, count, fields) }
  return { limit, algorithm, numbers, lock, denials, cells: Array.from({ length: count }, read), entries: [] }
}

function logState(field: string, count: number, fields: Fields): Pick<StoredState, 'cells' | 'entries'> {
  const value = fields.get(field)
  if (value === undefined) return { cells: Array.from({ length: count }, () => 0), entries: [] }
  const cells = Array.from({ length: count }, (_, i) => value.readDoubleLE(8 * i))
  return { cells, entries: entriesIn(value.subarray(8 * count), field, fields) }
}

/** The entries of the first chunk, of the blocks from the oldest to the newest, and of the open chunk. */
function entriesIn(value: Buffer, field: string, fields: Fields): Entry[] {
  const [first, skipped, head, tail] = [
    value.readUInt16LE(0),
    value.readUInt16LE(2),
    value.readUInt32LE(4),
    value.readUInt32LE(8),
  ]
  const chunks = value.subarray(LAYOUT)
  if (head === 0) return entriesOf(chunks)
  const between = numbersIn(fields.get(`${field}\0`) ?? Buffer.alloc(0))
  const blocks = [...new Set([head, ...between, tail])].map((number) => fields.get(`${field}\0${number}`)!)
  const all = [chunks.subarray(0, first), ...blocks, chunks.subarray(first)]
  all[1] = all[1]!.subarray(skipped)
  return all.flatMap((each) => entriesOf(each))
}

function numbersIn(index: Buffer): number[] {
  return Array.from({ length: index.length / RECORD }, (_, i) => index.readUInt32LE(i * RECORD))
}

function entriesOf(bytes: Buffer): Entry[] {
  return Array.from({ length: bytes.length / ENTRY }, (_, i) => ({
    time: bytes.readDoubleLE(i * ENTRY),
    cost: bytes.readDoubleLE(i * ENTRY + 8),
  }))
}
