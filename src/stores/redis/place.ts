import { shared } from '../../util/copies.ts'
import { registerPlace } from '../places.ts'
import type { RedisClient } from './clients.ts'

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
  readonly keyPrefix?: string
  /** Of node-redis. */
  readonly socket?: Address
  readonly database?: number
}

interface Placed {
  readonly options?: Options | undefined
  /** Of a cluster of ioredis. */
  readonly isCluster?: boolean
  readonly startupNodes?: readonly unknown[]
  /** Of ioredis: `'end'` once it is closed. */
  readonly status?: string
  /** Of node-redis. */
  readonly isOpen?: boolean
  readonly _keyPrefix?: { toString(): string } | undefined
}

const identities = shared('identities', () => new WeakMap<RedisClient, Map<string, object>>())

/** Returns the same object for all stores of one client and prefix: they count under the same keys. */
export function identityOf(client: RedisClient, prefix: string): object {
  const known = identities.get(client) ?? new Map<string, object>()
  identities.set(client, known)
  return known.get(prefix) ?? newIdentity(client, prefix, known)
}

function newIdentity(client: RedisClient, prefix: string, known: Map<string, object>): object {
  const identity = {}
  known.set(prefix, identity)
  const placed: Placed = client as object
  const server = serverOf(placed)
  if (server === undefined) return identity
  const { options, _keyPrefix: keyPrefix = options?.keyPrefix ?? '' } = placed
  registerPlace(identity, JSON.stringify([server, `${keyPrefix.toString()}${prefix}`]), openTest(placed))
  return identity
}

/** Returns the server and database of a client. `undefined` for a client that does not show it, such as valkey-glide. */
function serverOf(client: Placed): unknown {
  const { options, isCluster, startupNodes } = client
  if (isCluster === true) return startupNodes
  if (options?.sentinels) return [options.name, ...options.sentinels.map(addressOf)]
  if (options === undefined || !('status' in client || 'isOpen' in client)) return undefined
  return [addressOf(options.socket ?? options), options.db ?? options.database ?? 0]
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
    return now !== undefined && now.status !== 'end' && (wasOpen !== true || now.isOpen === true)
  }
}
