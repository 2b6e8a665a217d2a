import { setTimeout as pause } from 'node:timers/promises'
import { Cluster } from 'ioredis'
import { Cluster as Iovalkey } from 'iovalkey'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  createLimiter,
  fixedWindow,
  gcra,
  type Limit,
  limit,
  memoryStore,
  slidingWindowLog,
  stack,
} from '../../../src/index.ts'
import { type RedisClient, redisStore } from '../../../src/stores/redis/index.ts'
import { virtualClock } from '../../../src/testing.ts'
import { afterTest } from '../../support/after-test.ts'
import { names } from '../../support/harness.ts'
import { importOwn } from '../../support/own-packages.ts'
import { keyed, left } from '../../support/limiters.ts'
import { type Connected, singleFamilies } from '../../support/redis-clients.ts'
import { clusterForAll, redisForAll } from '../../support/redis-tests.ts'

const redis = redisForAll()
const cluster = clusterForAll()
let runs = 0

/** One limit of every algorithm. */
function every(): Limit[] {
  return names().map((algorithm) =>
    limit({ algorithm, name: algorithm, quota: algorithm === 'spacing' ? 1 : 4, window: 60_000 }),
  )
}

describe.each(singleFamilies)('$name', ({ single, cluster: connectCluster }) => {
  const places = connectCluster === undefined ? (['one server'] as const) : (['one server', 'a cluster'] as const)
  describe.each(places)('to %s', (place) => {
    let connected: Connected
    let client: RedisClient
    beforeAll(async () => {
      connected = await (place === 'a cluster' ? connectCluster!(cluster.nodes[0]!.port) : single(redis.server.port))
      client = connected.client
    })
    afterAll(() => connected.close())

    it('decides as memory does, in every field, under every algorithm', async () => {
      const name = `clients-${runs++}`
      const clocks = [virtualClock(), virtualClock()] as const
      const memory = keyed(memoryStore({ clock: clocks[0] }), every(), name)
      const redis = keyed(redisStore(client, { clock: clocks[1] }), every(), name)
      for (const cost of [1, 0, 1, 2, 9, 1, 1]) {
        const wanted = await memory.consume('someone', { cost })
        const got = await redis.consume('someone', { cost })
        expect(got).toEqual(wanted)
        for (const clock of clocks) clock.advance(20_000.125)
      }
      expect(await redis.peek('someone')).toEqual(await memory.peek('someone'))
    })

    it('separates simultaneous requests, and refunds', async () => {
      const limits = [
        gcra({ quota: 5, window: '1d', name: 'g' }),
        slidingWindowLog({ quota: 7, window: '1d', name: 'l' }),
      ]
      const limiter = keyed(redisStore(client), limits, `clients-${runs++}`)
      const decisions = await Promise.all(Array.from({ length: 40 }, (_, i) => limiter.consume(`k${i % 4}`)))
      expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(20)
      const first = decisions.find(({ allowed }) => allowed)!
      await limiter.refund(first)
      expect(await left(limiter, 'k0')).toEqual([1, 3])
      await limiter.reset('k0')
      expect(await left(limiter, 'k0')).toEqual([5, 7])
    })

    it('decides a stack wherever its keys are, and refunds what a later limiter denies', async () => {
      const store = redisStore(client)
      const run = runs++
      const wide = keyed(store, gcra({ quota: 10, window: '1d' }), `wide-${run}`)
      const narrow = createLimiter({
        name: `narrow-${run}`,
        keyer: () => 'everyone',
        limits: fixedWindow({ quota: 3, window: '1d' }),
        store,
      })
      const both = stack(wide, narrow)
      const decisions = []
      for (const key of ['a', 'b', 'c', 'd', 'e']) decisions.push(await both.consume(key))
      expect(decisions.map(({ allowed }) => allowed)).toEqual([true, true, true, false, false])
      expect(decisions[4]!.limits.map(({ remaining }) => remaining)).toEqual([10, 0])
      expect(await left(wide, 'e')).toEqual([10])
      const peeked = await stack(narrow, wide).peek('e')
      expect(peeked.limits.map(({ remaining }) => remaining)).toEqual([0, 10])
      const strict = keyed(store, fixedWindow({ quota: 1, window: '2d', strict: true, block: '9d' }), `strict-${run}`)
      for (const each of [stack(strict, narrow), stack(narrow, strict)]) {
        const { limits } = await each.peek('f')
        expect(limits.map(({ remaining }) => remaining)).toEqual([0, 0])
      }
      const denied = await stack(strict, narrow).consume('f')
      expect(denied.limits[0]).toMatchObject({ allowed: true, remaining: 0 })
      // A strict limit keeps its charge, so it admits the next request when its window ends.
      const window = denied.limits[0]!.resetAfter
      expect(Math.abs(denied.limits[0]!.retryAfter - window)).toBeLessThan(1000)
    })
  })
})

