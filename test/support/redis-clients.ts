import { GlideClient, GlideClusterClient, Logger } from '@valkey/valkey-glide'
import { Cluster, Redis } from 'ioredis'
import { Cluster as IovalkeyCluster, Redis as Iovalkey } from 'iovalkey'
import { Redis as Upstash } from '@upstash/redis'
import { createClient, createCluster } from 'redis'
import type { RedisClient } from '../../src/stores/redis/index.ts'
import { casesHere } from '../parts.ts'
import { afterTest } from './after-test.ts'
import { startRestProxy } from './upstash.ts'

/** A connected client, and a function that closes it. */
export interface Connected {
  readonly client: RedisClient
  close(): void | Promise<void>
}

/** Returns a client that is closed after the test. */
export async function clientOf(connecting: Promise<Connected>): Promise<RedisClient> {
  const { client, close } = await connecting
  afterTest(close)
  return client
}

/** Connects each kind of client to a server, or to a cluster by its first node. */
export interface ClientFamily {
  readonly name: string
  single(port: number, password?: string): Promise<Connected>
  cluster(port: number, password?: string): Promise<Connected>
}

// Without this it logs the errors that tests provoke.
Logger.setLoggerConfig('off')

const host = '127.0.0.1'

function auth(password: string | undefined): { readonly password?: string } {
  return password === undefined ? {} : { password }
}

/** ioredis, and iovalkey, which has the same interface. */
function ioredis(name: string, One: typeof Redis, Many: typeof Cluster, options: object = {}): ClientFamily {
  const connected = (client: Redis | Cluster): Connected => {
    client.on('error', () => undefined)
    return { client, close: () => client.disconnect() }
  }
  return {
    name,
    single: async (port, password) => connected(new One({ port, host, ...options, ...auth(password) })),
    cluster: async (port, password) => connected(new Many([{ host, port }], { redisOptions: auth(password) })),
  }
}

/** @param isThere false: the server may be down, and the client tries again */
function nodeRedis(name: string, isThere: boolean, options: { readonly RESP?: 2 | 3 } = {}): ClientFamily {
  return {
    name,
    async single(port, password) {
      const client = createClient({ ...options, ...auth(password), socket: { host, port } })
      const connecting = client.on('error', () => undefined).connect()
      if (isThere) await connecting
      else void connecting.catch(() => undefined)
      return { client, close: () => client.destroy() }
    },
    async cluster(port, password) {
      const client = createCluster({ ...options, rootNodes: [{ socket: { host, port } }], defaults: auth(password) })
      await client.on('error', () => undefined).connect()
      return { client, close: () => client.destroy() }
    },
  }
}

function glide(name: string, options: object): ClientFamily {
  const optionsFor = (port: number, password: string | undefined): never => {
    const credentials = password === undefined ? {} : { credentials: { password } }
    return { addresses: [{ host, port }], ...options, ...credentials } as never
  }
  const connected = (client: GlideClient | GlideClusterClient): Connected => ({ client, close: () => client.close() })
  return {
    name,
    single: async (port, password) => connected(await GlideClient.createClient(optionsFor(port, password))),
    cluster: async (port, password) => connected(await GlideClusterClient.createClient(optionsFor(port, password))),
  }
}

const iovalkey = [Iovalkey, IovalkeyCluster] as unknown as [typeof Redis, typeof Cluster]

export const families: readonly ClientFamily[] = [
  ioredis('ioredis', Redis, Cluster, { maxRetriesPerRequest: 1 }),
  ioredis('iovalkey', ...iovalkey, { maxRetriesPerRequest: 1 }),
  nodeRedis('node-redis, RESP2', true, { RESP: 2 }),
  nodeRedis('node-redis, RESP3', true, { RESP: 3 }),
  glide('valkey-glide, RESP2', { protocol: 0, requestTimeout: 5000 }),
  glide('valkey-glide, RESP3', { protocol: 1, requestTimeout: 5000 }),
]

/** One client of each interface. The others have its code, with another name or protocol: `clients.test.ts` has all of them. */
export const interfaces: readonly ClientFamily[] = families.filter(({ name }) =>
  ['ioredis', 'node-redis, RESP3', 'valkey-glide, RESP3'].includes(name),
)

/** Clients of one server: those above, and one that speaks HTTP. */
export const singleFamilies: readonly (Pick<ClientFamily, 'name' | 'single'> & Partial<ClientFamily>)[] = [
  ...families,
  {
    name: '@upstash/redis',
    async single(port) {
      const { url, token, close } = await startRestProxy(port)
      return { client: new Upstash({ url, token, retry: false }), close }
    },
  },
]

/** One client of each interface, and the one that speaks HTTP. */
export const singleInterfaces: typeof singleFamilies = [...interfaces, ...singleFamilies.slice(families.length)]

/** Returns ioredis and node-redis in `npm test`, and the other clients in `npm run test:all`. */
export function twoClients<Client extends { readonly name: string }>(all: readonly Client[]): readonly Client[] {
  return casesHere(all, ({ name }) => ['ioredis', 'node-redis, RESP3'].includes(name))
}

/** The four families as they are by default, made before their server may be there, and with a listener for errors, without which node-redis ends the process. */
export const defaultFamilies: readonly ClientFamily[] = [
  ioredis('ioredis', Redis, Cluster),
  ioredis('iovalkey', ...iovalkey),
  nodeRedis('node-redis', false),
  // Without `lazyConnect`, a client cannot be made while its server is down.
  glide('valkey-glide', { lazyConnect: true }),
]
