// The search of test/stores/lease-bounds.test.ts on a real server.
import fc from 'fast-check'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { type Counts, EVERYTHING, LEASED, LeaseWorld, traces, WHOLE } from '../../support/lease-world.ts'
import { anyRedis } from '../../support/redis.ts'

const RUNS = Number(process.env['SLUICE_LEASES'] ?? 40)

let redis: Awaited<ReturnType<typeof anyRedis>>
let client: Redis
beforeAll(async () => {
  redis = await anyRedis()
  client = new Redis(redis.url)
})
afterAll(async () => {
  const keys = await client.keys(`${redis.prefix}*`)
  if (keys.length > 0) await client.unlink(keys)
  client.disconnect()
  await redis.stop()
})

it('leases keep their bounds over Redis, whatever happens', { timeout: 30_000 + 1000 * RUNS }, async () => {
  const counts: Counts = { decisions: 0, leased: 0, bounds: 0, returned: 0, reports: 0, waits: 0 }
  let runs = 0
  const any = fc
    .tuple(fc.constantFrom(...LEASED), fc.constantFrom(EVERYTHING, WHOLE))
    .chain(([algorithm, kinds]) => traces({ algorithm, kinds, steps: 20 }))
  await fc.assert(
    fc.asyncProperty(any, async (trace) => {
      const prefix = `${redis.prefix}${runs++}:`
      await new LeaseWorld(trace, counts, (clock) => redisStore(client, { clock, prefix })).run()
    }),
    { numRuns: RUNS },
  )
  expect(counts.leased).toBeGreaterThan(0)
})
