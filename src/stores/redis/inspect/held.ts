import type { ScriptClient } from '../clients.ts'
import { readSignature, redisKey } from '../keys.ts'
import { ENTRY, RECORD } from '../lua/entries.ts'
import {
  type Algorithm,
  createOutcome,
  MAX_CELLS,
  type Outcome,
  type Parameters,
} from '../../../algorithms/algorithm.ts'
import { EntryArray } from '../../../algorithms/entries.ts'
import { knownAlgorithms } from '../../../engine/limit.ts'
import { boundedKey } from '../../../util/bounded-key.ts'
import type { Store } from '../../store.ts'
import { connectionIn } from '../place.ts'

/** The fields of a hash in Redis. */
interface Stored {
  /** The server's time in microseconds. */
  readonly now: number
  /** Milliseconds until Redis deletes the hash; −1 for never, −2 if it does not exist. */
  readonly ttl: number
  readonly fields: ReadonlyMap<string, Buffer>
}

/** Replies in hexadecimal digits: values are binary, and clients decode binary replies differently. */
const SCRIPT = `
local function hex(text)
  return (string.gsub(text, '.', function(each) return string.format('%02x', string.byte(each)) end))
end
local time = redis.call('TIME')
local reply = { time[1], time[2], tostring(redis.call('PTTL', KEYS[1])) }
for _, each in ipairs(redis.call('HGETALL', KEYS[1])) do reply[#reply + 1] = hex(each) end
return reply
`

/** Reads a hash, its expiry and the time in one call. */
export async function fetchHeld(runner: ScriptClient, key: string): Promise<Stored> {
  const [seconds, micros, ttl, ...rest] = ((await runner.eval(SCRIPT, [key], [])) as unknown[]).map(String)
  const fields = new Map<string, Buffer>()
  for (let i = 0; i < rest.length; i += 2) {
    fields.set(Buffer.from(rest[i]!, 'hex').toString(), Buffer.from(rest[i + 1]!, 'hex'))
  }
  return { now: Number(seconds) * 1_000_000 + Number(micros), ttl: Number(ttl), fields }
}

/** The stored state of one limit. */
interface StoredState {
  readonly limit: string
  /** The algorithm that wrote it; `''` after a reset. */
  readonly algorithm: string
  /** The parameters, `perMs` first. */
  readonly numbers: readonly number[]
  readonly cells: readonly number[]
  readonly entries: readonly Entry[]
  /** The epoch microsecond until which the key is locked out; 0 if it is not. */
  readonly lock: number
  /** The denials since the last reset that count for a `block` that grows. */
  readonly denials: number
}

interface Entry {
  readonly time: number
  readonly cost: number
}

type Fields = ReadonlyMap<string, Buffer>

/** Bytes before the numbers: the hash of the header, and the second until which the key is known to be kept. */
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
 * the signature.
 */
