import script from './redis/texts.lua?raw'
import type { ScriptClient } from './redis/clients.ts'
import { connectionIn } from './redis/place.ts'
import type { ListedDatabase } from './row-database.ts'
import { databaseIn } from './rows.ts'
import type { Store } from './store.ts'

// Small texts that processes share in the database of their counts. Each text expires.

/** A text that has not expired. */
export interface KeptText {
  readonly name: string
  /** Milliseconds since the text was written, by the clock of the database. */
  readonly age: number
  /** The text; `''` if it has more than `LARGEST_TEXT` bytes. */
  readonly text: string
}

/** The texts of one topic in a database. Each method rejects with the error of the client. */
export interface SharedTexts {
  /** Keeps a text under a name for `ms` milliseconds. Replaces an earlier text. 0 deletes the text. */
  keep(name: string, ms: number, text: string): Promise<void>
  /** Returns at most `most` texts that have not expired. With `name`, returns only the text of this name. */
  read(most: number, name?: string): Promise<readonly KeptText[]>
}

/** The most bytes of a text. The package does not write longer texts, and reads them as `''`. */
export const LARGEST_TEXT = 16_384

/** Returns the texts in the database of a store; `undefined` if processes do not share the store, or its keys cannot be listed. */
export function textsIn(store: Store, topic: string): SharedTexts | undefined {
  const connection = connectionIn(store)
  if (connection !== undefined) return redisTexts(connection.scripts, connection.prefix, topic)
  const database = databaseIn(store)
  return database !== undefined && 'keysAfter' in database ? rowTexts(database as ListedDatabase, topic) : undefined
}

/** Returns the texts in Redis. They are in one hash, whose key belongs to no limiter. */
export function redisTexts(client: ScriptClient, prefix: string, topic: string): SharedTexts {
  const run = (...args: string[]): Promise<unknown> => client.call('eval', script, [`${prefix}:${topic}`], args)
  return {
    async keep(name, ms, text) {
      await run('keep', name, String(ms), text)
    },
    async read(most, name) {
      const named = name === undefined ? [] : [name]
      const reply = ((await run('read', String(most), String(LARGEST_TEXT), ...named)) as unknown[]).map(String)
      return Array.from({ length: Math.floor(reply.length / 3) }, (_, i) => ({
        name: reply[3 * i]!,
        age: Number(reply[3 * i + 1]),
        text: reply[3 * i + 2]!,
      }))
    },
  }
}

/** Milliseconds for which a transaction waits. A database that would block the process does not wait at all. */
const WITHIN = 1000
const encoder = new TextEncoder()
const decoder = new TextDecoder()

/** Returns the texts in the rows of a database. No record and no note has the same keys. */
export function rowTexts(database: ListedDatabase, topic: string): SharedTexts {
  const start = `${topic} `
  const within = 'sync' in database && database.sync === true ? 0 : WITHIN
  return {
    async keep(name, ms, text) {
      await database.transact(
        [start + name],
        (_, now) => {
          const row = encoder.encode(`${now} ${now + ms * 1000} ${text}`)
          return {
            writes: [{ key: start + name, row: ms === 0 ? undefined : row, expiresAt: now / 1000 + ms }],
            result: undefined,
          }
        },
        { readOnly: false, within },
      )
    },
    async read(most, name) {
      const found = await (name === undefined ? database.keysAfter(start, most) : [start + name])
      const keys = found.filter((key) => key.startsWith(start)).toSorted()
      if (keys.length === 0) return []
      return database.transact(
        keys,
        (rows, now) => ({
          writes: [],
          result: rows.flatMap((row, i) => keptIn(row ?? undefined, now, keys[i]!.slice(start.length))),
        }),
        { readOnly: true, within },
      )
    },
  }
}

function keptIn(row: Uint8Array | undefined, now: number, name: string): KeptText[] {
  const [, at, end, text] = /^(\d+) (\d+) ([^]*)$/.exec(decoder.decode(row)) ?? []
  if (text === undefined || Number(end) <= now) return []
  const bytes = row!.length - `${at} ${end} `.length
  return [{ name, age: Math.max(0, now - Number(at)) / 1000, text: bytes > LARGEST_TEXT ? '' : text }]
}
