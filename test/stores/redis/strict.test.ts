// A client that goes on asking while it is denied stays out until it pauses for the reported retryAfter. In memory and in Redis.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createLimiter, memoryStore, spacing } from '../../../src/index.ts'
import { limit } from '../../../src/engine/limit.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import type { Store } from '../../../src/stores/store.ts'
import { type VirtualClock, virtualClock } from '../../../src/testing.ts'
import { limits as limitsOf, exactNames } from '../../support/harness.ts'
import { redisForAll } from '../../support/redis-tests.ts'

const quota = fc.integer({ min: 1, max: 6 })
const window = fc.constantFrom(10, 100, 1000, 7001, 60_000)
const steps = fc.array(fc.record({ after: fc.nat({ max: 400 }), cost: fc.integer({ min: 1, max: 3 }) }), {
  maxLength: 20,
})

describe('strict', () => {
  const redis = redisForAll()
  let runs = 0
  const stores: [string, number, (clock: VirtualClock) => Store][] = [
    ['memory', 300, (clock) => memoryStore({ clock })],
    ['Redis', 30, (clock) => redisStore(redis.client, { clock, prefix: 'strict:' })],
  ]

  describe.each(stores)('in %s', (_, numRuns, storeOn) => {
    it.each(exactNames())(
      'keeps out a client that asks 10 times in 10 s where 5 are allowed: %s',
      async (algorithm) => {
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
      },
    )

    it.each(exactNames())('reports a wait that holds where another limit has denied: %s', async (name) => {
      const strict = limitsOf(name, { quota, window, strict: true }).filter((each) => each['initial'] === undefined)
      const property = fc.asyncProperty(strict, steps, async (each, trace) => {
        const clock = virtualClock()
        const limiter = createLimiter({
          name: `run${runs++}`,
          keyer: () => 'k',
          limits: [limit({ ...each, name: 'strict' }), spacing('300ms', { name: 'gap' })],
          cost: (cost: number, { name }) => (name === 'gap' ? 1 : cost),
          store: storeOn(clock),
        })
        for (const { after, cost } of trace) {
          clock.advance(after)
          const { allowed, retryAfter } = await limiter.consume(cost)
          if (allowed || retryAfter === Infinity) continue
          clock.advance(retryAfter)
          expect((await limiter.consume(cost)).allowed).toBe(true)
        }
      })
      await fc.assert(property, { numRuns })
    })
  })
})
