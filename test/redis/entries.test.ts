import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  createLimiter,
  type Decision,
  fixedWindow,
  type Limit,
  type Limiter,
  memoryStore,
  slidingWindowLog,
  type Store,
} from '../../src/index.ts'
import { redisStore } from '../../src/stores/redis.ts'
import { virtualClock } from '../../src/testing.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'

const log = slidingWindowLog({ quota: 100, window: '1s', name: 'changing' })
const counter = fixedWindow({ quota: 100, window: '1s', name: 'changing' })

describe('entries of a log in Redis', () => {
  let server: RedisServer
  let client: Redis
  beforeAll(async () => {
    server = await startRedis()
    client = new Redis(server.port)
  })
  afterAll(async () => {
    client.disconnect()
    await server.stop()
  })

  const limiterOn = (store: Store, name: string): Limiter<Limit> =>
    createLimiter({ name, store, keyer: () => 'key', limits: (limit: Limit) => limit })

  /** How many fields the only key of the server has. */
  async function fields(): Promise<number> {
    const keys = await client.keys('*')
    expect(keys).toHaveLength(1)
    return client.hlen(keys[0]!)
  }

  it('stay as long as they count, and go when they no longer do', async () => {
    await client.flushall()
    const clocks = [virtualClock(), virtualClock()] as const
    const inMemory = limiterOn(memoryStore({ clock: clocks[0] }), 'stay')
    const inRedis = limiterOn(redisStore(client, { clock: clocks[1] }), 'stay')
    const most: number[] = []
    for (let i = 0; i < 400; i++) {
      for (const clock of clocks) clock.advance(11)
      const expected: Decision = await inMemory.check(log)
      expect(await inRedis.check(log)).toEqual(expected)
      most.push(await fields())
    }
    // Ninety-one of them, eight to a field, the newest in the field of the state.
    expect(Math.max(...most)).toBe(13)
    for (const clock of clocks) clock.advance(5000)
    await inRedis.check(log)
    expect(await fields()).toBe(1)
  })

  it('go with the algorithm that kept them', async () => {
    await client.flushall()
    const clock = virtualClock()
    const limiter = limiterOn(redisStore(client, { clock }), 'go')
    for (let i = 0; i < 70; i++) {
      clock.advance(1)
      await limiter.check(log)
    }
    expect(await fields()).toBe(9)
    await limiter.check(counter)
    expect(await fields()).toBe(1)
  })
})
