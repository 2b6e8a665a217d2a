// Every client family, on one server and on a cluster, with only the cache and inside a guard.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  type AsyncStore,
  createLimiter,
  denyCache,
  gcra,
  guard,
  type Limiter,
  slidingWindowLog,
  type Store,
} from '../../../src/index.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { isDeciding } from '../../../src/stores/store.ts'
import { redisCommand, type RedisServer, startRedis } from '../../support/redis.ts'
import { type Connected, families } from '../../support/redis-clients.ts'
import { type RedisCluster, startCluster } from '../../support/redis-cluster.ts'

redisCommand()
const KEYS = Array.from({ length: 20 }, (_, i) => `k${i}`)
const wrappers: Readonly<Record<string, (store: Store) => Store>> = {
  'the cache': (store) => denyCache(store, { maxAge: '1m' }),
  'the cache in a guard': (store) => guard(denyCache(store, { maxAge: '1m' }), { deadline: '5s', onOutage: 'closed' }),
}

let single: RedisServer
let cluster: RedisCluster
beforeAll(async () => {
  single = await startRedis()
  cluster = await startCluster()
}, 60_000)
afterAll(async () => {
  await single.stop()
  await cluster.stop()
})

/** Counts what is asked of a store. */
function counted(store: AsyncStore): { store: AsyncStore; asked: () => number } {
  let asked = 0
  const run: AsyncStore['run'] = (operation, reply) => {
    if (isDeciding(operation)) asked++
    return store.run(operation, reply)
  }
  return { store: { ...store, run }, asked: () => asked }
}

async function verify({ client }: Connected, wrap: (store: Store) => Store, name: string): Promise<void> {
  const { store, asked } = counted(redisStore(client, { prefix: 'deny-clients:' }) as AsyncStore)
  const limits = [gcra({ quota: 1, window: '1h' }), slidingWindowLog({ name: 'log', quota: 5, window: '1h' })]
  const limiter: Limiter<string> = createLimiter({ name, keyer: (key: string) => key, limits, store: wrap(store) })
  const all = async (): Promise<boolean[]> => Promise.all(KEYS.map(async (key) => (await limiter.consume(key)).allowed))
  expect(await all()).toEqual(KEYS.map(() => true))
  expect(await all()).toEqual(KEYS.map(() => false))
  const before = asked()
  expect(before).toBeGreaterThan(1)
  for (let i = 0; i < 5; i++) expect(await all()).toEqual(KEYS.map(() => false))
  expect(asked()).toBe(before)
  await limiter.reset('k0')
  expect((await limiter.consume('k0')).allowed).toBe(true)
  expect((await limiter.consume('k1')).allowed).toBe(false)
}

describe.each(families)('denials asked by $name', ({ name, single: connect, cluster: connectCluster }) => {
  it.each(Object.entries(wrappers))('are answered without one server by %s', async (title, wrap) => {
    const connected = await connect(single.port)
    await verify(connected, wrap, `${name} ${title}`)
    await connected.close()
  })

  it.each(Object.entries(wrappers))('are answered without a cluster by %s', async (title, wrap) => {
    const connected = await connectCluster(cluster.nodes[0]!.port)
    await verify(connected, wrap, `${name} ${title}`)
    await connected.close()
  })
})
