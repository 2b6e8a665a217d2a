import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { gcra, slidingWindowLog } from '../../../src/index.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { redisKey } from '../../../src/stores/redis/keys.ts'
import { virtualClock } from '../../../src/testing.ts'
import { warningsOfEachTest } from '../../support/guarded.ts'
import { names } from '../../support/harness.ts'
import { limiterOn, redisForAll, until } from '../../support/redis-tests.ts'
import { limiterOn as limiterOf, run, setups, traces } from '../../support/traces.ts'

// A limit that changes at random warns.
warningsOfEachTest()

const YEAR = 31_536_000_000

const HOUR = 3_600_000
/** Three days. */
const LOCKED = 72 * HOUR

describe('a key expires', () => {
  const redis = redisForAll()
  let runs = 0

  it.each(names())('an hour after its limits are fresh or later, whatever has happened: %s', async (algorithm) => {
    const property = fc.asyncProperty(setups(algorithm), traces, async ({ members: [own = []] }, steps) => {
      const [clock, name] = [virtualClock(), `run${runs++}`]
      const store = redisStore(redis.client, { clock, prefix: 'expiry:' })
      const limiter = limiterOf(store, name, { members: [own, []] })
      const history = steps.map((each) => ({ ...each, version: 0 as const }))
      await run(limiter, clock, history)
      for (const key of new Set(history.map((each) => each.key))) {
        const { resetAfter } = await limiter.peek({ key, version: 0 }, { cost: 0 })
        const ttlOf = (): Promise<number> => redis.client.pttl(redisKey('expiry:', `${name}.0`, key))
        const ttl = await ttlOf()
        if (resetAfter > 0) expect(ttl).toBeGreaterThan(resetAfter + HOUR)
        else expect(ttl).not.toBe(-1)
        await limiter.block({ key, version: 0 }, LOCKED)
        const { allowed, retryAfter } = await limiter.peek({ key, version: 0 })
        // A limit of slots can have a longer `retryAfter` as an option.
        if (!allowed) expect(await ttlOf()).toBeGreaterThan(Math.min(retryAfter, LOCKED))
      }
    })
    await fc.assert(property, { numRuns: 5 })
  })

  it('when it is not needed any more, at the time of the server', async () => {
    await redis.client.flushdb()
    await limiterOn(redis.client, gcra({ quota: 5, window: 50 })).consume('k')
    await until(async () => (await redis.client.dbsize()) === 0)
  })

  it('with all entries of a large log, which are carried over whole before', async () => {
    await redis.client.flushdb()
    const clock = virtualClock()
    let limit = slidingWindowLog({ quota: 10_000, window: '1h', name: 'l' })
    const limiter = limiterOn(redis.client, () => limit, { clock })
    for (let i = 0; i < 9500 / 250; i++) {
      const asked: unknown[] = []
      for (let j = 0; j < 250; j++) {
        clock.advance(0.001)
        asked.push(limiter.consume('k'))
      }
      await Promise.all(asked)
      clock.advance(0.001)
    }
    limit = slidingWindowLog({ quota: 9000, window: '2h', name: 'l' })
    expect((await limiter.consume('k')).allowed).toBe(false)
    clock.advance(YEAR)
    expect((await limiter.consume('k')).remaining).toBe(8999)
    expect(await redis.client.hlen('sluice:test:k')).toBe(3)
  })
})
