// One key under many names of limits, as names made from user data make it.
import { beforeEach, describe, expect, it } from 'vitest'
import {
  createLimiter,
  gcra,
  type Limit,
  limit,
  type Limiter,
  memoryStore,
  slidingWindowLog,
  type Store,
} from '../../../src/index.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { virtualClock } from '../../../src/testing.ts'
import { redisForAll } from '../../support/redis-tests.ts'

const KEY = 'sluice:names:k'

describe('a key under many names', () => {
  const redis = redisForAll()
  beforeEach(() => redis.client.flushdb())
  const limiterOn = (store: Store): Limiter<Limit> =>
    createLimiter<Limit>({ name: 'names', keyer: () => 'k', limits: (limit) => limit, store, shared: true })
  const daily = (name: string): Limit => gcra({ quota: 2, window: '1d', name })

  it('keeps no state of a name whose state has expired', async () => {
    const clock = virtualClock()
    const limiter = limiterOn(redisStore(redis.client, { clock }))
    const sizes: number[] = []
    for (let n = 0; n < 1000; n++) {
      const limits = [gcra, slidingWindowLog]
      const { allowed } = await limiter.consume(limits[n % 2]!({ quota: 2, window: '1m', name: `tenant ${n}` }))
      expect(allowed).toBe(true)
      clock.advance(60_000)
      if (n % 250 === 249) sizes.push((await redis.client.memory('USAGE', KEY, 'SAMPLES', 0)) ?? 0)
    }
    // Clocks of processes may differ by an hour, so the names of an hour are kept.
    expect(Math.max(...sizes)).toBeLessThan(40_000)
    expect(sizes[3]).toBeLessThan(sizes[0]! * 1.3)
    expect(await redis.client.hlen(KEY)).toBeLessThan(40)
  })

  it('refuses further names with an error, and decides the names that it has', async () => {
    const limiter = limiterOn(redisStore(redis.client, { clock: virtualClock() }))
    let refused = 0
    for (let n = 0; n < 260; n++) {
      const decision = limiter.consume(daily(`tenant ${n}`))
      if (n < 256) expect((await decision).allowed).toBe(true)
      else {
        await expect(decision).rejects.toMatchObject({
          code: 'STORE_REJECTED',
          message: expect.stringContaining('256'),
        })
        refused++
      }
    }
    expect(refused).toBe(4)
    expect((await limiter.consume(daily('tenant 7'))).allowed).toBe(true)
    expect((await limiter.consume(daily('tenant 7'))).allowed).toBe(false)
    expect((await redis.client.hget(KEY, 'names'))!.split('\n')).toHaveLength(256)
  })

  it('has room again when states have expired', async () => {
    const clock = virtualClock()
    const limiter = limiterOn(redisStore(redis.client, { clock }))
    for (let n = 0; n < 256; n++) {
      const block = n === 0 ? { block: '3d' as const } : {}
      const limit = gcra({ quota: 1, window: '1d', name: `tenant ${n}`, ...block })
      // The second request locks the key out.
      for (let asked = 0; asked < (n === 0 ? 2 : 1); asked++) await limiter.consume(limit)
    }
    clock.advance(26 * 3_600_000)
    expect((await limiter.consume(daily('new'))).allowed).toBe(true)
    const names = (await redis.client.hget(KEY, 'names'))!
    expect(names.split('\n').map((line) => line.split('\t')[0])).toEqual(['new', 'tenant 0'])
    const locked = gcra({ quota: 1, window: '1d', name: 'tenant 0', block: '3d' })
    expect((await limiter.consume(locked)).allowed).toBe(false)
  })

  it('is decided as in memory', async () => {
    const clock = virtualClock()
    const both = [limiterOn(redisStore(redis.client, { clock })), limiterOn(memoryStore({ clock }))]
    const algorithms = ['gcra', 'fixedWindow', 'slidingWindowLog', 'slidingWindowCounter', 'quotaLinear', 'tokenBucket']
    let state = 7
    const roll = (below: number): number => (state = (state * 48_271) % 2_147_483_647) % below
    let denied = 0
    for (let n = 0; n < 600; n++) {
      clock.advance(roll(8) === 0 ? roll(5_000_000) : roll(20_000))
      const at = roll(30)
      const algorithm = algorithms[at % algorithms.length]!
      const block = at % 4 === 0 ? { block: '10m' } : {}
      const asked = limit({ algorithm, quota: 1 + (at % 2), window: 60_000 * (1 + at), name: `n${at}`, ...block })
      const [one, other] = await Promise.all(both.map((each) => each.consume(asked)))
      expect({ ...one, n }).toEqual({ ...other, n })
      if (!one!.allowed) denied++
    }
    expect(denied).toBeGreaterThan(40)
  })
})
