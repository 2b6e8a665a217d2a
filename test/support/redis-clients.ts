import { GlideClient, GlideClusterClient, Logger } from '@valkey/valkey-glide'
import { Cluster, Redis } from 'ioredis'
import { Cluster as IovalkeyCluster, Redis as Iovalkey } from 'iovalkey'
import { Redis as Upstash } from '@upstash/redis'
import { createClient, createCluster } from 'redis'
import type { RedisClient } from '../../src/stores/redis/index.ts'
import { casesHere } from '../parts.ts'
import { startRestProxy } from './upstash.ts'

/** A connected client, and a function that closes it. */
export interface Connected {
  readonly client: RedisClient
  close(): void | Promise<void>
}

/** Connects each kind of client to a server, or to a cluster by its first node. */
export interface ClientFamily {
  readonly name: string
  single(port: number): Promise<Connected>
  cluster(port: number): Promise<Connected>
}

// Without this it logs the errors that tests provoke.
Logger.setLoggerConfig('off')

const host = '127.0.0.1'

function glide(protocol: 0 | 1): Omit<ClientFamily, 'name'> {
  const options = (port: number): object => ({ addresses: [{ host, port }], protocol, requestTimeout: 5000 })
  return {
    async single(port) {
      const client = await GlideClient.createClient(options(port) as never)
      return { client, close: () => client.close() }
    },
    async cluster(port) {
      const client = await GlideClusterClient.createClient(options(port) as never)
      return { client, close: () => client.close() }
    },
  }
}

function nodeRedis(RESP: 2 | 3): Omit<ClientFamily, 'name'> {
  return {
    async single(port) {
      const client = await createClient({ RESP, socket: { host, port } })
        .on('error', () => undefined)
        .connect()
      return { client, close: () => client.destroy() }
    },
    async cluster(port) {
      const client = await createCluster({ RESP, rootNodes: [{ socket: { host, port } }] })
        .on('error', () => undefined)
        .connect()
      return { client, close: () => client.destroy() }
    },
  }
}

export const families: readonly ClientFamily[] = [
  {
    name: 'ioredis',
    async single(port) {
      const client = new Redis(port, host, { maxRetriesPerRequest: 1 }).on('error', () => undefined)
      return { client, close: () => client.disconnect() }
    },
    async cluster(port) {
      const client = new Cluster([{ host, port }])
      return { client, close: () => client.disconnect() }
    },
  },
  {
    name: 'iovalkey',
    async single(port) {
      const client = new Iovalkey(port, host, { maxRetriesPerRequest: 1 }).on('error', () => undefined)
      return { client, close: () => client.disconnect() }
    },
    async cluster(port) {
      const client = new IovalkeyCluster([{ host, port }])
      return { client, close: () => client.disconnect() }
    },
  },
  { name: 'node-redis, RESP2', ...nodeRedis(2) },
  { name: 'node-redis, RESP3', ...nodeRedis(3) },
  { name: 'valkey-glide, RESP2', ...glide(0) },
  { name: 'valkey-glide, RESP3', ...glide(1) },
]

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

/** Returns ioredis and node-redis in `npm test`, and the other clients in `npm run test:all`. */
export function twoClients<Client extends { readonly name: string }>(all: readonly Client[]): readonly Client[] {
  return casesHere(all, ({ name }) => ['ioredis', 'node-redis, RESP3'].includes(name))
}

/** How a client is made in its default configuration: before its server may be there. */
export interface DefaultFamily {
  readonly name: string
  single(port: number, password?: string): Promise<Connected>
  cluster(port: number, password?: string): Promise<Connected>
}

interface Auth {
  readonly password?: string
}

function auth(password: string | undefined): Auth {
  return password === undefined ? {} : { password }
}

function glideOptions(port: number, password: string | undefined): never {
  const credentials = password === undefined ? {} : { credentials: { password } }
  // Without `lazyConnect`, a client cannot be made while its server is down.
  return { addresses: [{ host, port }], lazyConnect: true, ...credentials } as never
}

/** The four families as they are by default, and with a listener for errors, without which node-redis ends the process. */
export const defaultFamilies: readonly DefaultFamily[] = [
  {
    name: 'ioredis',
    async single(port, password) {
      const client = new Redis({ port, host, ...auth(password) }).on('error', () => undefined)
      return { client, close: () => client.disconnect() }
    },
    async cluster(port, password) {
      const client = new Cluster([{ host, port }], { redisOptions: auth(password) }).on('error', () => undefined)
      return { client, close: () => client.disconnect() }
    },
  },
  {
    name: 'iovalkey',
    async single(port, password) {
      const client = new Iovalkey({ port, host, ...auth(password) }).on('error', () => undefined)
      return { client, close: () => client.disconnect() }
    },
    async cluster(port, password) {
      const client = new IovalkeyCluster([{ host, port }], { redisOptions: auth(password) })
      client.on('error', () => undefined)
      return { client, close: () => client.disconnect() }
    },
  },
  {
    name: 'node-redis',
    async single(port, password) {
      const client = createClient({ ...auth(password), socket: { host, port } }).on('error', () => undefined)
      // While the server is down it tries again, so this is not waited for.
      void client.connect().catch(() => undefined)
      return { client, close: () => client.destroy() }
    },
    async cluster(port, password) {
      const client = createCluster({ rootNodes: [{ socket: { host, port } }], defaults: auth(password) })
      await client.on('error', () => undefined).connect()
      return { client, close: () => client.destroy() }
    },
  },
  {
    name: 'valkey-glide',
    async single(port, password) {
      const client = await GlideClient.createClient(glideOptions(port, password))
      return { client, close: () => client.close() }
    },
    async cluster(port, password) {
      const client = await GlideClusterClient.createClient(glideOptions(port, password))
      return { client, close: () => client.close() }
    },
  },
]