it.each([
  ['ioredis', Cluster],
  ['iovalkey', Iovalkey],
])('auto-pipelining of a cluster of %s does not mix the keys of several servers', async (_, Client) => {
  const client = new Client([{ host: '127.0.0.1', port: cluster.nodes[0]!.port }], { enableAutoPipelining: true })
  afterTest(() => client.disconnect())
  const limiter = keyed(redisStore(client), gcra({ quota: 2, window: '1d' }), `clients-${runs++}`)
  // The first decisions are made by scripts, later ones by functions.
  for (const remaining of [1, 0]) {
    const decisions = await Promise.all(Array.from({ length: 100 }, (__, i) => limiter.consume(`k${i}`)))
    expect(decisions.every((each) => each.remaining === remaining)).toBe(true)
    await pause(100)
  }
  await client.set('sluice:text:k', 'a string')
  const text = keyed(redisStore(client), gcra({ quota: 2, window: '1d' }), 'text')
  await expect(text.consume('k')).rejects.toMatchObject({ code: 'STORE_REJECTED' })
  client.disconnect()
  await expect(limiter.consume('k')).rejects.toMatchObject({ code: 'STORE_FAILED' })
})

it('what is no client is refused', () => {
  for (const [given, shown] of [
    [{}, 'an object'],
    [undefined, 'undefined'],
    [Promise.resolve(), 'a promise'],
    ['redis://:secret@localhost', 'a string'],
  ]) {
    expect(() => redisStore(given as RedisClient)).toThrow(
      new RegExp(
        `^client: expected a client of ioredis, .*such as new Redis\\(url\\).*; got ${shown as string} \\(sluice`,
      ),
    )
  }
})

describe('a client that answers callbacks', () => {
  interface Old {
    readonly redis3: { createClient(port: number): RedisClient & { quit(): void } }
    readonly createRedis4: (options: object) => RedisClient & {
      readonly v4: RedisClient
      connect(): Promise<void>
      disconnect(): Promise<void>
    }
  }
  const refusal = expect.objectContaining({
    code: 'INVALID_OPTION',
    message: expect.stringContaining('this client answers callbacks'),
  })
  let old: Old
  beforeAll(async () => {
    old = await importOwn<Old>('clients')
  }, 60_000)

  it('is refused: node-redis 3', () => {
    const client = old.redis3.createClient(redis.server.port)
    afterTest(() => client.quit())
    expect(() => redisStore(client)).toThrow(refusal)
  })

  it('is refused: node-redis 4 with legacyMode, whose `v4` decides', async () => {
    const client = old.createRedis4({ socket: { port: redis.server.port }, legacyMode: true })
    await client.connect()
    afterTest(() => client.disconnect())
    expect(() => redisStore(client)).toThrow(refusal)
    const limiter = keyed(redisStore(client.v4), gcra({ quota: 3, window: 60_000 }), 'legacy')
    expect((await limiter.consume('k')).remaining).toBe(2)
  })
})
