import { describe, expect, it } from 'vitest'
import {
  createLimiter,
  fixedWindow,
  gcra,
  type Limit,
  memoryStore,
  slidingWindowCounter,
  type Store,
} from '../../../src/index.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { virtualClock } from '../../../src/testing.ts'
import { redisForAll } from '../../support/redis-tests.ts'

const slow = gcra({ quota: 10, window: '10s', name: 'changing' })
// The first in ticks of a microsecond; the second, whose products are larger, in ticks of a millisecond.
const fine = slidingWindowCounter({ quota: 10, window: '1d', name: 'changing' })
const coarse = slidingWindowCounter({ quota: 100_000, window: '1d', name: 'changing' })
const fast = gcra({ quota: 10, window: '1s', name: 'changing' })

describe('settled later', () => {
  const redis = redisForAll()

  it.each(['memory', 'Redis'])('a charge on what is fresh by then falls under its own limit: %s', async (kind) => {
    const clock = virtualClock()
    const store: Store = kind === 'memory' ? memoryStore({ clock }) : redisStore(redis.client, { clock })
    const limiter = createLimiter({ store, keyer: () => 'key', limits: (limit: Limit) => limit })
    const decision = await limiter.consume(slow)
    await limiter.consume(fast)
    clock.advance(900)
    await limiter.settle(decision, 5)
    clock.advance(500)
    // Four units more, of which half a one has drained: ten a second would have left nothing.
    const { limits } = await limiter.peek(slow, { cost: 0 })
    expect(limits[0]!.remaining).toBe(6)
  })
  const there = gcra({ quota: 10, window: '60s', name: 'changing' })
  const back = [
    ['memory', fast],
    ['memory beyond maxKeys', fast],
    ['Redis', fast],
    ['memory', fixedWindow({ quota: 10, window: '1s', name: 'changing' })],
    ['Redis', fixedWindow({ quota: 10, window: '1s', name: 'changing' })],
  ] as const
  it.each(back)('charges are not given back when their limit was another one in between: %s', async (kind, between) => {
    const clock = virtualClock()
    const memory = { clock, ...(kind === 'memory' ? {} : { maxKeys: 1, onFull: () => undefined }) }
    const store: Store = kind === 'Redis' ? redisStore(redis.client, { clock }) : memoryStore(memory)
    let key = 'another'
    const name = `back ${between.algorithm}`
    const limiter = createLimiter({ name, store, keyer: () => key, limits: (limit: Limit) => limit })
    const others = async (): Promise<void> => {
      key = 'another'
      for (let i = 0; i < 40; i++) await limiter.consume(there)
      key = 'key'
    }
    await others()
    const before = await limiter.consume(there, { cost: 10 })
    await limiter.consume(between)
    clock.advance(2000)
    await limiter.consume(between)
    // What the other limit counts is over, and its memory could be freed.
    clock.advance(10_000)
    await others()
    expect((await limiter.consume(there, { cost: 10 })).allowed).toBe(true)
    await limiter.refund(before)
    clock.advance(1)
    expect((await limiter.peek(there)).allowed).toBe(false)
    // What is charged after the change is given back as ever.
    clock.advance(7000)
    const after = await limiter.consume(there)
    await limiter.refund(after)
    expect((await limiter.peek(there)).allowed).toBe(true)
  })
  it.each(['memory', 'memory beyond maxKeys', 'Redis'])(
    'a charge is given back when nothing was left of the limit before it: %s',
    async (kind) => {
      const clock = virtualClock()
      const memory = { clock, ...(kind === 'memory' ? {} : { maxKeys: 1, onFull: () => undefined }) }
      const store: Store = kind === 'Redis' ? redisStore(redis.client, { clock }) : memoryStore(memory)
      let key = 'another'
      const limiter = createLimiter({ name: 'nothing left', store, keyer: () => key, limits: (limit: Limit) => limit })
      await limiter.consume(there)
      key = 'key'
      const slower = gcra({ quota: 1, window: '120s', name: 'changing' })
      // From the second request on, it is known for two minutes that the limit has changed.
      await limiter.consume(slower)
      await limiter.consume(fast)
      clock.advance(10_000)
      const decision = await limiter.consume(there, { cost: 10 })
      await limiter.refund(decision)
      expect((await limiter.peek(there, { cost: 0 })).limits[0]!.remaining).toBe(10)
    },
  )
  const changes = [
    ['memory', fine, coarse],
    ['memory', coarse, fine],
    ['Redis', fine, coarse],
    ['Redis', coarse, fine],
  ] as const
  it.each(changes)(
    'a charge is not given back under a limit that has changed since, also in other ticks: %s',
    async (kind, one, other) => {
      const clock = virtualClock()
      const store: Store = kind === 'memory' ? memoryStore({ clock }) : redisStore(redis.client, { clock })
      const limiter = createLimiter({
        name: `${other.quota}`,
        store,
        keyer: () => 'key',
        limits: (limit: Limit) => limit,
      })
      const decision = await limiter.consume(one)
      await limiter.consume(other)
      await limiter.refund(decision)
      const { limits } = await limiter.peek(other, { cost: 0 })
      expect(limits[0]!.remaining).toBe(other.quota - 2)
    },
  )
})
