import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  createLimiter,
  type Decision,
  fixedWindow,
  type Limit,
  type Limiter,
  memoryStore,
  slidingWindowBuckets,
  slidingWindowLog,
  type Store,
} from '../../../src/index.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { virtualClock } from '../../../src/testing.ts'
import { redisForAll } from '../../support/redis-tests.ts'

/** Fields beside those of a log: the names of the limits, and the states of those of fixed size. */
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

  it('stay as long as they count, and go when they no longer do', async () => {
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
    // Ninety-one of them, eight to a field, the oldest and the newest in the field of the log.
    expect(Math.max(...most)).toBe(OTHERS + 12)
    for (const clock of clocks) clock.advance(5000)
    await inRedis.consume(log)
    expect(await fields()).toBe(OTHERS + 1)
  })

  it('are edited as in memory, over many fields: taken, given back, and carried over to a limit that has changed', async () => {
    const logs = [40, 25, 60].map((quota) => slidingWindowLog({ quota, window: 100, name: 'changing' }))
    const strict = slidingWindowLog({ quota: 40, window: 100, name: 'changing', strict: true })
    const buckets = slidingWindowBuckets({ quota: 40, window: 100, buckets: 50, name: 'changing' })
    const act = fc.oneof(
      { weight: 8, arbitrary: fc.record({ pause: fc.nat(9), cost: fc.integer({ min: 1, max: 4 }) }) },
      { weight: 3, arbitrary: fc.record({ refund: fc.nat(60) }) },
      { weight: 1, arbitrary: fc.record({ limit: fc.constantFrom(...logs, strict, buckets) }) },
    )
    let runs = 0
    await fc.assert(
      fc.asyncProperty(fc.array(act, { minLength: 60, maxLength: 200, size: 'max' }), async (acts) => {
        const clocks = [virtualClock(), virtualClock()] as const
        const stores = [memoryStore({ clock: clocks[0] }), redisStore(redis.client, { clock: clocks[1] })] as const
        const both = stores.map((store) => limiterOn(store, `edited-${runs}`))
        runs++
        const admitted: (readonly Decision[])[] = []
        let limit: Limit = logs[0]!
        for (const each of acts) {
          if ('limit' in each) limit = each.limit
          else if ('refund' in each) {
            const decisions = admitted.at(-1 - each.refund)
            if (decisions !== undefined) await Promise.all(both.map((limiter, i) => limiter.refund(decisions[i]!)))
          } else {
            for (const clock of clocks) clock.advance(each.pause)
            const decisions = await Promise.all(both.map((limiter) => limiter.consume(limit, { cost: each.cost })))
            expect(decisions[1]).toEqual(decisions[0])
            admitted.push(decisions)
          }
        }
      }),
      { numRuns: 25 },
    )
  })

  it('go with the algorithm that kept them', async () => {
    await redis.client.flushall()
    const clock = virtualClock()
    const limiter = limiterOn(redisStore(redis.client, { clock }), 'go')
    for (let i = 0; i < 70; i++) {
      clock.advance(1)
      await limiter.consume(log)
    }
    expect(await fields()).toBe(OTHERS + 8)
    await limiter.consume(counter)
    expect(await fields()).toBe(OTHERS)
  })
})
