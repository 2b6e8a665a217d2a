import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLimiter, fixedWindow, gcra, type Limit, type Limiter, slidingWindowCounter } from '../../src/index.ts'
import { redisStore } from '../../src/stores/redis.ts'
import { virtualClock } from '../../src/testing.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'

describe('what Redis decides in the shortest way', () => {
  let server: RedisServer
  let client: Redis
  beforeAll(async () => {
    server = await startRedis()
    client = new Redis(server.port)
  })
  afterAll(async () => {
    client.disconnect()
    await server.stop()
  })

  const clock = virtualClock()
  const limiterOf = (name: string, limits: readonly Limit[]): Limiter<string> =>
    createLimiter<string>({ name, keyer: (key) => key, limits, store: redisStore(client, { clock }) })

  async function left(limiter: Limiter<string>): Promise<number[]> {
    return (await limiter.peek('k', { cost: 0 })).limits.map(({ remaining }) => remaining)
  }

  it('charges nobody when one of several limits denies', async () => {
    const limiter = limiterOf('several', [
      gcra({ quota: 9, window: '1d', name: 'wide' }),
      fixedWindow({ quota: 1, window: '1d', name: 'narrow' }),
    ])
    await limiter.check('k')
    const { allowed, limits } = await limiter.check('k')
    expect(allowed).toBe(false)
    expect(limits.map((each) => [each.allowed, each.remaining])).toEqual([
      [true, 8],
      [false, 0],
    ])
    expect(await left(limiter)).toEqual([8, 0])
  })

  it('is not stopped by a limit in shadow', async () => {
    const limiter = limiterOf('shadow', [
      gcra({ quota: 9, window: '1d', name: 'wide' }),
      fixedWindow({ quota: 1, window: '1d', name: 'narrow', shadow: true }),
    ])
    await limiter.check('k')
    expect((await limiter.check('k')).allowed).toBe(true)
    expect(await left(limiter)).toEqual([7, 0])
  })

  it('knows when it charged, although the clock has stepped back into the window before', async () => {
    const limiter = limiterOf('back', [slidingWindowCounter({ quota: 10, window: 1000 })])
    clock.advance(1000 - (clock.now() % 1000))
    await limiter.check('k')
    clock.advance(-1)
    const decision = await limiter.check('k')
    expect(await left(limiter)).toEqual([8])
    await limiter.refund(decision)
    expect(await left(limiter)).toEqual([9])
  })
})
