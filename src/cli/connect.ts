import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { shown, SluiceError } from '../util/errors.ts'
import { type RedisClient, scriptClient, type ScriptClient } from '../stores/redis/clients.ts'

interface Connection {
  readonly client: RedisClient
  close(): void
}

type Kind = 'single' | 'cluster'

/** Connects with the package of a Redis client. With `lasts`, the client connects again after the server was away. */
type OpenClient = (loaded: never, kind: Kind, address: ServerAddress, lasts: boolean) => Promise<Connection>

type IoredisClient = RedisClient & {
  connect(): Promise<unknown>
  select(database: number): Promise<unknown>
  disconnect(): void
  on(event: 'error', listener: (error: Error) => void): unknown
}

interface Ioredis {
  readonly Redis: new (options: object) => IoredisClient
  readonly Cluster: new (nodes: readonly object[], options: object) => IoredisClient
}

type NodeRedisClient = RedisClient & {
  connect(): Promise<unknown>
  destroy(): void
  on(event: 'error', listener: () => void): unknown
}

type NodeRedis = Readonly<Record<'createClient' | 'createCluster', (options: object) => NodeRedisClient>>

/**
 * Milliseconds before a command fails. A command must not wait until a server is back. A client that lasts replaces a connection that does not answer,
 * because a network can have forgotten it.
 */
const TIMEOUT = 5000
/** Milliseconds before a client of node-redis connects again, and between its pings. */
const RECONNECT = 500
const PING = 1000

const openIoredis: OpenClient = async ({ Redis, Cluster }: Ioredis, kind, address, lasts) => {
  const { host, port, username, password, database, tls } = address
  const options = {
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    ...(tls && { tls: {} }),
    connectTimeout: TIMEOUT,
    maxRetriesPerRequest: 1,
    ...(lasts ? { socketTimeout: TIMEOUT } : { retryStrategy: null }),
  }
  const isSingle = kind === 'single'
  // A client that connects again selects the database with its option `db`.
  const client = isSingle
    ? new Redis({ host, port, lazyConnect: true, ...(lasts && { db: database }), ...options })
    : new Cluster([{ host, port }], { lazyConnect: true, redisOptions: options })
  let reason: Error | undefined
  client.on('error', (error) => {
    reason = error
  })
  try {
    await client.connect()
    // With the option `db`, the client would use database 0 if the database does not exist.
    if (isSingle && !lasts && database !== 0) await client.select(database)
  } catch (closed) {
    client.disconnect()
    // The error `closed` only says that the connection is closed.
    throw reason ?? (closed as Error)
  }
  return { client, close: () => client.disconnect() }
}

const openNodeRedis: OpenClient = async ({ createClient, createCluster }: NodeRedis, kind, address, lasts) => {
  const { host, port, username, password, database, tls } = address
  // Without a strategy, it closes for good after `socketTimeout`, and without pings, also when it is idle.
  const again = lasts ? { socketTimeout: TIMEOUT, reconnectStrategy: RECONNECT } : { reconnectStrategy: false }
  const socket = { host, port, tls, connectTimeout: TIMEOUT, ...again }
  const pings = lasts && { pingInterval: PING }
  const options = { socket, username, password, ...pings, ...(database !== 0 && { database }) }
  const defaults = { username, password }
  const client = kind === 'single' ? createClient(options) : createCluster({ rootNodes: [options], defaults })
  client.on('error', () => undefined)
  await client.connect()
  return { client, close: () => client.destroy() }
}

const CLIENTS: Readonly<Record<string, OpenClient>> = {
  ioredis: openIoredis,
  iovalkey: openIoredis,
  redis: openNodeRedis,
}

/** The names of the known clients. The first one that is installed is used. */
export const CLIENT_NAMES: readonly string[] = Object.keys(CLIENTS)

/** Connects to one server, or to a cluster. Throws `STORE_FAILED` with the URL if there is no connection. */
type Open = (kind: Kind, lasts: boolean, at?: Partial<ServerAddress>) => Promise<Connection>

/** Returns a function that opens connections to a URL with an installed client. */
async function opener(url: string, name: string | undefined): Promise<Open> {
  const address = addressOf(url)
  const [client, loaded] = await installed(name)
  return async function open(kind, lasts, at) {
    try {
      return await CLIENTS[client]!(loaded as never, kind, { ...address, ...at }, lasts)
    } catch (cause) {
      const reason = (cause as Error).message.trim()
      throw new SluiceError('STORE_FAILED', `no connection to ${withoutSecrets(url)}: ${reason}`, { cause })
    }
  }
}

/** Calls `work` with something that was opened, and then closes it. */
export async function closing<Opened extends { close(): unknown }, Answer>(
  opened: Opened,
  work: (opened: Opened) => Answer | Promise<Answer>,
): Promise<Answer> {
  try {
    return await work(opened)
  } finally {
    await opened.close()
  }
}

/**
 * Connects to the Redis server at a URL, or to its cluster, and calls `work`. With `lasts`, for a program that runs for a long time, the client
 * connects again after a failure.
 */
