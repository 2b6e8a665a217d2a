/** The address of a Redis server. */
export interface ServerAddress {
  readonly host: string
  readonly port: number
  readonly username: string | undefined
  readonly password: string | undefined
  readonly database: number
  readonly tls: boolean
}

export interface Connection {
  readonly client: unknown
  close(): void
}

/** Connects with the package of a client. The package is loaded only if it is installed. */
export interface ClientPackage {
  readonly name: string
  single(loaded: unknown, address: ServerAddress): Promise<Connection>
  cluster(loaded: unknown, address: ServerAddress): Promise<Connection>
}

interface Ioredis {
  readonly Redis: new (options: object) => IoredisClient
  readonly Cluster: new (nodes: readonly object[], options: object) => IoredisClient
}

interface IoredisClient {
  connect(): Promise<unknown>
  select(database: number): Promise<unknown>
  disconnect(): void
  on(event: 'error', listener: (error: Error) => void): unknown
}

interface NodeRedis {
  createClient(options: object): NodeRedisClient
  createCluster(options: object): NodeRedisClient
}

interface NodeRedisClient {
  connect(): Promise<unknown>
  destroy(): void
  on(event: 'error', listener: () => void): unknown
}

interface Glide {
  readonly GlideClient: { createClient(options: object): Promise<{ close(): void }> }
  readonly GlideClusterClient: { createClient(options: object): Promise<{ close(): void }> }
  readonly Logger: { setLoggerConfig(level: string): void }
}

/** Milliseconds before a command fails. It must not wait for a server to come back. */
const TIMEOUT = 5000

function ignore(): void {}

function likeIoredis(name: string): ClientPackage {
  const options = ({ username, password, tls }: ServerAddress): object => ({
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    ...(tls && { tls: {} }),
    connectTimeout: TIMEOUT,
    maxRetriesPerRequest: 1,
    retryStrategy: null,
  })
  const open = async (client: IoredisClient, database = 0): Promise<Connection> => {
    let reason: Error | undefined
    client.on('error', (error) => {
      reason = error
    })
    try {
      await client.connect()
      // With its option `db`, it would use database 0 if the database does not exist.
      if (database !== 0) await client.select(database)
    } catch (closed) {
      client.disconnect()
      // This error only says that the connection is closed.
      throw reason ?? (closed as Error)
    }
    return { client, close: () => client.disconnect() }
  }
  return {
    name,
    single(loaded, address) {
      const { host, port, database } = address
      return open(new (loaded as Ioredis).Redis({ host, port, lazyConnect: true, ...options(address) }), database)
    },
    cluster(loaded, address) {
      const settings = { lazyConnect: true, redisOptions: options(address) }
      return open(new (loaded as Ioredis).Cluster([{ host: address.host, port: address.port }], settings))
    },
  }
}

const nodeRedis: ClientPackage = {
  name: 'redis',
  single: (loaded, address) => openNodeRedis((loaded as NodeRedis).createClient(nodeRedisOptions(address))),
  cluster: (loaded, address) =>
    openNodeRedis(
      (loaded as NodeRedis).createCluster({
        rootNodes: [nodeRedisOptions(address)],
        defaults: { username: address.username, password: address.password },
      }),
    ),
}

function nodeRedisOptions({ host, port, username, password, database, tls }: ServerAddress): object {
  const socket = { host, port, tls, connectTimeout: TIMEOUT, reconnectStrategy: false }
  return { socket, username, password, ...(database !== 0 && { database }) }
}

async function openNodeRedis(client: NodeRedisClient): Promise<Connection> {
  client.on('error', ignore)
  await client.connect()
  return { client, close: () => client.destroy() }
}

const glide: ClientPackage = {
  name: '@valkey/valkey-glide',
  single: (loaded, address) =>
    openGlide(loaded as Glide, 'GlideClient', { ...glideOptions(address), databaseId: address.database }),
  cluster: (loaded, address) => openGlide(loaded as Glide, 'GlideClusterClient', glideOptions(address)),
}

function glideOptions({ host, port, username, password, tls }: ServerAddress): object {
  return {
    addresses: [{ host, port }],
    useTLS: tls,
    requestTimeout: TIMEOUT,
    ...(password !== undefined && { credentials: { password, ...(username !== undefined && { username }) } }),
  }
}

async function openGlide(
  loaded: Glide,
  kind: 'GlideClient' | 'GlideClusterClient',
  options: object,
): Promise<Connection> {
  loaded.Logger.setLoggerConfig('off')
  const client = await loaded[kind].createClient(options)
  return { client, close: () => client.close() }
}

/** The known clients, in the order in which they are tried. */
export const clients: readonly ClientPackage[] = [likeIoredis('ioredis'), likeIoredis('iovalkey'), nodeRedis, glide]
