import fc from 'fast-check'
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
import { SlowLog } from '../../support/slow-log.ts'
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

  it('are those of the definition, in memory and in Redis, in large logs', { timeout: 60_000 }, async () => {
    const limits = [2000, 900, 1500].flatMap((quota) =>
      [4000, 2500].map((window) => slidingWindowLog({ quota, window, name: 'large' })),
    )
    const act = fc.oneof(
      { weight: 4, arbitrary: fc.record({ many: fc.integer({ min: 1, max: 400 }), pause: fc.nat(2) }) },
      { weight: 6, arbitrary: fc.record({ cost: fc.integer({ min: 1, max: 2000 }), peeks: fc.boolean() }) },
      { weight: 8, arbitrary: fc.record({ refunds: fc.integer({ min: 1, max: 60 }), back: fc.nat(1500) }) },
      { weight: 1, arbitrary: fc.record({ pause: fc.nat(3000) }) },
      { weight: 1, arbitrary: fc.record({ back: fc.nat(500) }) },
      { weight: 1, arbitrary: fc.record({ limit: fc.constantFrom(...limits) }) },
    )
    let runs = 0
    await fc.assert(
      fc.asyncProperty(fc.array(act, { minLength: 30, maxLength: 60, size: 'max' }), async (acts) => {
        const clocks = [virtualClock(), virtualClock()] as const
        const stores = [memoryStore({ clock: clocks[0] }), redisStore(redis.client, { clock: clocks[1] })] as const
        const both = stores.map((store) => limiterOn(store, `large-${runs}`))
        runs++
        const model = new SlowLog()
        const admitted: { decisions: readonly Decision[]; limit: Limit; at: number; cost: number }[] = []
        let limit: Limit = limits[0]!
        let newest = clocks[0].now()
        const advance = (ms: number): void => {
          clocks.forEach((clock) => clock.advance(ms))
          newest = Math.max(newest, clocks[0].now())
        }
        /** Steps back, by less than a second in all: more would be a clock fault, which the definition does not know. */
        const stepBack = (ms: number): void =>
          clocks.forEach((clock) => clock.set(Math.max(clock.now() - ms, newest - 900)))

        /** Asks all three. */
        async function ask(cost: number, peeks = false): Promise<void> {
          const asked = both.map((each) => (peeks ? each.peek(limit, { cost }) : each.consume(limit, { cost })))
          const decisions = await Promise.all(asked)
          const { at, ...expected } = model.ask(limit, clocks[0].now(), cost, peeks)
          for (const { allowed, retryAfter, limits } of decisions) {
            const { remaining, resetAfter } = limits[0]!
            expect({ allowed, remaining, retryAfter, resetAfter }).toEqual(expected)
          }
          if (expected.allowed && !peeks) admitted.push({ decisions, limit, at, cost })
        }

        for (const each of acts) {
          if ('many' in each) {
            for (let i = 0; i < each.many; i++) {
              advance(each.pause)
              await ask(1)
            }
          } else if ('cost' in each) await ask(each.cost, each.peeks)
          else if ('refunds' in each) {
            const chosen = admitted.splice(Math.max(0, admitted.length - each.back), each.refunds)
            for (const { decisions, limit: charged, at, cost } of chosen) {
              await Promise.all(both.map((limiter, i) => limiter.refund(decisions[i]!)))
              model.refund(charged, clocks[0].now(), at, cost)
            }
          } else if ('limit' in each) limit = each.limit
          else if ('back' in each) stepBack(each.back)
          else advance(each.pause)
        }
      }),
      {
        numRuns: 6,
        endOnFailure: true,
        // More than a smaller quota stays, and counts again under the larger one.
        examples: [
          [
            [
              { many: 901, pause: 0 },
              { limit: limits[2]! },
              { many: 1, pause: 0 },
              { limit: limits[0]! },
              { many: 1, pause: 0 },
            ],
          ],
        ],
      },
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
    expect(await fields()).toBe(OTHERS + 2)
    await limiter.consume(counter)
    expect(await fields()).toBe(OTHERS)
  })
})
