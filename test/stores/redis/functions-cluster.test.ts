import { Cluster, type Redis } from 'ioredis'
import calculateSlot from 'cluster-key-slot'
import { expect, it } from 'vitest'
import { gcra } from '../../../src/index.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { clientOf, interfaces } from '../../support/redis-clients.ts'
import { calls, functionsCalled, libraries, limiterFor } from '../../support/redis-functions.ts'
import { afterTest } from '../../support/after-test.ts'
import { keyed } from '../../support/limiters.ts'
import { clusterForAll, connect, server, until } from '../../support/redis-tests.ts'

const cluster = clusterForAll()

it.each(interfaces)(
  'the library is loaded into a primary that misses it, by $name',
  async ({ name, cluster: connectCluster }) => {
    const client = await clientOf(connectCluster(cluster.nodes[0]!.port))
    const admins = cluster.nodes.map(({ port }) => connect(port))
    const limiter = keyed(redisStore(client), gcra({ quota: 2, window: '1d' }), name)
    const everywhere = async (): Promise<boolean> => {
      await Promise.all(Array.from({ length: 40 }, (_, i) => limiter.consume(`${i}`)))
      const all = await Promise.all(admins.map((each) => calls(each, 'fcall')))
      return all.every((count) => count > 0)
    }
    for (const missing of [admins, admins.slice(1, 2)]) {
      for (const each of missing) await each.call('FUNCTION', 'FLUSH')
      for (const each of admins) await each.config('RESETSTAT')
      await until(everywhere)
    }
  },
)

it('a replica has the library when it is promoted', async () => {
  const primary = await server()
  const replica = await server('--replicaof', '127.0.0.1', String(primary.port))
  const before = connect(primary.port)
  const limiter = limiterFor(before, 5)
  await functionsCalled(before, limiter)
  await limiter.consume('k')
  const after = connect(replica.port)
  await until(async () => (await libraries(after)).length === 1 && (await after.exists('sluice:test:k')) === 1)
  await primary.stop()
  await after.replicaof('NO', 'ONE')
  await after.config('RESETSTAT')
  expect((await limiterFor(after, 5).consume('k')).remaining).toBe(3)
  expect([await calls(after, 'fcall'), await calls(after, 'evalsha')]).toEqual([1, 0])
})

it('the library is loaded into a primary that joins a cluster', async () => {
  const client = new Cluster([{ host: '127.0.0.1', port: cluster.nodes[0]!.port }])
  afterTest(() => client.disconnect())
  const limiter = limiterFor(client as never, 500)
  const admins = cluster.nodes.map(({ port }) => connect(port))
  const owned = (await Promise.all(admins.map((each) => each.call('CLUSTER', 'SLOTS')))) as unknown[]
  expect(owned).toHaveLength(3)
  await limiter.consume('k')

  const joined = await server('--cluster-enabled', 'yes', '--cluster-node-timeout', '5000')
  const newcomer = connect(joined.port)
  await newcomer.call('CLUSTER', 'MEET', '127.0.0.1', String(cluster.nodes[0]!.port))
  const id = (await newcomer.call('CLUSTER', 'MYID')) as string
  const knows = async (each: Redis): Promise<boolean> => String(await each.call('CLUSTER', 'NODES')).includes(id)
  await until(async () => (await Promise.all([newcomer, ...admins].map(knows))).every(Boolean))
  await until(async () => String(await newcomer.call('CLUSTER', 'INFO')).includes('cluster_known_nodes:4'))
  const slot = calculateSlot('sluice:test:moved')
  for (const each of [newcomer, ...admins]) await each.call('CLUSTER', 'SETSLOT', String(slot), 'NODE', id)
  await newcomer.call('CLUSTER', 'BUMPEPOCH')
  await until(async () => {
    // Until all nodes agree, they may send a client from one to the other.
    await Promise.allSettled([limiter.consume('moved')])
    return (await calls(newcomer, 'fcall')) > 0
  })
})
