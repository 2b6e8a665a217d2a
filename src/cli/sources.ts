import { fetchRow } from '../stores/inspect.ts'
import type { Stored } from '../stores/held.ts'
import { readRedisKey, redisKey } from '../stores/redis/keys.ts'
import { transactionFailure } from '../stores/redis/failure.ts'
import { programFor } from '../stores/redis/library.ts'
import { fetchStored } from '../stores/redis/stored.ts'
import type { ScriptClient } from '../stores/redis/clients.ts'
import { type ListedDatabase, readRecordKey, recordKey, rowStore } from '../stores/rows.ts'
import { redisStore } from '../stores/redis/index.ts'
import { perform, type Store } from '../stores/store.ts'
import { redisTexts, rowTexts, type SharedTexts } from '../stores/texts.ts'
import { SluiceError } from '../util/errors.ts'
import { withRedis, withServers } from './connect.ts'
import { isDatabaseUrl, type TableOptions, withDatabase } from './databases.ts'

/** A key in the place where a store keeps it. */
export interface StoredKey {
  /** The name in the database. */
  readonly name: string
  readonly limiter: string
  readonly key: string
  read(): Promise<Stored>
  /** Returns false if nothing was stored. */
  reset(): Promise<boolean>
}

/** Reads a key. Returns `undefined` for one that is damaged: one of them does not hide all others. */
export async function readable(key: StoredKey): Promise<Stored | undefined> {
  return key.read().catch((error: unknown) => {
    if (error instanceof SluiceError && error.code === 'DAMAGED_ROW') return undefined
    throw error
  })
}

/** The place of the counts of limiters, for the command line. */
export interface KeySource {
  /** A name for the listed keys, such as `'keys in Redis'`. */
  readonly contents: string
  /** Returns a key. It need not exist. */
  keyOf(limiter: string, key: string): StoredKey
  /** Calls `found` with the next keys, about `count` of them or up to the end. Returns true at the end: the next call starts again. */
  next(count: number, found: (keys: readonly StoredKey[]) => Promise<void>): Promise<boolean>
  /** Returns the number of keys. In Redis, this includes keys of other programs. */
  size(): Promise<number>
}

export interface SourceOptions extends TableOptions {
  /** In Redis: the start of each key. */
  readonly prefix: string
  /** The Redis client to use. Default: the first that is installed. */
  readonly client?: string | undefined
}

/** The source, the store and the texts at a URL. */
export interface Place {
  readonly source: KeySource
  store(): Store
  texts(topic: string): SharedTexts
}

export async function withPlace<Answer>(
  url: string,
  options: SourceOptions,
  work: (place: Place) => Promise<Answer>,
): Promise<Answer> {
  const { prefix, client } = options
  if (!isDatabaseUrl(url))
    return withRedis(url, client, (runner, connected) =>
      work({
        source: new RedisSource([runner], prefix),
        store: () => redisStore(connected, { prefix }),
        texts: (topic) => redisTexts(runner, prefix, topic),
      }),
    )
  return withDatabase(url, options, ({ database }) =>
    work({
      source: new RowSource(database),
      store: () => rowStore(database),
      texts: (topic) => rowTexts(database, topic),
    }),
  )
}

/** Calls `work` with the source of all keys. In a cluster, these are the keys of all servers. */
export async function withAllKeys<Answer>(
  url: string,
  options: SourceOptions,
  work: (source: KeySource) => Promise<Answer>,
): Promise<Answer> {
  if (isDatabaseUrl(url)) return withPlace(url, options, ({ source }) => work(source))
  return withServers(url, options.client, (runners) => work(new RedisSource(runners, options.prefix)))
}

/** The number of keys for one step. Redis does nothing else during a step, for about a millisecond. */
const STEP = 1000

const SCAN = `local reply = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3], 'TYPE', 'hash')
return { reply[1], unpack(reply[2]) }`
const SIZE = `return redis.call('DBSIZE')`

