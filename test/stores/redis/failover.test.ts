import { setTimeout as pause } from 'node:timers/promises'
import { Cluster, Redis } from 'ioredis'
import { Redis as Iovalkey } from 'iovalkey'
import { createCluster, createSentinel } from 'redis'
import { expect, it } from 'vitest'
import { gcra } from '../../../src/index.ts'
import { guardedLimiter, warningsOfEachTest } from '../../support/guarded.ts'
import { redisCli, startCluster } from '../../support/redis-cluster.ts'
import { clientOf, type Connected, defaultFamilies } from '../../support/redis-clients.ts'
import { MASTER, type Replicated, replicatedBySentinel, replicatedCluster } from '../../support/redis-failover.ts'
import { afterTest } from '../../support/after-test.ts'
import { limiterOn, until } from '../../support/redis-tests.ts'

/** Milliseconds after the promotion by which the new primary must decide. */
const BACK = 5000
/** Milliseconds of tests that see no promotion in time. */
const GIVE_UP = 25_000

const host = '127.0.0.1'
const quiet = (): void => undefined

/** Clients as they are by default. */
type Connect = Readonly<Record<string, (port: number) => Promise<Connected>>>

const clusters: Connect = {
  ...Object.fromEntries(
    defaultFamilies.filter(({ name }) => name !== 'valkey-glide').map(({ name, cluster }) => [name, cluster]),
  ),
  async 'node-redis with a prefix'(port) {
    const client = createCluster({ rootNodes: [{ socket: { host, port } }], keyPrefix: 'app:' })
    await client.on('error', quiet).connect()
    return { client, close: () => client.destroy() }
  },
}

const sentinels: Connect = {
  async ioredis(port) {
    const client = new Redis({ sentinels: [{ host, port }], name: MASTER }).on('error', quiet)
    return { client, close: () => client.disconnect() }
  },
  async iovalkey(port) {
    const client = new Iovalkey({ sentinels: [{ host, port }], name: MASTER }).on('error', quiet)
    return { client, close: () => client.disconnect() }
  },
  async 'node-redis'(port) {
    const client = createSentinel({ name: MASTER, sentinelRootNodes: [{ host, port }] })
    await client.on('error', quiet).connect()
    return { client, close: () => client.destroy() }
  },
}

warningsOfEachTest()

const KEYS = Array.from({ length: 30 }, (_, i) => `k${i}`)

/** One client in the test: which of its keys were decided locally, and since when none is. */
class Observed {
  readonly name: string
  readonly #consume: (key: string) => Promise<boolean>
  readonly local = new Set<string>()
  backSince: number | undefined

  constructor(name: string, consume: (key: string) => Promise<boolean>) {
    this.name = name
    this.#consume = consume
  }

  async ask(): Promise<void> {
    const decided = await Promise.all(KEYS.map((key) => this.#consume(key)))
    for (const [i, byStore] of decided.entries()) if (!byStore) this.local.add(KEYS[i]!)
    if (!decided.every(Boolean)) this.backSince = undefined
    else this.backSince ??= performance.now()
  }
}

async function observe(connect: Connect, port: number): Promise<Observed[]> {
  const all = Object.entries(connect).map(async ([name, make]) => {
    const { limiter } = guardedLimiter(await clientOf(make(port)), gcra({ quota: 100_000, window: '1d' }))
    return new Observed(name, async (key) => (await limiter.consume(key)).degraded === undefined)
  })
  return Promise.all(all)
}

/** Freezes the primary under load, until its replica decides. Returns the milliseconds from the promotion to that, by client. */
async function failOver(servers: Replicated, all: readonly Observed[]): Promise<Record<string, number>> {
  for (let warm = 0; warm < 3; warm++) {
    await Promise.all(all.map((each) => each.ask()))
    await pause(200)
  }
  for (const each of all) each.local.clear()
  const since = performance.now()
  servers.freeze()
  let promoted = Infinity
  const promotion = servers.promoted().then(() => (promoted = performance.now()))
  const isOver = (): boolean =>
    performance.now() > Math.min(promoted + BACK + 1000, since + GIVE_UP) ||
    (promoted < Infinity &&
      all.every(({ backSince }) => backSince !== undefined && performance.now() > backSince + 500))
  while (!isOver()) {
    await Promise.all(all.map((each) => each.ask()))
    await pause(100)
  }
  await promotion
  return Object.fromEntries(all.map(({ name, backSince = Infinity }) => [name, Math.max(0, backSince - promoted)]))
}

it(
  'leaves a server of a cluster that was frozen and replaced, and the other servers decide throughout',
  { timeout: 90_000 },
  async () => {
    const servers = await replicatedCluster('--cluster-require-full-coverage', 'no')
    afterTest(() => servers.stop())
    afterTest(() => servers.thaw())
    const all = await observe(clusters, servers.port)
    const back = await failOver(servers, all)
    for (const { name, local } of all) {
      expect(back[name], name).toBeLessThan(BACK)
      expect(local.size, name).toBeGreaterThan(2)
      expect(local.size, name).toBeLessThan(20)
    }
  },
)

it('leaves a server that was frozen and replaced by a sentinel', { timeout: 90_000 }, async () => {
  const servers = await replicatedBySentinel()
  afterTest(() => servers.stop())
  afterTest(() => servers.thaw())
  const all = await observe(sentinels, servers.port)
  const back = await failOver(servers, all)
  for (const { name, local } of all) {
    expect(back[name], name).toBeLessThan(BACK)
    expect(local.size, name).toBe(KEYS.length)
  }
})

it('uses a server again that a sentinel has not replaced', { timeout: 90_000 }, async () => {
  const servers = await replicatedBySentinel()
  afterTest(() => servers.stop())
  afterTest(() => servers.thaw())
  redisCli(servers.replica.port, 'CONFIG', 'SET', 'replica-priority', '0')
  const all = await observe(sentinels, servers.port)
  await Promise.all(all.map((each) => each.ask()))
  servers.freeze()
  await pause(7000)
  servers.thaw()
  await until(async () => {
    await Promise.all(all.map((each) => each.ask()))
    return all.every(({ backSince }) => backSince !== undefined)
  })
})

it('does not search for servers because this process was busy', { timeout: 60_000 }, async () => {
  const { nodes, stop } = await startCluster()
  afterTest(stop)
  const client = new Cluster([{ host, port: nodes[0]!.port }])
  afterTest(() => client.disconnect())
  const limiter = limiterOn(client, gcra({ quota: 100, window: '1d' }))
  await Promise.all(KEYS.map((key) => limiter.consume(key)))
  let searches = 0
  client.on('refresh', () => searches++)
  const asked = Promise.all(KEYS.map((key) => limiter.consume(key)))
  await pause(0)
  const since = performance.now()
  while (performance.now() - since < 4500);
  await asked
  await pause(200)
  expect(searches).toBe(0)
})
