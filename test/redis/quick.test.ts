import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createLimiter, exponential, fixedWindow, gcra, leakyBucket, type Limit, memoryStore, quotaLinear, slidingWindowBuckets, slidingWindowCounter, slidingWindowLog, tokenBucket } from '../../src/index.ts'
import { redisStore } from '../../src/stores/redis.ts'
import { virtualClock } from '../../src/testing.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'

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

const base = { quota: 5, window: 1000 } as const
it.each([
  gcra({ ...base, burst: 3 }), tokenBucket({ ...base, capacity: 7, initial: 2 }), leakyBucket(base), tokenBucket({ ...base, refill: 'interval' }),
  fixedWindow(base), fixedWindow({ ...base, anchor: 'clock' }), slidingWindowCounter(base), slidingWindowLog({ ...base, quota: 50 }), slidingWindowBuckets(base), quotaLinear(base), exponential(base),
  gcra({ ...base, strict: true }), slidingWindowLog({ ...base, block: 3000 }),
] as Limit[])('%o', async (limit) => {
  const clock = virtualClock()
  const options = { keyer: (k: string) => k, limits: [limit, gcra({ quota: 20, window: 5000, name: 'other' })], name: `${limit.algorithm}-${JSON.stringify(limit)}` }
  const memory = createLimiter({ ...options, store: memoryStore({ clock }) })
  const redis = createLimiter({ ...options, store: redisStore(client, { clock }) })
  let seed = 7
  const random = (n: number): number => (seed = (seed * 48271) % 2147483647) % n
  for (let i = 0; i < 600; i++) {
    const cost = random(4)
    const m = memory.check('k', { cost }), r = await redis.check('k', { cost })
    expect(JSON.stringify(r), `${i}`).toBe(JSON.stringify(m))
    if (random(5) === 0) { memory.refund(m); await redis.refund(r) }
    else if (random(7) === 0) { const actual = random(9); memory.settle(m, actual); await redis.settle(r, actual) }
    clock.advance(random(6) === 0 ? -random(300) : random(10) === 0 ? random(5000) : random(300_000) / 1000)
  }
})