/** The keys in Redis. The servers are read one after another. */
class RedisSource implements KeySource {
  readonly contents = 'keys in Redis'
  readonly #runners: readonly ScriptClient[]
  readonly #prefix: string
  readonly #pattern: string
  #server = 0
  #cursor = '0'

  constructor(runners: readonly ScriptClient[], prefix: string) {
    this.#runners = runners
    this.#prefix = prefix
    this.#pattern = `${prefix.replaceAll(/[*?[\]\\]/g, '\\$&')}*`
  }

  keyOf(limiter: string, key: string): StoredKey {
    return this.#keyOn(this.#runners[0]!, redisKey(this.#prefix, limiter, key), { limiter, key })
  }

  async next(count: number, found: (keys: readonly StoredKey[]) => Promise<void>): Promise<boolean> {
    for (let looked = 0; looked < count; looked += STEP) {
      const runner = this.#runners[this.#server]!
      const args = [this.#cursor, this.#pattern, String(STEP)]
      const [cursor, ...names] = ((await runner.eval(SCAN, [], args)) as unknown[]).map(String)
      this.#cursor = cursor!
      await found(
        names.flatMap((name) => {
          const read = readRedisKey(this.#prefix, name)
          return read === undefined || isOwn(read.limiter) ? [] : this.#keyOn(runner, name, read)
        }),
      )
      if (cursor === '0' && this.#nextServer()) return true
    }
    return false
  }

  async size(): Promise<number> {
    const sizes = await Promise.all(this.#runners.map((runner) => runner.eval(SIZE, [], [])))
    return sizes.reduce<number>((sum, size) => sum + Number(size), 0)
  }

  #keyOn(runner: ScriptClient, name: string, named: { limiter: string; key: string }): StoredKey {
    return { name, ...named, read: () => fetchStored(runner, name), reset: () => resetKey(runner, name) }
  }

  #nextServer(): boolean {
    this.#server = (this.#server + 1) % this.#runners.length
    return this.#server === 0
  }
}

/** Returns true for internal keys: rules have a key without a limiter, and marks, probes and checks have limiters that start with `·`. */
function isOwn(limiter: string): boolean {
  return limiter === '' || limiter.startsWith('·')
}

class RowSource implements KeySource {
  readonly contents: string
  readonly #database: ListedDatabase
  #last = ''

  constructor(database: ListedDatabase) {
    this.#database = database
    this.contents = `rows in ${database.place?.name ?? 'the database'}`
  }

  keyOf(limiter: string, key: string): StoredKey {
    const name = recordKey(limiter, key)
    const read = (): Promise<Stored> => fetchRow(this.#database, name)
    const reset = async (): Promise<boolean> => {
      // A damaged row cannot be read. A reset deletes it.
      const isStored = await read().then(
        ({ states }) => states.length > 0,
        () => true,
      )
      await perform(rowStore(this.#database), { kind: 'forget', limiter, key })
      return isStored
    }
    return { name, limiter, key, read, reset }
  }

  async next(count: number, found: (keys: readonly StoredKey[]) => Promise<void>): Promise<boolean> {
    for (let looked = 0; looked < count; looked += STEP) {
      const names = await this.#database.keysAfter(this.#last, STEP)
      const isEnd = names.length < STEP
      this.#last = isEnd ? '' : names.at(-1)!
      await found(
        names.flatMap((name) => {
          const read = readRecordKey(name)
          return read === undefined || isOwn(read.limiter) ? [] : this.keyOf(read.limiter, read.key)
        }),
      )
      if (isEnd) return true
    }
    return false
  }

  async size(): Promise<number> {
    return this.#database.size()
  }
}

/** Deletes the state of a key by its name in Redis, as the reset of a store does. Returns true if there was a state. */
export async function resetKey(client: ScriptClient, name: string): Promise<boolean> {
  // This program has no algorithms, so it does not know how long a state counts. Its note of the reset expires with the key.
  const { script } = programFor([])
  const [, answer] = (await client.eval(script, [name], ['forget'])) as unknown[]
  const deleted = Number(answer)
  if (Number.isNaN(deleted)) throw transactionFailure(String(answer), [])
  return deleted === 1
}