export async function withRedis<Answer>(
  url: string,
  name: string | undefined,
  work: (runner: ScriptClient, client: RedisClient) => Promise<Answer>,
  lasts = false,
): Promise<Answer> {
  const open = await opener(url, name)
  const use = (connection: Connection): Promise<Answer> => work(runnerOf(connection), connection.client)
  const first = await open('single', false)
  let isCluster: boolean
  try {
    isCluster = (await primariesOf(runnerOf(first))).length > 0
    if (!isCluster && !lasts) return await use(first)
  } finally {
    first.close()
  }
  return closing(await open(isCluster ? 'cluster' : 'single', lasts), use)
}

/**
 * Connects to the Redis server at a URL, or to all primaries of its cluster, and calls `work` with one runner for each server. A runner
 * only sees the keys of its server.
 */
export async function withServers<Answer>(
  url: string,
  name: string | undefined,
  work: (runners: readonly ScriptClient[]) => Promise<Answer>,
): Promise<Answer> {
  const open = await opener(url, name)
  const connections = [await open('single', false)]
  try {
    for (const { host, port } of await primariesOf(runnerOf(connections[0]!)))
      connections.push(await open('single', false, { ...(host !== '' && { host }), port }))
    const runners = connections.map(runnerOf)
    return await work(runners.length === 1 ? runners : runners.slice(1))
  } finally {
    for (const connection of connections) connection.close()
  }
}

function runnerOf({ client }: Connection): ScriptClient {
  return scriptClient(client, undefined)
}
/** Returns the primaries of a cluster, or none if the server is not in a cluster. */
async function primariesOf(runner: ScriptClient): Promise<readonly { host: string; port: number }[]> {
  const reply = await runner.call('eval', PRIMARIES, [], [])
  const found = new Set((reply as unknown[]).map(String))
  return [...found].map((text) => {
    const colon = text.lastIndexOf(':')
    return { host: text.slice(0, colon), port: Number(text.slice(colon + 1)) }
  })
}

const PRIMARIES = `
local slots = redis.pcall('CLUSTER', 'SLOTS')
local reply = {}
for i, each in ipairs(slots.err and {} or slots) do reply[i] = (each[3][1] or '') .. ':' .. each[3][2] end
return reply
`

/** Hides the password, or a user name without a password, also in a text that is not a valid URL. */
export function withoutSecrets(url: string): string {
  return url.replace(/^([a-z]*:?\/*(?:[^:@/]*:)?).*@/is, '$1***@')
}

type ServerAddress = ReturnType<typeof addressOf>

function addressOf(text: string) {
  const url = URL.canParse(text) ? new URL(text) : undefined
  const username = url && decoded(url.username)
  const password = url && decoded(url.password)
  if (
    url === undefined ||
    username === undefined ||
    password === undefined ||
    !/^(redis|valkey)s?:$/.test(url.protocol) ||
    !/^\/?\d{0,5}$/.test(url.pathname)
  ) {
    throw new SluiceError(
      'INVALID_OPTION',
      `expected a URL such as redis://localhost:6379/0, postgres://host/database, mysql://host/database or sqlite:limits.db, got ${shown(withoutSecrets(text))}`,
    )
  }
  return {
    host: url.hostname.replaceAll(/^\[|\]$/g, '') || 'localhost',
    port: Number(url.port || 6379),
    username: username || undefined,
    password: password || undefined,
    database: Number(url.pathname.slice(1) || 0),
    tls: url.protocol === 'rediss:' || url.protocol === 'valkeys:',
  }
}

/** Returns `undefined` for a text with a `%` that escapes nothing. */
function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

async function installed(name: string | undefined): Promise<readonly [name: string, loaded: unknown]> {
  const names = CLIENT_NAMES.join(', ')
  if (name !== undefined && !CLIENT_NAMES.includes(name))
    throw new SluiceError('INVALID_OPTION', `--client: expected one of ${names}, got ${shown(name)}`)
  const found = await firstInstalled(name === undefined ? CLIENT_NAMES : [name])
  if (found !== undefined) return found
  const missing = name === undefined ? 'No Redis client is installed' : `The client ${shown(name)} is not installed`
  const which = name === undefined ? `one of ${names}` : 'it'
  throw new SluiceError('NOT_APPLICABLE', `${missing}. Install ${which} where you run this`)
}

/** Loads the first of some packages that is installed. */
export async function firstInstalled(
  names: readonly string[],
): Promise<readonly [name: string, loaded: unknown] | undefined> {
  for (const name of names) {
    const loaded = await load(name)
    if (loaded !== undefined) return [name, loaded]
  }
  return undefined
}

/** Loads a package that is installed for this package, or in the current directory. */
async function load(name: string): Promise<unknown> {
  try {
    return await import(name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error
  }
  try {
    const path = createRequire(join(process.cwd(), 'package.json')).resolve(name)
    return await import(pathToFileURL(path).href)
  } catch {
    return undefined
  }
}
