import { type EventEmitter, errorMonitor } from 'node:events'
import { brand, hasBrand, madeOnce, shared } from '../../util/copies.ts'
import type { Place, Store } from '../store.ts'
import { type RedisClient, type ScriptClient, serverOf } from './clients.ts'
import { reasonIn } from './failure.ts'
import { KeptKey } from './kept.ts'
import { redisKey } from './keys.ts'

interface Address {
  readonly host?: string | undefined
  readonly port?: number | undefined
  readonly path?: string | null | undefined
}

/** The options of clients that contain the address of the server. */
interface Options extends Address {
  /** In ioredis. */
  readonly db?: number
  readonly sentinels?: readonly Address[] | null
  readonly name?: string | null
  /** In node-redis. */
  readonly socket?: Address
  readonly database?: number
  /** In a cluster of node-redis. */
  readonly rootNodes?: readonly { readonly url?: string; readonly socket?: Address }[]
}

interface Placed extends Partial<Pick<EventEmitter, 'on' | 'off'>> {
  readonly options?: Options | undefined
  /** In a cluster of node-redis. */
  readonly _options?: Options | undefined
  /** In valkey-glide. */
  readonly config?: { readonly addresses?: readonly Address[] }
  /** In a cluster of ioredis. */
  readonly isCluster?: boolean
  readonly startupNodes?: readonly unknown[]
  /** In ioredis: `'end'` once the client is closed. */
  readonly status?: string
  /** In ioredis: the latest socket. */
  readonly stream?: { readonly errored?: Error | null }
  /** In node-redis. */
  readonly isOpen?: boolean
  readonly isReady?: boolean
}

const known = shared('places of Redis', () => new WeakMap<RedisClient, Map<string, Connection>>())

/** Remembers the latest error of a client since its last answer, while a store uses the client. */
export class ClientErrors {
  readonly #client: Placed
  /** The number of stores that are not closed. */
  #users = 0
  #error: unknown

  constructor(client: object) {
    this.#client = client
  }

  /** Notes that a store uses the client. Returns a function to call when the store is closed. */
  use(): () => void {
    // This event shows errors without handling them: a client behaves the same if it has no other listener for errors.
    if (this.#users++ === 0) this.#client.on?.(errorMonitor, this.#note)
    let isOver = false
    return () => {
      if (!isOver && --this.#users === 0) this.#client.off?.(errorMonitor, this.#note)
      isOver = true
    }
  }

  clear(): void {
    this.#error = undefined
  }

  /** The error of the connection; `undefined` if there was none since the last answer. */
  get lost(): string | undefined {
    // ioredis emits no error if the application has no listener for errors.
    this.#error ??= this.#client.stream?.errored ?? undefined
    return this.#error === undefined ? undefined : reasonIn(this.#error)
  }

  /** Why the client gets no answer; `undefined` if this is unknown. */
  get trouble(): string | undefined {
    const { lost } = this
    if (lost !== undefined) return lost
    const { status, isReady } = this.#client
    if (status !== undefined && status !== 'ready') return `the client is not connected (${status})`
    return isReady === false ? 'the client is not connected' : undefined
  }

  readonly #note = (error: unknown): void => {
    this.#error = error
  }
}

const clientErrors = shared('client errors', () => new WeakMap<RedisClient, ClientErrors>())

/** A client and a prefix. It is the place of all stores with this client and prefix. */
export class Connection implements Place {
  readonly prefix: string
  readonly scripts: ScriptClient
  readonly errors: ClientErrors
  readonly kept: KeptKey = new KeptKey(this)
  readonly #client: RedisClient

  constructor(client: RedisClient, prefix: string, scripts: ScriptClient) {
    this.#client = client
    this.prefix = prefix
    this.scripts = scripts
    this.errors = madeOnce(clientErrors, client, () => new ClientErrors(client))
  }

  get name(): string {
    return nameOf(this.#client as Placed)
  }

  get trouble(): string | undefined {
    return this.errors.trouble
  }

  partOf(limiter: string, key: string): string {
    return serverOf(this.scripts, redisKey(this.prefix, limiter, key))
  }

  joins(other: Place): boolean {
    return other === this
  }
}

/** Marks the connections of all versions of the package. */
const CONNECTION: unique symbol = Symbol.for('sluice.Connection')
brand(Connection, CONNECTION)

/** Returns the connection of a store in Redis, or of one inside a wrapper; `undefined` for any other store. */
export function connectionIn({ place }: Store): Connection | undefined {
  return hasBrand(place, CONNECTION) ? (place as Connection) : undefined
}

/** Returns the same object for all stores of one client and prefix: they count under the same keys. */
export function connectionOf(client: RedisClient, prefix: string, scripts: ScriptClient): Connection {
  const prefixes = madeOnce(known, client, () => new Map<string, Connection>())
  return madeOnce(prefixes, prefix, () => new Connection(client, prefix, scripts))
}

/** Returns the name of the server for messages: its address, without user and password. */
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

/** Returns the address of a node, which may be an object, a port or a URL. */
function nodeName(node: unknown): string {
  if (typeof node === 'number') return addressOf({ port: node })
  const { url = node, socket = node } = Object(node) as { url?: unknown; socket?: unknown }
  if (typeof url !== 'string') return addressOf(socket as Address)
  const { hostname, port } = URL.canParse(url) ? new URL(url) : { hostname: 'an unknown address', port: '' }
  return addressOf({ host: hostname, port: Number(port || 6379) })
}

function addressOf({ host = 'localhost', port = 6379, path }: Address): string {
  return path ?? `${host === 'localhost' ? '127.0.0.1' : host}:${port}`
}
