import { describe, expect, it } from 'vitest'
import {
  createLimiter,
  gcra,
  type Limit,
  type Limiter,
  memoryStore,
  type Store,
  tokenBucket,
} from '../../../src/index.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { virtualClock } from '../../../src/testing.ts'
import { redisForAll } from '../../support/redis-tests.ts'

describe.each(['memory', 'Redis'])('a bucket that does not start full, in %s', (kind) => {
  const redis = redisForAll()
  const clock = virtualClock()
  const memory = memoryStore({ clock })
  /** In Redis each limiter has its own store, as in a new process. */
  const store = (): Store => (kind === 'memory' ? memory : redisStore(redis.client, { clock }))
  const limiterOf = (name: string, limits: Limit | Limit[]): Limiter<string> =>
    createLimiter<string>({ name, keyer: (key) => key, limits, store: store(), shared: true })
  const left = async (limiter: Limiter<string>): Promise<number> =>
    (await limiter.peek('k', { cost: 0 })).limits[0]!.remaining

  const changes = [
    ['greedy', undefined, 4],
    ['greedy', 4, undefined],
    ['interval', undefined, 4],
    ['interval', 4, undefined],
  ] as const

  const bucket = (refill: 'greedy' | 'interval', initial: number | undefined): Limit =>
    tokenBucket({ name: 'bucket', quota: 10, window: '1d', refill, ...(initial !== undefined && { initial }) })

  it.each(changes)(
    'keeps what was used when that changes, and gives nothing of it back: %s, from %s to %s',
    async (refill, before, after) => {
      const name = `${refill} ${before} ${after}`
      const old = limiterOf(name, bucket(refill, before))
      const decision = await old.consume('k', { cost: 3 })
      const used = 10 - (await left(old))
      const deployed = limiterOf(name, bucket(refill, after))
      expect(await left(deployed)).toBe(10 - used)
      await deployed.consume('k')
      expect(await left(deployed)).toBe(9 - used)
      // What the other limit has drained is not known, so nothing is surely left of the charge.
      await old.refund(decision)
      expect(await left(deployed)).toBe(9 - used)
    },
  )

  it('admits a client that waits for retryAfter, although others are given something back', async () => {
    const limiter = limiterOf('promised', tokenBucket({ quota: 10, window: '1s', capacity: 100, initial: 0 }))
    const asked = async (cost: number): Promise<number> => (await limiter.consume('k', { cost })).retryAfter
    clock.advance(await asked(100))
    const decision = await limiter.consume('k', { cost: 100 })
    const wait = await asked(100)
    expect(wait).toBe(10_000)
    await limiter.refund(decision)
    clock.advance(wait)
    expect(await asked(100)).toBe(0)
  })

  const empty = tokenBucket({ quota: 10, window: '1s', initial: 0 })
  const daily = gcra({ quota: 1, window: '1d' })

  it.each([
    ['another limit denies for longer than the bucket is remembered', [empty, daily]],
    ['another limit, which comes first, does', [daily, empty]],
    ['a lock-out lasts longer than that', tokenBucket({ quota: 10, window: '1s', initial: 0, block: '1d' })],
    ['another limit is strict', [empty, gcra({ quota: 1, window: '1d', strict: true })]],
  ])('admits a client that waits for retryAfter when %s', async (title, limits) => {
    const limiter = limiterOf(title, limits)
    const asked = async (): Promise<number> => (await limiter.consume('k')).retryAfter
    for (let rounds = 0; rounds < 3; rounds++) {
      let wait = 0
      while (wait === 0) wait = await asked()
      clock.advance(wait / 2)
      clock.advance(await asked())
      expect(await asked()).toBe(0)
    }
  })

  describe.each(['greedy', 'interval'] as const)('with refill %s', (refill) => {
    const bucket = tokenBucket({ quota: 10, window: '1s', initial: 0, refill })

    it.each(['block', 'pause'] as const)('admits a client that waits for retryAfter after a %s', async (action) => {
      for (const isNew of [true, false]) {
        const limiter = limiterOf(`${action} ${refill} ${isNew}`, bucket)
        if (!isNew) await limiter.consume('k')
        clock.advance(isNew ? 0 : 1000)
        await limiter[action]('k', '1d')
        clock.advance(43_200_000)
        const { allowed, retryAfter } = await limiter.consume('k')
        expect({ allowed, retryAfter }).toEqual({ allowed: false, retryAfter: 43_200_000 })
        clock.advance(retryAfter)
        expect((await limiter.consume('k')).allowed).toBe(true)
      }
    })

    it('admits one that waits as long as a peek says after a block that ends with the lock-out before it', async () => {
      const limiter = limiterOf(`same end ${refill}`, tokenBucket({ ...bucket, block: '1d' }))
      // A request that is never admitted begins a lock-out, and has no wait.
      await limiter.consume('k', { cost: 11 })
      await limiter.block('k', '1d')
      const { retryAfter } = await limiter.peek('k')
      expect(retryAfter).toBe(86_400_000)
      clock.advance(retryAfter)
      expect((await limiter.consume('k')).allowed).toBe(true)
    })

    it('admits one that waits as long as a peek says after a block', async () => {
      const limiter = limiterOf(`peek ${refill}`, bucket)
      await limiter.block('k', '1d')
      clock.advance(60_000)
      clock.advance((await limiter.peek('k')).retryAfter)
      expect((await limiter.consume('k', { cost: 10 })).allowed).toBe(true)
    })

    it('admits one that waits for retryAfter when blocks grow', async () => {
      const block = { after: 2, for: '1h', factor: 4 } as const
      const limiter = limiterOf(
        `growing ${refill}`,
        tokenBucket({ quota: 10, window: '1s', initial: 0, refill, block }),
      )
      for (let rounds = 0; rounds < 6; rounds++) {
        let wait = 0
        while (wait === 0) wait = (await limiter.consume('k')).retryAfter
        clock.advance(wait / 2)
        clock.advance((await limiter.consume('k')).retryAfter)
        expect((await limiter.consume('k')).allowed).toBe(true)
      }
    })
  })
})
