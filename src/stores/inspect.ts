import { decodeRecord, decodeStored } from '../engine/codec.ts'
import { DENIALS, DENIALS_UNTIL, LOCKED_UNTIL } from '../engine/row.ts'
import { boundedKey } from '../util/bounded-key.ts'
import { type Entry, type Held, heldOf, type Stored, type StoredState } from './held.ts'
import { redisKey } from './redis/keys.ts'
import { connectionIn } from './redis/place.ts'
import { fetchStored } from './redis/stored.ts'
import type { RowDatabase } from './row-database.ts'
import { databaseIn, recordKey } from './rows.ts'
import type { Store } from './store.ts'

/** Reads the row of a key without changing it. */
export async function fetchRow(database: RowDatabase, record: string): Promise<Stored> {
  return database.transact(
    [record],
    ([bytes], now) => {
      let until = -1
      const states: StoredState[] = []
      for (const [limit, section] of decodeRecord(bytes ?? undefined)) {
        const { row, signature, cells, entries } = decodeStored(section)
        const [algorithm = '', ...numbers] = signature.split(',')
        const [lock, denialsUntil] = [row.rare[LOCKED_UNTIL]!, row.rare[DENIALS_UNTIL]!]
        const end = Math.max(row.until, lock, denialsUntil)
        if (end <= now) continue
        until = Math.max(until, end)
        const list: Entry[] = []
        entries.each((time, cost) => list.push({ time, cost }))
        const counts = row.until > now
        states.push({
          limit,
          algorithm: counts ? algorithm : '',
          numbers: counts ? numbers.map(Number) : [],
          cells: counts ? cells : [],
          entries: counts ? list : [],
          lock,
          denials: denialsUntil > now ? row.rare[DENIALS]! : 0,
        })
      }
      const ordered = states.toSorted((a, b) => (a.limit < b.limit ? -1 : 1))
      return { writes: [], result: { now, ttl: until === -1 ? -1 : (until - now) / 1000, states: ordered } }
    },
    { readOnly: true },
  )
}

/**
 * Reads the state of a key of a limiter from the database of a store. Returns `undefined` for a store without a database. Rejects with the error of
 * the client.
 * @param isStored true if `key` is in the form that the store keeps. Default false: a long key is hashed
 */
export async function inspectKey(
  store: Store,
  limiter: string,
  key: string,
  isStored = false,
): Promise<Held | undefined> {
  const stored = isStored ? key : boundedKey(key)
  const connection = connectionIn(store)
  if (connection !== undefined) {
    const name = redisKey(connection.prefix, limiter, stored)
    return heldOf(name, await fetchStored(connection.scripts, name))
  }
  const database = databaseIn(store)
  if (database === undefined) return undefined
  const record = recordKey(limiter, stored)
  return heldOf(record, await fetchRow(database, record))
}
