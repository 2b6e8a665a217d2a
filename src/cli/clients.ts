/** Where Redis is. */
export interface Place {
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

/** How the package of a client connects. It is loaded when it is there, so that only what is used of it is known here. */
export interface ClientPackage {
  readonly name: string
  single(loaded: unknown, place: Place): Promise<Connection>
  cluster(loaded: unknown, place: Place): Promise<Connection>
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

/** An operator waits for an answer, not for a server to come back. */
const PATIENCE = 5000

function ignore(): void {}

function likeIoredis(name: string): ClientPackage {
  const options = ({ username, password, tls }: Place): object => ({
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    ...(tls && { tls: {} }),
    connectTimeout: PATIENCE,
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
      // By its option `db`, it would go on with database 0 where there is no such database.
      if (database !== 0) await client.select(database)
    } catch (closed) {
      client.disconnect()
      // Of a connection, it says no more than that it is closed.
      throw reason ?? (closed as Error)
    }
    return { client, close: () => client.disconnect() }
  }
  return {
    name,
    single(loaded, place) {
      const { host, port, database } = place
      return open(new (loaded as Ioredis).Redis({ host, port, lazyConnect: true, ...options(place) }), database)
    },
    cluster(loaded, place) {
      const settings = { lazyConnect: true, redisOptions: options(place) }
      return open(new (loaded as Ioredis).Cluster([{ host: place.host, port: place.port }], settings))
    },
  }
}

const nodeRedis: ClientPackage = {
  name: 'redis',
  single: (loaded, place) => openNodeRedis((loaded as NodeRedis).createClient(nodeRedisOptions(place))),
  cluster: (loaded, place) =>
    openNodeRedis(
      (loaded as NodeRedis).createCluster({
        rootNodes: [nodeRedisOptions(place)],
        defaults: { username: place.username, password: place.password },
      }),
    ),
}

function nodeRedisOptions({ host, port, username, password, database, tls }: Place): object {
  const socket = { host, port, tls, connectTimeout: PATIENCE, reconnectStrategy: false }
  return { socket, username, password, ...(database !== 0 && { database }) }
}

async function openNodeRedis(client: NodeRedisClient): Promise<Connection> {
  client.on('error', ignore)
  await client.connect()
  return { client, close: () => client.destroy() }
}

const glide: ClientPackage = {
  name: '@valkey/valkey-glide',
  single: (loaded, place) =>
    openGlide(loaded as Glide, 'GlideClient', { ...glideOptions(place), databaseId: place.database }),
  cluster: (loaded, place) => openGlide(loaded as Glide, 'GlideClusterClient', glideOptions(place)),
}

function glideOptions({ host, port, username, password, tls }: Place): object {
  return {
    addresses: [{ host, port }],
    useTLS: tls,
    requestTimeout: PATIENCE,
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

/** In the order in which they are looked for. */
export const clients: readonly ClientPackage[] = [likeIoredis('ioredis'), likeIoredis('iovalkey'), nodeRedis, glide]