function stateOf(line: string, read: () => number, fields: Fields): StoredState {
  const parts = /^([^\t]+)\t(\d)(\+?)(!?)(~?)(#?)(.*)$/.exec(line)!
  const [, limit = '', width, log, mark, change, denied, text = ''] = parts
  const { name: algorithm, numbers } = text === '' ? { name: '', numbers: [] } : readSignature(text)
  const [lock] = mark === '!' ? [read(), read()] : [0]
  if (change === '~') for (let i = 0; i < 2; i++) read()
  const [denials] = denied === '#' ? [read(), read(), read()] : [0]
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

/** The numbers of the blocks between the oldest and the newest. */
function numbersIn(index: Buffer): number[] {
  return Array.from({ length: index.length / RECORD }, (_, i) => index.readUInt32LE(i * RECORD))
}

function entriesOf(bytes: Buffer): Entry[] {
  return Array.from({ length: bytes.length / ENTRY }, (_, i) => ({
    time: bytes.readDoubleLE(i * ENTRY),
    cost: bytes.readDoubleLE(i * ENTRY + 8),
  }))
}

/** A number of a state and its name. A point in time is in ISO 8601. */
interface NamedCell {
  readonly name: string
  readonly value: number | string
}

/** The state of a key. Times are in milliseconds. */
export interface Held {
  readonly key: string
  /** Time until Redis deletes it; `undefined` if there is no state. */
  readonly ttl: number | undefined
  readonly limits: readonly HeldByLimit[]
}

export interface HeldByLimit {
  readonly limit: string
  /** The algorithm that wrote it; `undefined` if there is only a lock, or denials. */
  readonly algorithm: string | undefined
  readonly parameters: Readonly<Record<string, number>>
  readonly state: readonly NamedCell[]
  readonly entries: readonly Entry[]
  /** The times of the oldest and the newest entry, as ISO 8601. */
  readonly span: readonly [oldest: string, newest: string] | undefined
  /** Time for which the key is locked out. */
  readonly lockedFor: number
  /** The denials that a `block` that grows has counted. */
  readonly denials: number
  /** The verdict of a request now; `undefined` if the algorithm is not registered here. */
  readonly verdict: HeldVerdict | undefined
}

interface HeldVerdict {
  readonly remaining: number
  readonly used: number
  /** Units that a key without a state has. */
  readonly capacity: number
  readonly resetAfter: number
}

export function held(key: string, { now, ttl, fields }: Stored): Held {
  const states = storedStates(fields).filter((each) => !isReset(each, now))
  const limits = states.map((each) => heldBy(each, now))
  return { key, ttl: ttl < 0 || limits.length === 0 ? undefined : ttl, limits }
}

/** True when nothing is stored but that the key was reset. */
function isReset({ algorithm, lock, denials }: StoredState, now: number): boolean {
  return algorithm === '' && lock <= now && denials === 0
}

function heldBy(
  { limit, algorithm: name, numbers, cells, entries, lock, denials }: StoredState,
  now: number,
): HeldByLimit {
  const algorithm = algorithms().find((each) => each.name === name)
  const parameters = named(algorithm, numbers)
  return {
    limit,
    algorithm: name === '' ? undefined : name,
    parameters,
    state: namedCells(algorithm, cells, parameters),
    entries,
    span: spanOf(entries, algorithm?.entryTicks, parameters),
    lockedFor: Math.max(0, lock - now) / 1000,
    denials,
    verdict: algorithm && verdict(algorithm, parameters as Parameters, cells, entries, now),
  }
}

/** Names the cells of a state as its algorithm does. Cells of an unknown algorithm are numbered. */
function namedCells(
  algorithm: Algorithm | undefined,
  cells: readonly number[],
  parameters: Readonly<Record<string, number>>,
): NamedCell[] {
  return cells.map((value, i) => {
    const { name, ticks } = algorithm?.cells[i] ?? { name: `cell ${i + 1}` }
    return { name, value: ticks === undefined ? value : timeText(value, ticks, parameters) }
  })
}

function spanOf(
  entries: readonly Entry[],
  ticks: string | 1 = 1,
  parameters: Readonly<Record<string, number>>,
): HeldByLimit['span'] {
  const [oldest, newest] = [entries[0], entries.at(-1)]
  if (oldest === undefined || newest === undefined) return undefined
  return [timeText(oldest.time, ticks, parameters), timeText(newest.time, ticks, parameters)]
}

/** Returns a point in time as ISO 8601, or the number if it is outside the range of a date. */
function timeText(time: number, ticks: string | 1, parameters: Readonly<Record<string, number>>): string {
  const ms = (time * (ticks === 1 ? 1 : parameters[ticks]!)) / parameters['perMs']!
  return Math.abs(ms) <= 8.64e15 ? new Date(ms).toISOString() : String(ms)
}

/** Returns all algorithms with their variants, which write states under their own names. */
function algorithms(): readonly Algorithm[] {
  const variants = knownAlgorithms().flatMap((each) => each.variant?.({ refill: 'interval' }) ?? [])
  const named = [...knownAlgorithms(), ...variants]
  return [...named, ...named.flatMap(({ compatibleWith = [] }) => compatibleWith)]
}

function named(algorithm: Algorithm | undefined, numbers: readonly number[]): Readonly<Record<string, number>> {
  const names = algorithm?.parameters ?? numbers.slice(1).map((_, i) => `parameter ${i + 1}`)
  return Object.fromEntries(numbers.map((number, i) => [i === 0 ? 'perMs' : names[i - 1]!, number]))
}

function verdict(
  algorithm: Algorithm,
  parameters: Parameters,
  cells: readonly number[],
  list: readonly Entry[],
  now: number,
): HeldVerdict {
  const { remaining, reset } = outcomeOf(algorithm, parameters, cells, list, now)
  const capacity = algorithm.capacity?.(parameters) ?? outcomeOf(algorithm, parameters, [], [], now).remaining
  const used = Math.max(0, capacity - remaining)
  return { remaining, used, capacity, resetAfter: reset / parameters['perMs']! }
}

function outcomeOf(
  algorithm: Algorithm,
  parameters: Parameters,
  cells: readonly number[],
  list: readonly Entry[],
  now: number,
): Outcome {
  const state = new Float64Array(MAX_CELLS)
  state.set(cells)
  const entries = new EntryArray()
  for (const { time, cost } of list) entries.push(time, cost)
  const out = createOutcome()
  const ticks = Math.floor((now / 1000) * parameters['perMs']!)
  algorithm.step({ ...parameters, strict: 0 }, state, 0, ticks, 0, out, entries)
  return out
}

/**
 * Reads what a key of a limiter has in the Redis of a store, for all processes. Returns `undefined` for a store that does not count in
 * Redis. Rejects with the error of the client.
 * @param isStored true if the key is as the store keeps it. Default false: a long key is hashed
 */
export async function inspectKey(
  store: Store,
  limiter: string,
  key: string,
  isStored = false,
): Promise<Held | undefined> {
  const connection = connectionIn(store)
  if (connection === undefined) return undefined
  const name = redisKey(connection.prefix, limiter, isStored ? key : boundedKey(key))
  return held(name, await fetchHeld(connection.scripts, name))
}
