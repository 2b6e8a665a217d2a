import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { shown, SluiceError } from '../util/errors.ts'
import { type RedisClient, scriptClient, type ScriptClient } from '../stores/redis/clients.ts'
import { clients, type ClientPackage, type Connection, type ServerAddress } from './clients.ts'

/**
 * Connects to the Redis server or cluster at a URL with an installed client, and calls `work`. Throws `STORE_FAILED` with the
 * URL if there is no connection.
 */
export async function withRedis<Answer>(
  url: string,
  name: string | undefined,
  work: (runner: ScriptClient, client: RedisClient) => Promise<Answer>,
): Promise<Answer> {
  const address = addressOf(url)
  const [client, loaded] = await installed(name)
  try {
    return await using(await reached(url, client.single(loaded, address)), work)
  } catch (error) {
    // This is a node of a cluster, and another node has the key.
    if (!/\bMOVED\b|\bMoved\b/.test(String(error))) throw error
    return using(await reached(url, client.cluster(loaded, address)), work)
  }
}

/**
 * Connects to the Redis server at a URL, or to all primaries of its cluster, and calls `work` with one runner for each. A runner
 * sees the keys of its server alone.
 */
export async function withServers<Answer>(
  url: string,
  name: string | undefined,
  work: (runners: readonly ScriptClient[]) => Promise<Answer>,
): Promise<Answer> {
  const address = addressOf(url)
  const [client, loaded] = await installed(name)
  const connections = [await reached(url, client.single(loaded, address))]
  try {
    const [first] = connections.map(runnerOf)
    for (const { host, port } of await primariesOf(first!)) {
      const primary = { ...address, host: host === '' ? address.host : host, port }
      connections.push(await reached(url, client.single(loaded, primary)))
    }
    const runners = connections.map(runnerOf)
    return await work(runners.length === 1 ? runners : runners.slice(1))
  } finally {
    for (const connection of connections) connection.close()
  }
}

function runnerOf({ client }: Connection): ScriptClient {
  return scriptClient(client as RedisClient, undefined)
}

/** The primaries of a cluster; none for a server that is not in a cluster. */
async function primariesOf(runner: ScriptClient): Promise<readonly { host: string; port: number }[]> {
  const reply = await runner.eval(PRIMARIES, [], [])
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

async function reached(url: string, connecting: Promise<Connection>): Promise<Connection> {
  try {
    return await connecting
  } catch (cause) {
    const reason = (cause as Error).message.trim()
    throw new SluiceError('STORE_FAILED', `no connection to ${withoutSecrets(url)}: ${reason}`, { cause })
  }
}

async function using<Answer>(
  connection: Connection,
  work: (runner: ScriptClient, client: RedisClient) => Promise<Answer>,
): Promise<Answer> {
  try {
    const client = connection.client as RedisClient
    return await work(scriptClient(client, undefined), client)
  } finally {
    connection.close()
  }
}

/** Hides the password, or a user without one, also in a text that is no valid URL. */
function withoutSecrets(url: string): string {
  return url.replace(/^([a-z]*:?\/*(?:[^:@/]*:)?).*@/is, '$1***@')
}

function addressOf(text: string): ServerAddress {
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
      `expected a URL such as redis://localhost:6379/0, got ${shown(withoutSecrets(text))}`,
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

async function installed(name: string | undefined): Promise<readonly [ClientPackage, unknown]> {
  const names = clients.map((each) => each.name).join(', ')
  const wanted = name === undefined ? clients : clients.filter((each) => each.name === name)
  if (wanted.length === 0)
    throw new SluiceError('INVALID_OPTION', `--client: expected one of ${names}, got ${shown(name)}`)
  for (const each of wanted) {
    const loaded = await load(each.name)
    if (loaded !== undefined) return [each, loaded]
  }
  const missing = name === undefined ? 'No Redis client is installed' : `The client ${shown(name)} is not installed`
  const which = name === undefined ? `one of ${names}` : 'it'
  throw new SluiceError('NOT_APPLICABLE', `${missing}. Install ${which} where you run this`)
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
