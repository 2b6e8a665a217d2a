import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { memoryStore } from '../../../src/index.ts'
import { rowStore } from '../../../src/extend.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { virtualClock } from '../../../src/testing.ts'
import { warningsOfEachTest } from '../../support/guarded.ts'
import { names } from '../../support/harness.ts'
import { mapRows } from '../../support/map-rows.ts'
import { anyRedis } from '../../support/redis.ts'
import { limiterOn, run, setups, traces } from '../../support/traces.ts'

/** Decisions compared in a normal run; as many as wanted with SLUICE_EQUALITY. */
const DECISIONS = Number(process.env['SLUICE_EQUALITY'] ?? 20_000)

// A limit that changes at random warns.
warningsOfEachTest()

async function forEach1000(keys: readonly string[], run: (some: string[]) => Promise<unknown>): Promise<void> {
  for (let i = 0; i < keys.length; i += 1000) await run(keys.slice(i, i + 1000))
}

describe('memory, Redis and rows decide the same', () => {
  let server: Awaited<ReturnType<typeof anyRedis>>
  let client: Redis
  let runs = 0
  let compared = 0
  beforeAll(async () => {
    server = await anyRedis()
    client = new Redis(server.url, { enableAutoPipelining: false })
  })
  afterAll(async () => {
    await forEach1000(await client.keys(`${server.prefix}*`), async (keys) => client.unlink(keys))
    client.disconnect()
    await server.stop()
  })

  const share = DECISIONS / names().length
  it.each(names())('under %s', { timeout: 60_000 + DECISIONS * 5 }, async (algorithm) => {
    const target = compared + share
    const property = fc.asyncProperty(setups(algorithm), traces, async (setup, steps) => {
      const name = `run${runs++}`
      const clocks = [virtualClock(), virtualClock(), virtualClock()] as const
      const memory = await run(limiterOn(memoryStore({ clock: clocks[0] }), name, setup), clocks[0], steps)
      const redis = await run(
        limiterOn(redisStore(client, { clock: clocks[1], prefix: server.prefix }), name, setup),
        clocks[1],
        steps,
      )
      const rows = await run(
        limiterOn(rowStore(mapRows(clocks[2], true), { clock: clocks[2] }), name, setup),
        clocks[2],
        steps,
      )
      compared += memory.length
      // Thousands are equal, and `expect` takes long.
      if (!isDeepStrictEqual(redis, memory)) expect(redis).toEqual(memory)
      if (!isDeepStrictEqual(rows, memory)) expect(rows).toEqual(memory)
    })
    const assert = (): Promise<void> => fc.assert(property, { numRuns: 2 })
    // Several at once: a trace waits for Redis most of the time.
    while (compared < target) await Promise.all(Array.from({ length: 6 }, assert))
  })

  it('and no key is left without an expiry', async () => {
    expect(compared).toBeGreaterThanOrEqual(DECISIONS)
    const keys = await client.keys(`${server.prefix}*`)
    expect(keys.length).toBeGreaterThan(0)
    const left: string[] = []
    await forEach1000(keys, (some) =>
      Promise.all(some.map(async (key) => (await client.pttl(key)) === -1 && left.push(key))),
    )
    expect(left).toEqual([])
  })
})
