import { expect, it } from 'vitest'
import { fixedWindow, type Limit, slidingWindowLog } from '../../../src/index.ts'
import { virtualClock } from '../../../src/testing.ts'
import { limiterOn, redisForAll } from '../../support/redis-tests.ts'

/** Fields in addition to those of a log: the names of the limits, and the states of those of fixed size. */
const OTHERS = 2

const redis = redisForAll()

it('entries of a log in Redis go with the algorithm that kept them', async () => {
  const clock = virtualClock()
  let limit: Limit = slidingWindowLog({ quota: 100, window: '1s', name: 'changing' })
  const limiter = limiterOn(redis.client, () => limit, { clock })
  for (let i = 0; i < 70; i++) {
    clock.advance(1)
    await limiter.consume('k')
  }
  expect(await redis.client.hlen('sluice:test:k')).toBe(OTHERS + 2)
  limit = fixedWindow({ quota: 100, window: '1s', name: 'changing' })
  await limiter.consume('k')
  expect(await redis.client.hlen('sluice:test:k')).toBe(OTHERS)
})
