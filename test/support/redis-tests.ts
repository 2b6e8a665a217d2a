import { Redis } from 'ioredis'
import { afterAll, beforeAll } from 'vitest'
import type { Limiter, Limits } from '../../src/index.ts'
import { type RedisClient, redisStore, type RedisStoreOptions } from '../../src/stores/redis/index.ts'
import { afterTest } from './after-test.ts'
import { keyed } from './limiters.ts'
import { type RedisCluster, startCluster } from './redis-cluster.ts'
import { type RedisServer, startRedis } from './redis.ts'
import { eventually } from './server-process.ts'
import { type RestProxy, startRestProxy } from './upstash.ts'

interface Shared {
  readonly server: RedisServer
  readonly client: Redis
}

/** Starts a server and a client for all tests of a block. */
export function redisForAll(): Shared {
  const shared: { -readonly [part in keyof Shared]?: Shared[part] } = {}
  beforeAll(async () => {
    shared.server = await startRedis()
    shared.client = new Redis(shared.server.port)
  })
  afterAll(async () => {
    shared.client?.disconnect()
    await shared.server?.stop()
  })
  return shared as Shared
}

/** Starts a cluster for all tests of a block. */
export function clusterForAll(): RedisCluster {
  const shared: Partial<RedisCluster> = {}
  beforeAll(async () => void Object.assign(shared, await startCluster()))
  afterAll(() => shared.stop?.())
  return shared as RedisCluster
}

/** Starts a server and a client, and a proxy in front of the server that speaks HTTP, for all tests of a block. */
export function upstashForAll(): Shared & { readonly proxy: RestProxy } {
  const shared: Shared & { proxy?: RestProxy } = redisForAll()
  beforeAll(async () => {
    shared.proxy = await startRestProxy(shared.server.port)
  })
  afterAll(() => shared.proxy?.close())
  return shared as Shared & { readonly proxy: RestProxy }
}

export async function server(...options: readonly string[]): Promise<RedisServer> {
  const started = await startRedis(...options)
  afterTest(() => started.stop())
  return started
}

export function connect(port: number, options: { [option: string]: unknown } = {}): Redis {
  const client = new Redis({ port, host: '127.0.0.1', maxRetriesPerRequest: 1, ...options } as object).on(
    'error',
    () => undefined,
  )
  afterTest(() => client.disconnect())
  return client
}

/** The commands that a user needs, as docs/guides/redis.md says. */
export const COMMANDS = '+evalsha +eval +time +hget +hmget +hset +hdel +hkeys +del +pttl +pexpire'

/** Connects as a user who has some commands on the keys of the package. */
export async function connectWith(commands: string, port: number): Promise<Redis> {
  const words = ['limiter', 'on', '>secret', '~sluice:*', 'resetchannels', ...commands.split(' ')]
  await connect(port).call('ACL', 'SETUSER', ...words)
  return connect(port, { username: 'limiter', password: 'secret', enableReadyCheck: false })
}

/** Makes a limiter that shares its counts with earlier ones on this client, as after a deployment. */
export function limiterOn(
  client: RedisClient,
  limits: Limits<string>,
  options: RedisStoreOptions = {},
): Limiter<string> {
  return keyed(redisStore(client, options), limits)
}

export function until(done: () => Promise<boolean>): Promise<void> {
  return eventually(done, 'The condition holds', 10)
}
