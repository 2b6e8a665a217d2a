import { type Clock, clockGiven } from '../../util/clock.ts'
import { SluiceError } from '../../util/errors.ts'
import { quietly } from '../../util/quietly.ts'
import { knownOptions } from '../../util/validate.ts'
import type { RowDatabase } from '../row-database.ts'
import { rowStoreWith } from '../rows.ts'
import { placeOf } from '../sql.ts'
import type { AsyncStore } from '../store.ts'
import { wrappers } from './wrappers.ts'

/** `ctx.storage` of a Durable Object, with SQLite or with a key-value storage. */
export interface DurableObjectStorageLike {
  /** Runs work as a transaction. */
  transaction<Result>(work: (transaction: DurableObjectTransactionLike) => Promise<Result>): Promise<Result>
  /** SQL, for objects with SQLite. In others it throws. */
  readonly sql?: { readonly databaseSize: number }
}

/** The storage as a transaction of it sees it. */
export interface DurableObjectTransactionLike {
  /** Returns values, at most 128. */
  get(keys: string[]): Promise<Map<string, unknown>>
  /** Returns values in the order of their keys. */
  list(options: { prefix: string; startAfter?: string; limit: number }): Promise<Map<string, unknown>>
  /** Stores values, at most 128. */
  put(entries: Record<string, unknown>): Promise<void>
  /** Deletes values, at most 128. */
  delete(keys: string[]): Promise<number>
  /** Returns the time of the alarm. */
  getAlarm(): Promise<number | null>
  /** Sets the alarm. */
  setAlarm(time: number): Promise<void>
}

/** Options of `durableObjectStore`. */
export interface DurableObjectStoreOptions {
  /** Uses this clock instead of the platform's: for tests. */
  readonly clock?: Clock
}

/** A store in the storage of a Durable Object. */
export interface DurableObjectStore extends AsyncStore {
  /** Deletes expired rows, at most 512, and sets the next alarm. Call it in `alarm()` of the object. */
  alarm(): Promise<void>
}

interface Stored {
  readonly row: Uint8Array
  /** Milliseconds since 1970. */
  readonly expiresAt: number
}

/** The prefix of the keys of the store, so that an object can keep other values. */
const PREFIX = 'sluice:'
/** The most keys that the storage takes at a time. */
const MOST_KEYS = 128
/** The largest rows, in bytes, with room for the rest of the value: a value has 128 KiB at most, or 2 MiB with SQLite. */
const LARGEST_VALUE = 127 * 1024
const LARGEST_WITH_SQL = 2047 * 1024
/** How many rows an alarm reads at a time, so that large rows fit into the memory of an object, and how often it does so. */
const STEP = 16
const STEPS = 32
/** Milliseconds between two alarms that read the same rows, at least. */
const PAUSE = 60_000

/** Makes a store of the storage of a Durable Object: see `durableObjectStore`. */
export function storageStore(
  storage: DurableObjectStorageLike,
  options: DurableObjectStoreOptions,
): DurableObjectStore {
  options = knownOptions('durableObjectStore', options, ['clock'])
  const clock = options.clock && clockGiven(options.clock)
  const rows = storageRows(storage, clock ?? Date)
  const store = rowStoreWith(wrappers, rows, clock ? { clock } : {}) as AsyncStore
  return { ...store, alarm: rows.alarm }
}

function storageRows(storage: DurableObjectStorageLike, clock: Clock): RowDatabase & Pick<DurableObjectStore, 'alarm'> {
  const hasSql = quietly(() => storage.sql!.databaseSize >= 0) ?? false
  const largest = hasSql ? LARGEST_WITH_SQL : LARGEST_VALUE
  /** True if an alarm is known to be set. */
  let hasAlarm = false
  /** The last row that an alarm has read; undefined at the start of a round. */
  let after: string | undefined
  /** The earliest end of the rows that this round has read. */
  let earliest = Infinity

  /** Reads the next rows, and deletes those that have expired. Returns true if there are more rows. */
  const step = async (): Promise<boolean> => {
    const now = clock.now()
    const read = await storage.transaction(async (transaction) => {
      const found = (await transaction.list({
        prefix: PREFIX,
        limit: STEP,
        ...(after !== undefined && { startAfter: after }),
      })) as Map<string, Stored>
      const ends = Array.from(found, ([key, { expiresAt }]) => ({ key, expiresAt }))
      const expired = ends.filter(({ expiresAt }) => expiresAt < now)
      if (expired.length > 0) await transaction.delete(expired.map(({ key }) => key))
      return ends
    })
    for (const { expiresAt } of read) if (expiresAt >= now) earliest = Math.min(earliest, expiresAt)
    after = read.length === STEP ? read.at(-1)!.key : undefined
    return after !== undefined
  }

  return {
    place: placeOf(storage, 'the storage of a Durable Object'),
    async transact(keys, change) {
      const done = await storage.transaction(async (transaction) => {
        const found = new Map<string, unknown>()
        for (const some of parts(keys.map(stored)))
          for (const [key, value] of await transaction.get(some)) found.set(key, value)
        const rows = keys.map((key) => (found.get(stored(key)) as Stored | undefined)?.row)
        const { writes, result } = change(rows, Date.now() * 1000)
        const entries: [string, Stored][] = []
        const deleted: string[] = []
        for (const { key, row, expiresAt } of writes)
          if (row === undefined) deleted.push(stored(key))
          else entries.push([stored(key), { row: copyOf(row, largest), expiresAt }])
        for (const some of parts(entries)) await transaction.put(Object.fromEntries(some))
        for (const some of parts(deleted)) await transaction.delete(some)
        if (entries.length === 0 || hasAlarm) return { result, isSet: hasAlarm }
        if ((await transaction.getAlarm()) === null)
          await transaction.setAlarm(Math.min(...entries.map(([, { expiresAt }]) => expiresAt)))
        return { result, isSet: true }
      })
      hasAlarm = done.isSet
      return done.result
    },
    /** Continues where the last alarm has stopped. The next alarm goes off at once if there are more rows, otherwise when the first row has expired. */
    async alarm() {
      hasAlarm = false
      for (let i = 0; i < STEPS; i++) if (!(await step())) break
      const isOver = after === undefined
      const now = Date.now()
      // Until the next alarm, rows can be inserted before the place that this round has reached.
      if (!isOver) earliest = Math.min(earliest, now)
      if (earliest === Infinity) return
      const next = isOver ? Math.max(earliest, now + PAUSE) : now
      await storage.transaction((transaction) => transaction.setAlarm(next))
      if (isOver) earliest = Infinity
      hasAlarm = true
    },
  }
}

/** Copies a row, because the storage keeps the whole buffer of an array. Throws `STORE_REJECTED` for a row that is too large. */
function copyOf(row: Uint8Array, largest: number): Uint8Array {
  if (row.byteLength <= largest) return row.slice()
  throw new SluiceError(
    'STORE_REJECTED',
    `The row of a key would have ${row.byteLength} bytes, and a value in the storage of this Durable Object has at most ${largest}`,
  )
}

function stored(key: string): string {
  return PREFIX + key
}

function* parts<Item>(items: readonly Item[]): Generator<Item[]> {
  for (let i = 0; i < items.length; i += MOST_KEYS) yield items.slice(i, i + MOST_KEYS)
}
