import { fetchRow } from '../stores/inspect.ts'
import { type Held, heldOf } from '../stores/held.ts'
import { readRedisKey, redisKey } from '../stores/redis/keys.ts'
import { transactionFailure } from '../stores/redis/failure.ts'
import { programFor } from '../stores/redis/library.ts'
import { fetchStored } from '../stores/redis/stored.ts'
import type { ScriptClient } from '../stores/redis/clients.ts'
import type { ListedDatabase } from '../stores/row-database.ts'
import { readRecordKey, recordKey, rowStore } from '../stores/rows.ts'
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
  read(): Promise<Held>
  /** Returns false if nothing was stored. */
  reset(): Promise<boolean>
}

/** Reads a key. Returns `undefined` for one that is damaged: one of them does not hide all others. */
export async function readable(key: StoredKey): Promise<Held | undefined> {
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
  /** Lists the next keys, about `STEP` of them. After the end, it starts again. */
  next(): Promise<{ readonly keys: readonly StoredKey[]; readonly isEnd: boolean }>
  /** Returns the number of keys. In Redis, this includes keys of other programs. */
  size(): Promise<number>
}

/** The number of keys for one step. Redis does nothing else during a step, for about a millisecond. */
const STEP = 1000

/** Calls `found` with the next keys of a source, about `count` of them or up to the end. Returns true at the end. */
export async function listKeys(
  source: KeySource,
  count: number,
  found: (keys: readonly StoredKey[]) => Promise<void>,
): Promise<boolean> {
  for (let listed = 0; listed < count; listed += STEP) {
    const { keys, isEnd } = await source.next()
    await found(keys)
    if (isEnd) return true
  }
  return false
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
        source: redisSource([runner], prefix),
        store: () => redisStore(connected, { prefix }),
        texts: (topic) => redisTexts(runner, prefix, topic),
      }),
    )
  return withDatabase(url, options, ({ database }) =>
    work({
      source: rowSource(database),
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
  return withServers(url, options.client, (runners) => work(redisSource(runners, options.prefix)))
}

const SCAN = `local reply = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3], 'TYPE', 'hash')
return { reply[1], unpack(reply[2]) }`
const SIZE = `return redis.call('DBSIZE')`

/** The keys in Redis. The servers are read one after another. */
function redisSource(runners: readonly ScriptClient[], prefix: string): KeySource {
  const pattern = `${prefix.replaceAll(/[*?[\]\\]/g, '\\$&')}*`
  let [server, cursor] = [0, '0']
  function keyOn(runner: ScriptClient, { name, limiter, key }: NamedKey): StoredKey {
    return {
      name,
      limiter,
      key,
      read: async () => heldOf(name, await fetchStored(runner, name)),
      reset: () => resetKey(runner, name),
    }
  }
  return {
    contents: 'keys in Redis',
    keyOf: (limiter, key) => keyOn(runners[0]!, { name: redisKey(prefix, limiter, key), limiter, key }),
    async next() {
      const runner = runners[server]!
      const reply = (await runner.call('eval', SCAN, [], [cursor, pattern, String(STEP)])) as unknown[]
      const [after, ...names] = reply.map(String)
      cursor = after!
      if (cursor === '0') server = (server + 1) % runners.length
      const keys = keysOfClients(names, (name) => readRedisKey(prefix, name)).map((each) => keyOn(runner, each))
      return { keys, isEnd: cursor === '0' && server === 0 }
    },
    async size() {
      const sizes = await Promise.all(runners.map((runner) => runner.call('eval', SIZE, [], [])))
      return sizes.reduce<number>((sum, size) => sum + Number(size), 0)
    },
  }
}

/** The keys in a database of rows. */
function rowSource(database: ListedDatabase): KeySource {
  let last = ''
  function keyOf(limiter: string, key: string): StoredKey {
    const name = recordKey(limiter, key)
    const read = async (): Promise<Held> => heldOf(name, await fetchRow(database, name))
    const reset = async (): Promise<boolean> => {
      // A damaged row cannot be read. A reset deletes it.
      const isStored = await fetchRow(database, name).then(
        ({ states }) => states.length > 0,
        () => true,
      )
      await perform(rowStore(database), { kind: 'forget', limiter, key })
      return isStored
    }
    return { name, limiter, key, read, reset }
  }
  return {
    contents: `rows in ${database.place?.name ?? 'the database'}`,
    keyOf,
    async next() {
      const names = await database.keysAfter(last, STEP)
      const isEnd = names.length < STEP
      last = isEnd ? '' : names.at(-1)!
      return { keys: keysOfClients(names, readRecordKey).map(({ limiter, key }) => keyOf(limiter, key)), isEnd }
    },
    size: async () => database.size(),
  }
}

type NamedKey = Pick<StoredKey, 'name' | 'limiter' | 'key'>

/** Reads names in a database. Leaves out internal ones: rules have a key without a limiter, and marks, probes and checks have limiters that start with `·`. */
function keysOfClients(
  names: readonly string[],
  read: (name: string) => Omit<NamedKey, 'name'> | undefined,
): NamedKey[] {
  return names.flatMap((name) => {
    const found = read(name)
    return found === undefined || found.limiter === '' || found.limiter.startsWith('·') ? [] : { name, ...found }
  })
}

/** Deletes the state of a key by its name in Redis, as the reset of a store does. Returns true if there was a state. */
export async function resetKey(client: ScriptClient, name: string): Promise<boolean> {
  // This program has no algorithms, so it does not know how long a state counts. Its note of the reset expires with the key.
  const { script } = programFor([])
  const [, answer] = (await client.call('eval', script, [name], ['forget'])) as unknown[]
  const deleted = Number(answer)
  if (Number.isNaN(deleted)) throw transactionFailure(String(answer), [])
  return deleted === 1
}
