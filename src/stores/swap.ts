import { madeOnce, shared } from '../util/copies.ts'
import { shown, SluiceError } from '../util/errors.ts'
import { optionalFunction, refuse, wholeNumber } from '../util/validate.ts'
import type { RowDatabase, RowWrite } from './row-database.ts'

/** A row of a service, with its version. */
export interface VersionedRow {
  /** The bytes. */
  readonly row: Uint8Array
  /** The version of the row in the service. It changes with each write. */
  readonly version: unknown
}

/** A row to store if its version has not changed. */
export interface SwapWrite extends RowWrite {
  /** The version that was read; `undefined` if there was no row. */
  readonly version: unknown
}

/** A service that stores a row if its version has not changed, in the form that `rowStore` needs. */
export interface SwapDatabase extends Pick<RowDatabase, 'ready' | 'close' | 'place'> {
  /** Returns the rows in the order of `keys`; `undefined` for a row that does not exist. The rows must be current, not from a replica or cache. */
  read(keys: readonly string[]): Promise<readonly (VersionedRow | undefined)[]>
  /**
   * If no version has changed, stores all writes and resolves with true. Otherwise stores none and resolves with false. An error means that it is unknown
   * whether the writes are stored. A swap is not repeated after an error.
   */
  swap(writes: readonly SwapWrite[]): Promise<boolean>
  /** The most keys of a swap, from 1. With 1, a stack is refused. Default: no limit; up to 256 operations share a swap. */
  readonly mostKeys?: number
  /** The most swaps at a time, from 1. They have no key in common. Default: 64. */
  readonly inFlight?: number
}

/** The default of `inFlight`. Swaps lock nothing, so other processes do not wait for them. */
const IN_FLIGHT = 64
/** A decision fails after this number of swaps in which another process was faster, but not before this number of milliseconds. */
const LEAST_TRIES = 10
const PATIENCE = 1000
/** The longest pause between two swaps, in milliseconds. */
const LONGEST_PAUSE = 50

const known = shared('swapped rows', () => new WeakMap<object, RowDatabase>())

/** Returns transactions of a service with `read` and `swap`; `undefined` for anything else. Throws `INVALID_OPTION`. */
export function swapRows(given: unknown): RowDatabase | undefined {
  const { read, swap, ready, close, mostKeys, inFlight } = (given ?? {}) as Partial<SwapDatabase>
  if (read === undefined && swap === undefined) return undefined
  if (typeof read !== 'function') refuse('read', 'a function', read)
  if (typeof swap !== 'function') refuse('swap', 'a function', swap)
  optionalFunction('ready', ready)
  optionalFunction('close', close)
  // Transactions are kept for each object, so they are not made of wrong options.
  if (mostKeys !== undefined) wholeNumber('mostKeys', mostKeys)
  if (inFlight !== undefined) wholeNumber('inFlight', inFlight)
  const database = given as SwapDatabase
  return madeOnce(known, database, () => rowsOf(database))
}

/** Makes transactions from swaps. A decision is stored if no row has changed in the meantime. Otherwise it is made again. */
function rowsOf(database: SwapDatabase): RowDatabase {
  const { mostKeys, inFlight = IN_FLIGHT, place, ready, close } = database
  return {
    inFlight,
    ...(mostKeys !== undefined && { mostKeys }),
    ...(mostKeys === 1 && { together: 'record' }),
    ...(place && { place }),
    ...(ready && { ready: ready.bind(database) }),
    ...(close && { close: close.bind(database) }),
    async transact(keys, change, { within = Infinity }) {
      if (mostKeys !== undefined && keys.length > mostKeys)
        throw new SluiceError(
          'STORE_REJECTED',
          `A decision has ${keys.length} keys, and this store swaps at most ${mostKeys}`,
        )
      const start = performance.now()
      for (let tries = 1; ; tries++) {
        const stored = await read(database, keys)
        const { writes, result } = change(
          stored.map((each) => each?.row),
          Date.now() * 1000,
        )
        if (writes.length === 0) return result
        const versions = new Map(keys.map((key, i) => [key, stored[i]?.version]))
        const swapped = writes.map(({ key, row, expiresAt }) => ({ key, row, expiresAt, version: versions.get(key) }))
        if (await swap(database, swapped)) return result
        const waited = performance.now() - start
        // The last quarter of the time is for one more swap and for the answer.
        const left = (within * 3) / 4 - waited
        if (left <= 0 || (waited >= PATIENCE && tries >= LEAST_TRIES)) throw changed(keys, tries)
        await pause(Math.min(left, Math.random() * Math.min(LONGEST_PAUSE, 2 ** tries)))
      }
    },
  }
}

async function read(database: SwapDatabase, keys: readonly string[]): Promise<readonly (VersionedRow | undefined)[]> {
  const stored: unknown = await database.read(keys)
  if (Array.isArray(stored) && stored.length === keys.length) return stored as (VersionedRow | undefined)[]
  throw new SluiceError('STORE_FAILED', `read: expected ${keys.length} rows, got ${shown(stored)}`)
}

/** Swaps, and throws for a result that is neither true nor false. */
async function swap(database: SwapDatabase, writes: readonly SwapWrite[]): Promise<boolean> {
  const isStored: unknown = await database.swap(writes)
  if (typeof isStored === 'boolean') return isStored
  throw new SluiceError('STORE_FAILED', `swap: expected true or false, got ${shown(isStored)}`)
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms))
}

function changed([key, ...others]: readonly string[], tries: number): SluiceError {
  const more = others.length > 0 ? `, or of one of ${others.length} more keys,` : ''
  return new SluiceError(
    'STORE_BUSY',
    `Other processes have changed the row of ${key}${more} before each of ${tries} swaps`,
  )
}
