import { setTimeout as pause } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { afterAll, beforeAll } from 'vitest'
import { createLimiter, type Limit, type Limiter } from '../../src/index.ts'
import { redisStore, type RedisStoreOptions } from '../../src/stores/redis/index.ts'
import { afterTest } from './after-test.ts'
import { type RedisServer, startRedis } from './redis.ts'

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

/** Makes a limiter that shares its counts with earlier ones on this client, as after a deployment. */
export function limiterOn(client: Redis, limits: Limit | Limit[], options: RedisStoreOptions = {}): Limiter<string> {
  const store = redisStore(client, options)
  return createLimiter<string>({ name: 'test', keyer: (key) => key, limits, store, shared: true })
}

/** Waits until a condition is met, for at most ten seconds. */
export async function until(done: () => Promise<boolean>): Promise<void> {
  for (let asked = 0; asked < 500; asked++) {
    if (await done()) return
    await pause(20)
  }
  throw new Error('The condition did not hold within ten seconds')
}
