import { fileURLToPath } from 'node:url'
import slotOf from 'cluster-key-slot'
import { Redis } from 'ioredis'
import { builtPackage } from '../built.ts'
import { startCluster, startReplica } from '../redis-cluster.ts'
import { freePort, type RedisServer, startRedis } from '../redis.ts'
import { restartable, startServer } from '../server-process.ts'
import { Proxy } from './proxy.ts'

/** Where a fault happens: one Redis, one server of a cluster, or a process that counts for others. */
export interface Place {
  readonly kind: PlaceKind
  /** The port that the client is given. */
  readonly port: number
  /** The server that fails. */
  readonly server: RedisServer
  /** In front of the server, if the fault needs one. */
  readonly proxy: Proxy | undefined
  /** The other primaries of the cluster. */
  readonly others: readonly RedisServer[]
  /** A hash tag whose keys are on the server that fails. */
  readonly tag: string
  /** Two connections past the proxy. */
  readonly admins: readonly [Redis, Redis]
  /** A replica of the server that fails, if the fault needs one. */
  readonly replica: RedisServer | undefined
  connectAdmins(): Promise<void>
  disconnectAdmins(): void
  stop(): Promise<void>
}

export type PlaceKind = 'single' | 'cluster' | 'remote'

/** What a place has in addition to servers. */
export interface Needs {
  readonly isProxied?: boolean
  /** For a cluster. */
  readonly hasReplica?: boolean
}

export async function startPlace(kind: PlaceKind, { isProxied, hasReplica }: Needs): Promise<Place> {
  const proxy = isProxied === true ? await Proxy.listen() : undefined
  return kind === 'cluster' ? clusterPlace(proxy, hasReplica === true) : onePlace(kind, proxy)
}

const none = { others: [], replica: undefined }

async function onePlace(kind: PlaceKind, proxy: Proxy | undefined): Promise<Place> {
  const server = await (kind === 'single' ? startRedis() : startServing())
  proxy?.to(server.port)
  const port = proxy?.port ?? server.port
  return placeOf({ kind, port, server, proxy, tag: 'tag', ...none, stopAll: () => server.stop() })
}

const worker = fileURLToPath(new URL('../remote-worker.mjs', import.meta.url))

/** Starts a process that counts for others over HTTP. It can be killed and restarted as a Redis. */
async function startServing(): Promise<RedisServer> {
  const [home, port] = [await builtPackage(), await freePort()]
  const running = await restartable(() => startServer(process.execPath, [worker, home, String(port)], /^ready$/m))
  return Object.assign(running, {
    port,
    url: `http://127.0.0.1:${port}`,
    kill: () => running.end(),
    restart: () => running.start(),
    stop: () => running.end(),
  })
}

/** The last of three servers fails. Clients of the cluster reach it through the proxy. */
async function clusterPlace(proxy: Proxy | undefined, hasReplica: boolean): Promise<Place> {
  const cluster = await startCluster(3, [undefined, undefined, proxy?.port])
  const [first, second, last] = cluster.nodes
  proxy?.to(last!.port)
  const replica = hasReplica ? await startReplica(last!) : undefined
  const servers = { server: last!, others: [first!, second!], replica }
  const stopAll = async (): Promise<void> => void (await Promise.all([cluster.stop(), replica?.stop()]))
  return placeOf({ kind: 'cluster', port: first!.port, proxy, ...servers, tag: lastTag(), stopAll })
}

/** A hash tag in the last third of the slots. */
function lastTag(): string {
  for (let i = 0; ; i++) if (slotOf(`tag${i}`) > 11_000) return `tag${i}`
}

interface Parts extends Pick<Place, 'kind' | 'port' | 'server' | 'proxy' | 'others' | 'replica' | 'tag'> {
  stopAll(): Promise<void>
}

function placeOf({ stopAll, ...parts }: Parts): Place {
  let admins: [Redis, Redis] | undefined
  const { kind, server, proxy } = parts
  return {
    ...parts,
    get admins() {
      return admins!
    },
    async connectAdmins() {
      if (kind === 'remote') return
      const connect = (): Redis => new Redis(server.port).on('error', () => undefined)
      admins = [connect(), connect()]
      await Promise.all(admins.map((each) => each.ping()))
    },
    disconnectAdmins: () => admins?.forEach((each) => each.disconnect()),
    async stop() {
      await Promise.all([stopAll(), proxy?.close()])
    },
  }
}
