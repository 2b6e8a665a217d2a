import { describe, expect, it } from 'vitest'
import { type BlockOptions, type Duration, gcra, memoryStore, type Store, tokenBucket } from '../../../src/index.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { virtualClock } from '../../../src/testing.ts'
import { keyed } from '../../support/limiters.ts'
import { redisForAll } from '../../support/redis-tests.ts'

describe.each(['memory', 'Redis'])('a bucket that does not start full, in %s', (kind) => {
  const redis = redisForAll()
  const clock = virtualClock()
  const memory = memoryStore({ clock })
  /** In Redis each limiter has its own store, as in a new process. */
  const store = (): Store => (kind === 'memory' ? memory : redisStore(redis.client, { clock }))

  const empty = tokenBucket({ quota: 10, window: '1s', initial: 0 })
  const daily = gcra({ quota: 1, window: '1d' })

  it.each([
    ['another limit', [empty, daily]],
    ['another limit, which comes first,', [daily, empty]],
  ])('is new again when %s denies for longer than the bucket is remembered', async (title, limits) => {
    const limiter = keyed(store(), limits, title)
    const asked = async (): Promise<number> => (await limiter.consume('k')).retryAfter
    let wait = 0
    while (wait < 1000) {
      wait = await asked()
      if (wait < 1000) clock.advance(Math.max(wait, 0))
    }
    expect(wait).toBe(86_400_000)
    clock.advance(wait)
    // The key has no token, as at its first request. The first one arrives after 100 ms.
    expect(await asked()).toBe(100)
    clock.advance(100)
    expect(await asked()).toBe(0)
  })

  it.each<BlockOptions | Duration>(['1d', '3650d', { for: '1h', factor: 2, upTo: '1d' }, { for: '1d', after: 2 }])(
    'admits a key without tokens after the lock-out by its own limit: %j',
    async (block) => {
      for (const refill of ['greedy', 'interval'] as const) {
        const limits = tokenBucket({ quota: 10, window: '1s', initial: 0, refill, block })
        const limiter = keyed(store(), limits, `${refill} ${JSON.stringify(block)}`)
        for (let lockOuts = 0; lockOuts < 3; lockOuts++) {
          let { allowed, retryAfter } = await limiter.consume('k')
          while (allowed) ({ allowed, retryAfter } = await limiter.consume('k'))
          clock.advance(retryAfter)
          expect(await limiter.consume('k')).toMatchObject({ allowed: true })
        }
      }
    },
  )

  it.each(['block', 'pause'] as const)(
    'is new again after a %s that is longer than it is remembered',
    async (action) => {
      const limiter = keyed(store(), empty, action)
      await limiter.consume('k')
      await limiter[action]('k', '1d')
      clock.advance(86_400_000)
      expect(await limiter.consume('k')).toMatchObject({ allowed: false, retryAfter: 100 })
    },
  )

  it.each(['block', 'pause'] as const)('is not new again after a %s that is shorter', async (action) => {
    const limiter = keyed(store(), empty, `short ${action}`)
    await limiter.consume('k')
    await limiter[action]('k', '1900ms')
    clock.advance(1900)
    expect(await limiter.consume('k')).toMatchObject({ allowed: true })
  })
})
