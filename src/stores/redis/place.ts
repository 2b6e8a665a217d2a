import { randomUUID } from 'node:crypto'
import { type EventEmitter, errorMonitor } from 'node:events'
import { brand, hasBrand, shared } from '../../util/copies.ts'
import { registerPlace } from '../places.ts'
import type { Store, StoreDescription } from '../store.ts'
import type { RedisClient, ScriptClient } from './clients.ts'

interface Address {
  readonly host?: string | undefined
  readonly port?: number | undefined
  readonly path?: string | null | undefined
}

/** The options of clients that show where they connect to. */
interface Options extends Address {
  /** Of ioredis. */
  readonly db?: number
  readonly sentinels?: readonly Address[] | null
  readonly name?: string | null
  /** Of node-redis. */
  readonly socket?: Address
  readonly database?: number
  /** Of a cluster of node-redis. */
  readonly rootNodes?: readonly { readonly url?: string; readonly socket?: Address }[]
}

interface Placed extends Partial<Pick<EventEmitter, 'on' | 'off'>> {
  readonly options?: Options | undefined
  /** Of a cluster of node-redis. */
  readonly _options?: Options | undefined
  /** Of valkey-glide. */
  readonly config?: { readonly addresses?: readonly Address[] }
  /** Of a cluster of ioredis. */
  readonly isCluster?: boolean
  readonly startupNodes?: readonly unknown[]
  /** Of ioredis: `'end'` once it is closed. */
  readonly status?: string
  /** Of node-redis. */
  readonly isOpen?: boolean
  readonly isReady?: boolean
  /** Of valkey-glide. */
  readonly isClosed?: boolean
}

/** Returns the id of a place: the first one that any connection has written there. It is kept for a day after it was last asked for. */
const FIND = `
local id = redis.call('HGET', KEYS[1], 'id')
if not id then
  id = ARGV[1]
  redis.call('HSET', KEYS[1], 'id', id)
end
redis.call('PEXPIRE', KEYS[1], 86400000)
return id
`
/** The key of the id, behind the prefix. It is no limiter's, as their names have no `%` there. */
const KEY = '%place'

const known = shared('identities', () => new WeakMap<RedisClient, Map<string, Connection>>())
const connections = shared('connections', (): { all: readonly WeakRef<Connection>[] } => ({ all: [] }))

/** Remembers the latest error of a client since its last answer, while a store uses the client. */
class ClientErrors {
  readonly #client: WeakRef<Placed>
  /** Stores that are not closed. */
  #users = 0
  #error: unknown

  constructor(client: object) {
    this.#client = new WeakRef(client)
  }

