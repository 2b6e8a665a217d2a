// A client that goes on asking while it is denied stays out, until it pauses for as long as it is told. In memory and in Redis.
import { describe, expect, it } from 'vitest'
import { createLimiter, memoryStore } from '../../../src/index.ts'
import { limit } from '../../../src/limits/limit.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import type { Store } from '../../../src/stores/store.ts'
import { type VirtualClock, virtualClock } from '../../../src/testing.ts'
import { names } from '../../support/harness.ts'
import { redisForAll } from '../../support/redis-tests.ts'

describe('strict', () => {
  const redis = redisForAll()
  const stores: [string, (clock: VirtualClock) => Store][] = [
    ['memory', (clock) => memoryStore({ clock })],
    ['Redis', (clock) => redisStore(redis.client, { clock, prefix: 'strict:' })],
  ]

  describe.each(stores)('in %s', (_, storeOn) => {
    it.each(names())('keeps out a client that asks 10 times in 10 s where 5 are allowed: %s', async (algorithm) => {
      const clock = virtualClock()
      const quota = algorithm === 'spacing' ? 1 : 5
      const limits = limit({ algorithm, quota, window: 2000 * quota, strict: true })
      const limiter = createLimiter({ name: algorithm, keyer: () => 'k', limits, store: storeOn(clock) })
      const verdicts: boolean[] = []
      for (let i = 0; i < 100; i++) {
        verdicts.push((await limiter.consume({})).allowed)
        clock.advance(1000)
      }
      const burst = verdicts.indexOf(false)
      expect(burst).toBeGreaterThan(0)
      expect(burst).toBeLessThanOrEqual(2 * quota)
      expect(verdicts.slice(burst)).not.toContain(true)

      const { retryAfter } = await limiter.consume({})
      clock.advance(retryAfter - 0.001)
      expect((await limiter.peek({})).allowed).toBe(false)
      clock.advance(0.001)
      expect((await limiter.consume({})).allowed).toBe(true)
    })
  })
})
