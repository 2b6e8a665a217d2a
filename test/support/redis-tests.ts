import { setTimeout as pause } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll } from 'vitest'
import { createLimiter, type Limit, type Limiter } from '../../src/index.ts'
import { redisStore, type RedisStoreOptions } from '../../src/stores/redis/index.ts'
import { type RedisServer, startRedis } from './redis.ts'

interface Shared {
  readonly server: RedisServer
  readonly client: Redis
}

/** A server for all tests of a block, and a client. */
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

/** What a test has started, which goes after it. */
export const leftovers: (() => unknown)[] = []
afterEach(async () => {
  for (const each of leftovers.splice(0).toReversed()) await each()
})

export async function server(...options: readonly string[]): Promise<RedisServer> {
  const started = await startRedis(...options)
  leftovers.push(() => started.stop())
  return started
}

export function connect(port: number, options: { [option: string]: unknown } = {}): Redis {
  const client = new Redis({ port, host: '127.0.0.1', maxRetriesPerRequest: 1, ...options } as object).on(
    'error',
    () => undefined,
  )
  leftovers.push(() => client.disconnect())
  return client
}

/** Counts with those made before it on this client, as after a deployment. */
export function limiterOn(client: Redis, limits: Limit | Limit[], options: RedisStoreOptions = {}): Limiter<string> {
  const store = redisStore(client, options)
  return createLimiter<string>({ name: 'test', keyer: (key) => key, limits, store, shared: true })
}

/** Asks again and again, for ten seconds. */
export async function until(done: () => Promise<boolean>): Promise<void> {
  for (let asked = 0; asked < 500; asked++) {
    if (await done()) return
    await pause(20)
  }
  throw new Error('It has not come to pass')
}
