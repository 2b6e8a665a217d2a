import { setTimeout as pause } from 'node:timers/promises'
import calculateSlot from 'cluster-key-slot'
import { describe, expect, it } from 'vitest'
import { gcra } from '../../../src/index.ts'
import { redisKey } from '../../../src/stores/redis/keys.ts'
import { guardedLimiter, warningsOfEachTest, timed } from '../../support/guarded.ts'
import { clientOf, families } from '../../support/redis-clients.ts'
import { redisCli, startCluster } from '../../support/redis-cluster.ts'
import type { RedisServer } from '../../support/redis.ts'
import { afterTest } from '../../support/after-test.ts'
import { until } from '../../support/redis-tests.ts'

warningsOfEachTest()

const KEYS = Array.from({ length: 60 }, (_, i) => `k${i}`)

describe.each(families)('a cluster of which one server is frozen, asked by $name', ({ cluster }) => {
  it('loses only that server: keys of the others are still decided by the cluster', { timeout: 60_000 }, async () => {
    const servers = await startCluster()
    afterTest(() => servers.stop())
    const client = await clientOf(cluster(servers.nodes[0]!.port))
    const { limiter, changes, states } = guardedLimiter(client, gcra({ quota: 1000, window: '1d' }), {
      deadline: '400ms',
    })
    for (const key of KEYS) expect((await limiter.consume(key)).degraded).toBeUndefined()

    servers.nodes[2]!.process.kill('SIGSTOP')
    for (let round = 0; round < 4; round++) await Promise.all(KEYS.map(async (key) => limiter.consume(key)))
    const [ms, decisions] = await timed(() => Promise.all(KEYS.map(async (key) => limiter.consume(key))))
    const local = decisions.filter(({ degraded }) => degraded === 'local').length
    expect(local).toBeGreaterThan(5)
    expect(local).toBeLessThan(40)
    expect(ms).toBeLessThan(380)
    expect(states()).not.toContain('healthy')
    for (const { reason } of changes) expect(reason).toMatch(/: no answer within 400 ms$/)

    servers.nodes[2]!.process.kill('SIGCONT')
    await until(async () => states().at(-1) === 'healthy')
    await until(async () =>
      (await Promise.all(KEYS.map(async (key) => limiter.consume(key)))).every(
        ({ degraded }) => degraded === undefined,
      ),
    )
  })
})

/**
 * Freezes a server that has no replica. Returns the part of the decisions about keys of the other servers that was local from then on, by client.
 */
async function localOfOthers(): Promise<Record<string, number>> {
  const options = ['--cluster-node-timeout', '1000', '--cluster-require-full-coverage', 'no']
  const servers = await startCluster(3, [], options)
  afterTest(() => servers.stop())
  const [first, , frozen] = servers.nodes as [RedisServer, RedisServer, RedisServer]
  const limiters = await Promise.all(
    families.map(async ({ name, cluster }) => {
      const client = await clientOf(cluster(first.port))
      return { name, ...guardedLimiter(client, gcra({ quota: 100_000, window: '1d' })) }
    }),
  )
  for (const { limiter } of limiters) for (const key of KEYS) await limiter.consume(key)
  frozen.process.kill('SIGSTOP')
  await until(async () => redisCli(first.port, 'CLUSTER', 'NODES').includes('fail'))
  await pause(1500)
  const others = KEYS.filter((key) => calculateSlot(redisKey('sluice:', 'test', key)) < 10_000)
  const parts: Record<string, number> = {}
  for (const { name, limiter } of limiters) {
    let local = 0
    for (let round = 0; round < 10; round++) {
      const decisions = await Promise.all(others.map(async (key) => limiter.consume(key)))
      local += decisions.filter(({ degraded }) => degraded === 'local').length
    }
    parts[name] = local / others.length / 10
  }
  return parts
}

it(
  'the cluster decides keys of the other servers when one is frozen and not replaced, without `cluster-require-full-coverage`',
  { timeout: 60_000 },
  async () => {
    expect(await localOfOthers()).toEqual(Object.fromEntries(families.map(({ name }) => [name, 0])))
  },
)
