import { capacityIn } from '../engine/compiled-limit.ts'
import {
  type Algorithm,
  createOutcome,
  type LimitParameters,
  MAX_CELLS,
  type Outcome,
} from '../algorithms/algorithm.ts'
import { EntryArray } from '../algorithms/entries.ts'
import { knownAlgorithms, withVariants } from '../engine/all-algorithms.ts'

// What is stored for a key, in a form that people can read. The command line and the dashboard show it.

export interface StoredState {
  readonly limit: string
  /** The algorithm that wrote it; `''` after a reset. */
  readonly algorithm: string
  /** The parameters of the algorithm, `perMs` first. */
  readonly numbers: readonly number[]
  readonly cells: readonly number[]
  readonly entries: readonly Entry[]
  /** The epoch microsecond until which the key is locked out; 0 if it is not. */
  readonly lock: number
  /** The denials since the last reset that count for a `block` that grows. */
  readonly denials: number
}

export interface Entry {
  readonly time: number
  readonly cost: number
}

/** What is stored for a key. */
export interface Stored {
  /** The time of the server in microseconds. */
  readonly now: number
  /** Milliseconds until the server may delete it; negative for never, or if it does not exist. */
  readonly ttl: number
  readonly states: readonly StoredState[]
}

/** A number of a state with its name. A point in time is a text in ISO 8601. */
interface NamedCell {
  readonly name: string
  readonly value: number | string
}

/** The state of a key. Times are in milliseconds. */
export interface Held {
  readonly key: string
  /** Time until the database deletes it; `undefined` if there is no state. */
  readonly ttl: number | undefined
  readonly limits: readonly HeldByLimit[]
}

export interface HeldByLimit extends Pick<StoredState, 'limit' | 'entries' | 'denials'> {
  /** The algorithm that wrote it; `undefined` if there is only a lock, or denials. */
  readonly algorithm: string | undefined
  readonly parameters: Readonly<Record<string, number>>
  readonly state: readonly NamedCell[]
  /** The times of the oldest and the newest entry, as ISO 8601. */
  readonly span: readonly [oldest: string, newest: string] | undefined
  /** Time for which the key is locked out. */
  readonly lockedFor: number
  /** The verdict for a request now; `undefined` if the algorithm is not registered here. */
  readonly verdict: HeldVerdict | undefined
}

interface HeldVerdict {
  readonly remaining: number
  readonly used: number
  /** Units that a key without a state has. */
  readonly capacity: number
  readonly resetAfter: number
  /** True for a limit of slots: `resetAfter` is the time until the newest slot expires. A slot is renewed while its request runs. */
  readonly slots: boolean
}

/** Derives the present state of a key from what is stored. */
export function heldOf(key: string, { now, ttl, states }: Stored): Held {
  // The other states only say that the key was reset.
  const counting = states.filter(({ algorithm, lock, denials }) => algorithm !== '' || lock > now || denials > 0)
  const limits = counting.map((each) => heldBy(each, now))
  return { key, ttl: ttl < 0 || limits.length === 0 ? undefined : ttl, limits }
}

function heldBy(
  { limit, algorithm: name, numbers, cells, entries, lock, denials }: StoredState,
  now: number,
): HeldByLimit {
  const algorithm = withVariants(knownAlgorithms()).find((each) => each.name === name)
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
    verdict: algorithm && verdict(algorithm, parameters as LimitParameters, cells, entries, now),
  }
}

/** Gives the cells of a state the names from its algorithm. Cells of an unknown algorithm are numbered. */
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
  const [oldest, newest] = [entries[0], entries.at(-1)].map((each) => each && timeText(each.time, ticks, parameters))
  return oldest === undefined || newest === undefined ? undefined : [oldest, newest]
}

/** Returns a point in time as ISO 8601, or the number if it is outside the range of a date. */
function timeText(time: number, ticks: string | 1, parameters: Readonly<Record<string, number>>): string {
  const ms = (time * (ticks === 1 ? 1 : parameters[ticks]!)) / parameters['perMs']!
  return Math.abs(ms) <= 8.64e15 ? new Date(ms).toISOString() : String(ms)
}

function named(algorithm: Algorithm | undefined, numbers: readonly number[]): Readonly<Record<string, number>> {
  const names = algorithm?.parameters ?? numbers.slice(1).map((_, i) => `parameter ${i + 1}`)
  return Object.fromEntries(numbers.map((number, i) => [i === 0 ? 'perMs' : names[i - 1]!, number]))
}

function verdict(
  algorithm: Algorithm,
  parameters: LimitParameters,
  cells: readonly number[],
  list: readonly Entry[],
  now: number,
): HeldVerdict {
  const ticks = Math.floor((now / 1000) * parameters['perMs']!)
  const outcomeOf = (cells: readonly number[], list: readonly Entry[]): Outcome => {
    const state = new Float64Array(MAX_CELLS)
    state.set(cells)
    const entries = new EntryArray()
    for (const { time, cost } of list) entries.push(time, cost)
    const out = createOutcome()
    algorithm.step({ ...parameters, strict: 0 }, state, 0, ticks, 0, out, entries)
    return out
  }
  const { remaining, reset } = outcomeOf(cells, list)
  const capacity = capacityIn(algorithm, parameters) ?? outcomeOf([], []).remaining
  const used = Math.max(0, capacity - remaining)
  return { remaining, used, capacity, resetAfter: reset / parameters['perMs']!, slots: algorithm.renew !== undefined }
}