  /** A store uses the client. Returns a function for when the store is closed. */
  use(): () => void {
    // This event shows errors without handling them: a client behaves the same if it has no other listener for errors.
    if (this.#users++ === 0) this.#client.deref()?.on?.(errorMonitor, this.#note)
    let isOver = false
    return () => {
      if (!isOver && --this.#users === 0) this.#client.deref()?.off?.(errorMonitor, this.#note)
      isOver = true
    }
  }

  clear(): void {
    this.#error = undefined
  }

  /** Why the client has no answer; `undefined` if it does not know. */
  get trouble(): string | undefined {
    if (this.#error !== undefined) return textOf(this.#error)
    const { status, isReady } = this.#client.deref() ?? {}
    if (status !== undefined && status !== 'ready') return `the client is not connected (${status})`
    return isReady === false ? 'the client is not connected' : undefined
  }

  readonly #note = (error: unknown): void => {
    this.#error = error
  }
}

const clientErrors = shared('client errors', () => new WeakMap<RedisClient, ClientErrors>())

function errorsOf(client: RedisClient): ClientErrors {
  const errors = clientErrors.get(client) ?? new ClientErrors(client)
  clientErrors.set(client, errors)
  return errors
}

/**
 * A client and a prefix: the identity of the stores that have both. Options show the server of some clients at once. Beside another
 * client, the server is asked once which place it is, after its first answer. It stays unknown when the server refuses.
 */
export class Connection {
  readonly client: RedisClient
  readonly prefix: string
  readonly scripts: ScriptClient
  readonly errors: ClientErrors
  #isReached = false
  #isAsked = false

  constructor(client: RedisClient, prefix: string, scripts: ScriptClient) {
    this.client = client
    this.prefix = prefix
    this.scripts = scripts
    this.errors = errorsOf(client)
    const server = serverOf(client as object)
    if (server === undefined) return
    registerPlace(this, JSON.stringify([server, `${scripts.keyPrefix}${prefix}`]), openTest(client as object))
  }

  isBesideOf(other: Connection): boolean {
    return this.client !== other.client
  }

  isOpen(): boolean {
    const { status, isOpen, isClosed } = this.client as Placed
    return status !== 'end' && isClosed !== true && !(this.#isReached && isOpen === false)
  }

  describe(): StoreDescription {
    return { name: nameOf(this.client as Placed), trouble: this.errors.trouble }
  }

  /** Notes that the server has answered. */
  reached(): void {
    this.errors.clear()
    if (this.#isReached) return
    this.#isReached = true
    for (const each of openConnections()) if (each.isBesideOf(this)) return this.ask()
  }

  /** Asks the server which place it is, unless it was asked before or has not answered yet. */
  ask(): void {
    if (!this.#isReached || this.#isAsked) return
    this.#isAsked = true
    void this.#find()
  }

  async #find(): Promise<void> {
    try {
      const id = String(await this.scripts.eval(FIND, [`${this.prefix}${KEY}`], [randomUUID()]))
      if (/^[\da-f-]{36}$/.test(id)) registerPlace(this, id, openTest(this.client as object))
    } catch {
      // Unknown, such as to a user that may not do this.
    }
  }
}

/** The connections of each version of the package. */
const CONNECTION: unique symbol = Symbol.for('sluice.Connection')
brand(Connection, CONNECTION)

/** Returns the connection of a store in Redis, also of a wrapped one, or `undefined` for any other store. */
export function connectionIn(store: Store): Connection | undefined {
  return hasBrand(store.identity, CONNECTION) ? (store.identity as Connection) : undefined
}

function openConnections(): readonly Connection[] {
  return connections.all.flatMap((each) => each.deref() ?? []).filter((each) => each.isOpen())
}

/** Returns the same object for all stores of one client and prefix: they count under the same keys. */
export function connectionOf(client: RedisClient, prefix: string, scripts: ScriptClient): Connection {
  const prefixes = known.get(client) ?? new Map<string, Connection>()
  known.set(client, prefixes)
  const connection = prefixes.get(prefix) ?? new Connection(client, prefix, scripts)
  if (!prefixes.has(prefix)) register(connection)
  prefixes.set(prefix, connection)
  return connection
}

/** Asks those that are beside a new connection, since they have not been asked while there was only one client. */
function register(connection: Connection): void {
  const others = openConnections()
  connections.all = [...others, connection].map((each) => new WeakRef(each))
  for (const each of others) if (each.isBesideOf(connection)) each.ask()
}

/** Returns the server and database of a client. `undefined` for a client that does not show it, such as valkey-glide. */
function serverOf(client: Placed): unknown {
  const { options, isCluster, startupNodes } = client
  if (isCluster === true) return startupNodes
  if (options?.sentinels) return [options.name, ...options.sentinels.map(addressOf)]
  if (options === undefined || !('status' in client || 'isOpen' in client)) return undefined
  return [addressOf(options.socket ?? options), options.db ?? options.database ?? 0]
}

/** The name of the server in messages: its address, without user and password. */
function nameOf(client: Placed): string {
  const { options, _options, isCluster, startupNodes, config } = client
  if (options?.sentinels) return `Redis "${options.name}"`
  const nodes = isCluster === true ? startupNodes : (_options?.rootNodes ?? config?.addresses)
  if (nodes !== undefined) return `Redis at ${nodes.map(nodeName).join(', ')}`
  const server = options?.socket ?? options
  if (server === undefined || !('status' in client || 'isOpen' in client)) return 'Redis'
  const database = options?.db ?? options?.database ?? 0
  return `Redis at ${addressOf(server)}${database === 0 ? '' : `, database ${database}`}`
}

/** The address of a node, which may be an object, a port or a URL. */
function nodeName(node: unknown): string {
  if (typeof node === 'number') return addressOf({ port: node })
  const { url = node, socket = node } = Object(node) as { url?: unknown; socket?: unknown }
  if (typeof url !== 'string') return addressOf(socket as Address)
  const { hostname, port } = URL.canParse(url) ? new URL(url) : { hostname: 'an unknown address', port: '' }
  return addressOf({ host: hostname, port: Number(port || 6379) })
}

/** The message of an error. Errors that stand for several others have none of their own. */
function textOf(error: unknown): string {
  const { message, errors } = error as Partial<AggregateError>
  return message || (errors?.length ? textOf(errors[0]) : String(error))
}

function addressOf({ host = 'localhost', port = 6379, path }: Address): string {
  return path ?? `${host === 'localhost' ? '127.0.0.1' : host}:${port}`
}

/** Returns a function that returns false once the client is closed. A client of node-redis may not be open yet. */
function openTest(client: Placed): () => boolean {
  const reference = new WeakRef(client)
  const { isOpen: wasOpen } = client
  return function isOpen() {
    const now = reference.deref()
    return (
      now !== undefined && now.status !== 'end' && now.isClosed !== true && (wasOpen !== true || now.isOpen === true)
    )
  }
}
