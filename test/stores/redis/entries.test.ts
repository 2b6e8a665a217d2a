import { describe, expect, it } from 'vitest'
import {
  createLimiter,
  type Decision,
  fixedWindow,
  type Limit,
  type Limiter,
  memoryStore,
  slidingWindowLog,
  type Store,
} from '../../../src/index.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { virtualClock } from '../../../src/testing.ts'
import { redisForAll } from '../../support/redis-tests.ts'

/** Fields in addition to those of a log: the names of the limits, and the states of those of fixed size. */
const OTHERS = 2
const log = slidingWindowLog({ quota: 100, window: '1s', name: 'changing' })
const counter = fixedWindow({ quota: 100, window: '1s', name: 'changing' })

describe('entries of a log in Redis', () => {
  const redis = redisForAll()

  const limiterOn = (store: Store, name: string): Limiter<Limit> =>
    createLimiter({ name, store, keyer: () => 'key', limits: (limit: Limit) => limit })

  /** How many fields the only key of the server has. */
  async function fields(): Promise<number> {
    const keys = await redis.client.keys('*')
    expect(keys).toHaveLength(1)
    return redis.client.hlen(keys[0]!)
  }

  it('stay while they count, and are deleted after that', async () => {
    await redis.client.flushall()
    const clocks = [virtualClock(), virtualClock()] as const
    const inMemory = limiterOn(memoryStore({ clock: clocks[0] }), 'stay')
    const inRedis = limiterOn(redisStore(redis.client, { clock: clocks[1] }), 'stay')
    const most: number[] = []
    for (let i = 0; i < 400; i++) {
      for (const clock of clocks) clock.advance(11)
      const expected: Decision = await inMemory.consume(log)
      expect(await inRedis.consume(log)).toEqual(expected)
      most.push(await fields())
    }
    // The oldest and the newest are in the field of the log, the others in blocks.
    expect(Math.max(...most)).toBe(OTHERS + 3)
    for (const clock of clocks) clock.advance(5000)
    await inRedis.consume(log)
    expect(await fields()).toBe(OTHERS + 1)
  })

  it('go with the algorithm that kept them', async () => {
    await redis.client.flushall()
    const clock = virtualClock()
    const limiter = limiterOn(redisStore(redis.client, { clock }), 'go')
    for (let i = 0; i < 70; i++) {
      clock.advance(1)
      await limiter.consume(log)
    }
    expect(await fields()).toBe(OTHERS + 2)
    await limiter.consume(counter)
    expect(await fields()).toBe(OTHERS)
  })
})
