import { describe, expect, it } from 'vitest'
import { createLimiter, fixedWindow, gcra, type Limit, type Limiter, stack, type Store } from '../../../src/index.ts'
import { type RedisClient, redisStore } from '../../../src/stores/redis/index.ts'
import { redisForAll } from '../../support/redis-tests.ts'

const duplicate = expect.objectContaining({ code: 'DUPLICATE_LIMITER' }) as Error
const gcraOne = gcra({ name: 'one', quota: 1, window: '1d' })
const fixedOne = fixedWindow({ name: 'one', quota: 1, window: '1d' })

/** A client that nobody asks. */
const clientOf = (): RedisClient => ({ evalsha: async () => [], eval: async () => [] })

function limiterOf(store: Store, limits: Limit = gcraOne, shared = false): Limiter<string> {
  return createLimiter<string>({ keyer: (key) => key, limits, store, shared })
}

describe('two stores of one client and prefix', () => {
  it('count in the same place: two limiters of one name are an error', () => {
    const client = clientOf()
    limiterOf(redisStore(client))
    expect(() => limiterOf(redisStore(client), fixedOne)).toThrow(duplicate)
    expect(() => limiterOf(redisStore(client, { prefix: 'sluice:' }), fixedOne)).toThrow(duplicate)
    expect(() => limiterOf(redisStore(client, { clock: Date, cluster: true }), fixedOne)).toThrow(duplicate)
  })

  it('are not told apart by what else they are given, and others are', () => {
    const client = clientOf()
    const { identity } = redisStore(client, { prefix: 'a:' })
    expect(redisStore(client, { prefix: 'a:' }).identity).toBe(identity)
    expect(redisStore(client, { prefix: 'b:' }).identity).not.toBe(identity)
    expect(redisStore(clientOf(), { prefix: 'a:' }).identity).not.toBe(identity)
  })

  it('still do not decide one transaction between them', () => {
    const client = clientOf()
    const [one, other] = [limiterOf(redisStore(client)), limiterOf(redisStore(client), gcraOne, true)]
    expect(() => stack(one, other)).toThrow(expect.objectContaining({ code: 'STORE_MISMATCH' }) as Error)
  })

  const redis = redisForAll()
  it('count together where limiters say that they share', async () => {
    const one = limiterOf(redisStore(redis.client))
    const other = limiterOf(redisStore(redis.client), gcraOne, true)
    expect([(await one.consume('k')).allowed, (await other.consume('k')).allowed]).toEqual([true, false])
  })
})
