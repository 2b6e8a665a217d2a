// Faults of a real server while leases are out.
import { setTimeout as pause } from 'node:timers/promises'
import calculateSlot from 'cluster-key-slot'
import { Cluster } from 'ioredis'
import { expect, it } from 'vitest'
import { type Decision, denyCache, fixedWindow, guard, lease, type Limiter } from '../../../src/index.ts'
import { leaseCounts } from '../../../src/stores/lease-counts.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import type { RedisClient } from '../../../src/stores/redis/clients.ts'
import { redisKey } from '../../../src/stores/redis/keys.ts'
import type { Charge } from '../../../src/stores/store.ts'
import { DEADLINE, warningsOfEachTest } from '../../support/guarded.ts'
import { redisCli, type RedisCluster, startCluster, startReplica } from '../../support/redis-cluster.ts'
import { afterTest } from '../../support/after-test.ts'
import { keyed, left } from '../../support/limiters.ts'
import { connect, server, until } from '../../support/redis-tests.ts'

const QUOTA = 2000
const limits = fixedWindow({ name: 'hour', quota: QUOTA, window: '1h' })

const warnings = warningsOfEachTest()

let names = 0

/** Two processes with leases under a guard that denies during an outage, and one without. Each has a client of its own. */
function processes(clientOf: () => RedisClient) {
  const name = `faults ${names++}`
  const options = { for: '400ms', share: 0.5 } as const
  const guarded = [0, 1].map(() => {
    const store = guard(denyCache(lease(redisStore(clientOf()), options)), {
      deadline: DEADLINE,
      onOutage: 'closed',
    })
    afterTest(() => store.close())
    return keyed(store, limits, name)
  })
  const exact = keyed(redisStore(clientOf()), limits, name)
  const counted = async (): Promise<number> => QUOTA - (await left(exact))[0]!
  return { guarded, counted, name }
}

/** Makes requests with both for a while, and returns the decisions. */
async function load([one, two]: readonly Limiter<string>[], ms: number, key = 'k'): Promise<Decision[]> {
  const made: Decision[] = []
  const until = performance.now() + ms
  const run = async (limiter: Limiter<string>): Promise<void> => {
    while (performance.now() < until) {
      made.push(await limiter.consume(key))
      await pause(1)
    }
  }
  await Promise.all([run(one!), run(one!), run(two!)])
  return made
}

const admittedOf = (made: readonly Decision[]): number => made.filter(({ allowed }) => allowed).length

/** Units that requests have taken of leases. */
function leasedOf(name: string): number {
  return leaseCounts().find(({ limiter }) => limiter === name)?.used ?? 0
}

it('a server that is frozen: nothing is admitted that is not charged, and nothing stays charged that is not used', async () => {
  const { port, process } = await server()
  const { guarded, counted, name } = processes(() => connect(port))
  const made = await load(guarded, 500)
  expect(leasedOf(name)).toBeGreaterThan(20)
  process.kill('SIGSTOP')
  const frozen = await load(guarded, 2 * DEADLINE + 500)
  expect(frozen.some(({ degraded }) => degraded === 'closed')).toBe(true)
  process.kill('SIGCONT')
  await until(async () => (await guarded[0]!.consume('other')).degraded === undefined)
  made.push(...frozen, ...(await load(guarded, 300)))
  await until(async () => (await counted()) === admittedOf(made))
  expect(warnings.codes).not.toContain('SLUICE_OUTCOME')
})

it('a server that is flushed: units of before are not given back to what was charged since', async () => {
  const { port } = await server()
  const { guarded, counted, name } = processes(() => connect(port))
  await load(guarded, 400)
  expect(leasedOf(name)).toBeGreaterThan(20)
  const client = connect(port)
  const [seconds = 0, micros = 0] = (await client.time()).map(Number)
  await client.flushall()
  const flushed = seconds * 1e6 + micros
  const since: Decision[] = []
  // A busy machine may need longer until leases of before are over.
  for (let i = 0; i < 10 && since.length === 0; i++) {
    const made = await load(guarded, 600)
    since.push(...made.filter(({ allowed, limits: [status] }) => allowed && (status as Charge).at > flushed))
  }
  expect(since.length).toBeGreaterThan(0)
  await until(async () => (await counted()) === since.length)
})

/** A cluster, and the clients of its users. */
async function clustered(): Promise<{ cluster: RedisCluster; clientOf: () => RedisClient }> {
  const cluster = await startCluster()
  afterTest(() => cluster.stop())
  const clientOf = (): RedisClient => {
    const client = new Cluster(cluster.nodes.map(({ port }) => ({ host: '127.0.0.1', port })))
    afterTest(() => client.disconnect())
    return client
  }
  return { cluster, clientOf }
}

it('a failover to a replica: nothing is used that is not charged', { timeout: 60_000 }, async () => {
  const { cluster, clientOf } = await clustered()
  const slot = calculateSlot(redisKey('sluice:', `faults ${names}`, 'k'))
  const index = Math.floor((slot * cluster.nodes.length) / 16_384)
  const replica = await startReplica(cluster.nodes[index]!)
  afterTest(() => replica.stop())
  const { guarded, counted, name } = processes(clientOf)
  const made = await load(guarded, 400)
  expect(leasedOf(name)).toBeGreaterThan(20)
  // The other servers vote once they know the replica.
  let isReplica = true
  while (isReplica) {
    redisCli(replica.port, 'CLUSTER', 'FAILOVER')
    made.push(...(await load(guarded, 700)))
    isReplica = !redisCli(replica.port, 'ROLE').startsWith('master')
  }
  await until(async () => (await guarded[0]!.consume('other')).degraded === undefined)
  made.push(...(await load(guarded, 300)))
  // Leases are over, and their units are given back if the store could be asked then.
  await pause(1000)
  expect(admittedOf(made)).toBeLessThanOrEqual(await counted())
  expect(admittedOf(made)).toBeLessThanOrEqual(QUOTA)
})
