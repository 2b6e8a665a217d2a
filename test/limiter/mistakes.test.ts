import { rateLimit } from '../../adapters/express/index.ts'
import { rateLimit as fastifyRateLimit } from '../../adapters/fastify/index.ts'
import { rateLimit as fetchRateLimit } from '../../adapters/fetch/index.ts'
import { rateLimit as honoRateLimit } from '../../adapters/hono/index.ts'
import { rateLimit as koaRateLimit } from '../../adapters/koa/index.ts'
import { RateLimitModule } from '../../adapters/nestjs/index.ts'
import { rateLimit as nodeRateLimit } from '../../adapters/node/index.ts'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { setTimeout as sleep } from 'node:timers/promises'
import { fastify } from 'fastify'
import { describe, expect, it, vi } from 'vitest'
import { headersFor } from '../../src/http/index.ts'
import type * as Sluice from '../../src/index.ts'
import {
  concurrent,
  createLimiter,
  type Decision,
  fixedWindow,
  gcra,
  guard,
  type Limit,
  limit,
  type Limiter,
  memoryStore,
  perMinute,
  perSecond,
  type SyncKeyer,
  tokenBucket,
} from '../../src/index.ts'
import { warningsOfEachTest } from '../support/guarded.ts'

const byName: SyncKeyer<{ name: string }> = (user) => user.name
const ada = { name: 'ada' }

const warnings = warningsOfEachTest()

describe('a mistake that would limit no request, or all requests, is not silent', () => {
  describe('limiters that are created while a program runs', () => {
    type Make = (sluice: typeof Sluice) => Limiter<{ name: string }, Decision>
    const limits = perMinute(5)
    const kept: unknown[] = []
    // Each handler has a keyer of its own.
    const plain: Make = ({ createLimiter }) => createLimiter({ keyer: (user) => user.name, limits })
    const onStore: Make = (sluice) =>
      sluice.createLimiter({ keyer: (user) => user.name, limits, store: sluice.memoryStore() })
    const stacked: Make = ({ stack }) => stack({ limiters: [{ keyer: (user: typeof ada) => user.name, limits }] })

    /** Creates and uses limiters in turn, and collects garbage. Returns the codes of the warnings. */
    async function codesOf(make: Make, use: (limiter: ReturnType<Make>) => void, env?: string): Promise<string[]> {
      vi.resetModules()
      vi.stubEnv('VITEST', env)
      vi.stubEnv('NODE_ENV', 'development')
      const sluice = await import('../../src/index.ts')
      // The code that watches is loaded after a hundred.
      for (let i = 0; i < 300; i++) {
        use(make(sluice))
        if (i === 150) await sleep(20)
      }
      setFlagsFromString('--expose-gc')
      const collect = runInNewContext('gc') as () => void
      collect()
      await sleep(20)
      return [...warnings.codes]
    }

    it.each([
      ['without a store', plain],
      ['on a new store', onStore],
      ['in a stack', stacked],
    ])('cause one warning if each is dropped after one decision: %s', async (_, make) => {
      expect(await codesOf(make, (limiter) => void limiter.consume(ada))).toEqual(['SLUICE_CREATED_PER_REQUEST'])
    })

    it.each<[string, (limiter: ReturnType<Make>) => void, string?]>([
      ['are kept', (limiter) => kept.push(limiter, limiter.consume(ada))],
      ['decide more often', (limiter) => void [limiter.consume(ada), limiter.consume(ada)]],
      ['are not used', () => undefined],
      ['belong to tests', (limiter) => void limiter.consume(ada), 'true'],
    ])('cause no warning if they %s', async (_, use, env) => {
      expect(await codesOf(plain, use, env)).toEqual([])
    })
  })

  describe('limits of one name that a function returns in turn', () => {
    const [read, write] = [100, 10].map((quota) => gcra({ name: 'api', quota, window: '1h' }))
    const byWrites = ({ writes }: { writes: boolean }): Limit => (writes ? write! : read!)
    const limiterOf = () =>
      createLimiter({ keyer: byName as SyncKeyer<{ name: string; writes: boolean }>, limits: byWrites })

    it('cause one warning', () => {
      const limiter = limiterOf()
      for (let i = 0; i < 100; i++) limiter.consume({ name: 'ada', writes: i % 2 === 0 })
      expect(warnings.codes).toEqual(['SLUICE_ALTERNATING_LIMITS'])
    })

    it('cause no warning for different keys, or for a key that changes its plan now and then', () => {
      const limiter = limiterOf()
      for (let i = 0; i < 100; i++) limiter.consume({ name: i % 2 === 0 ? 'ada' : 'bob', writes: i % 2 === 0 })
      for (let i = 0; i < 100; i++) limiter.consume({ name: 'eve', writes: i % 10 === 0 && i < 50 })
      expect(warnings.codes).toEqual([])
    })

    it('cause no warning when each is another one', () => {
      const limits = (quota: number): Limit => gcra({ name: 'api', quota, window: '1h' })
      const limiter = createLimiter({ keyer: () => 'ada', limits, store: memoryStore() })
      for (let quota = 1; quota < 100; quota++) limiter.consume(quota)
      expect(warnings.codes).toEqual([])
    })

    it('cause no warning when they change less often than their windows', () => {
      const now = vi.spyOn(performance, 'now')
      const limiter = limiterOf()
      for (let i = 0; i < 100; i++) {
        now.mockReturnValue(i * 1_800_000)
        limiter.consume({ name: 'ada', writes: i % 2 === 0 })
      }
      expect(warnings.codes).toEqual([])
    })

    it('are watched for a bounded number of keys', () => {
      const limiter = limiterOf()
      for (let i = 0; i < 40; i++)
        for (let key = 0; key < 1001; key++) limiter.consume({ name: `key ${key}`, writes: i % 2 === 0 })
      expect(warnings.codes).toEqual([])
    })
  })

  it('warns about an empty list of limits', () => {
    createLimiter({ keyer: byName, limits: [] })
    expect(warnings.codes).toEqual(['SLUICE_NO_LIMITS'])
  })

  it('does not warn about a function that returns no limits', () => {
    createLimiter({ keyer: byName, limits: () => [] }).consume(ada)
    expect(warnings.codes).toEqual([])
  })

  it.each<[string, object[], number]>([
    ['warns once about durations below a second', [{ window: 60 }, { window: 300 }], 1],
    ['warns about each option', [{ window: 60 }, { window: '60s', block: 900 }], 2],
    ['warns about the seconds of an hour', [{ window: 3600 }], 1],
    ['warns about the seconds of 30 days', [{ window: 2_592_000 }], 1],
    [
      'warns about the options of an algorithm',
      [
        { algorithm: 'concurrent', retryAfter: 5 },
        { algorithm: 'fixedWindow', window: '1d', anchor: 'clock', offset: 3600 },
      ],
      2,
    ],
    ['does not warn about 0', [{ algorithm: 'fixedWindow', window: '1d', anchor: 'clock', offset: 0 }], 0],
    ['does not warn about milliseconds as a text', [{ window: '60ms' }, { window: '3600ms' }], 0],
    ['does not warn about a second and an hour', [{ window: 1000 }, { window: 3_600_000 }], 0],
  ])('%s', async (_, options, count) => {
    vi.resetModules()
    const { limit: make } = await import('../../src/engine/limit.ts')
    await import('../../src/algorithms.ts')
    for (const each of options) make({ algorithm: 'gcra', quota: 1, ...each })
    expect(warnings.codes).toEqual(Array(count).fill('SLUICE_SHORT_DURATION'))
  })

  it('warns about a short life of receipts, and a short window of topDenied', async () => {
    vi.resetModules()
    const sluice = await import('../../src/index.ts')
    sluice.createLimiter({ keyer: byName, limits: sluice.perMinute(5), receiptFor: 3600 })
    sluice.topDenied({ window: 300 }).close()
    expect(warnings.codes).toEqual(['SLUICE_SHORT_DURATION', 'SLUICE_SHORT_DURATION'])
  })

  it('warns once about a refund or settlement of a denial, and of a peek', () => {
    for (const [i, change] of (['refund', 'settle'] as const).entries()) {
      const limiter = createLimiter({ keyer: byName, limits: fixedWindow({ quota: 1, window: '1h' }) })
      for (let each = 0; each < 2; each++) limiter[change](limiter.peek(ada), 3)
      expect(warnings.codes).toHaveLength(i + 1)
      expect(limiter.consume(ada).allowed).toBe(true)
    }
    const limiter = createLimiter({ keyer: byName, limits: fixedWindow({ quota: 1, window: '1h' }) })
    limiter.consume(ada)
    limiter.refund(limiter.consume(ada))
    expect(warnings.codes).toEqual(Array(3).fill('SLUICE_NOT_CHARGED'))
    expect(limiter.peek(ada).allowed).toBe(false)
  })

  it('does not warn about a refund of a cost of 0, nor about a second refund', () => {
    const limiter = createLimiter({ keyer: byName, limits: perMinute(1) })
    limiter.refund(limiter.consume(ada, { cost: 0 }))
    const decision = limiter.consume(ada)
    limiter.refund(decision)
    limiter.refund(decision)
    expect(warnings.codes).toEqual([])
  })
})

describe('an unknown option', () => {
  it.each([
    ['windowMs', 'limits: perMinute(100)'],
    ['skipSuccessfulRequests', "count: 'failures'"],
    ['block', "limits: perMinute(100, { block: '15m' })"],
  ])('suggests the equal of %s', (name, equal) => {
    const options = { keyer: () => 'ann', limits: perMinute(5), [name]: true }
    expect(() => rateLimit(options as never)).toThrow(`. Instead of "${name}", write ${equal}`)
  })

  it.each([
    [() => createLimiter({ keyer: byName, limit: perSecond(1) } as never), 'Did you mean "limits"?'],
    [() => memoryStore({ maxkeys: 5 } as never), 'Did you mean "maxKeys"?'],
    [() => limit({ algorithm: 'gcra', quota: 1, window: '1s', brust: 4 }), 'Did you mean "burst"?'],
    [() => gcra({ qota: 1, window: '1s' } as never), 'Did you mean "quota"?'],
    [() => guard(memoryStore(), { timeout: 50 } as never), `Instead of "timeout", write deadline: { most: '500ms' }`],
    [() => gcra({ limit: 5, window: '1s' } as never), 'Instead of "limit", write quota'],
    [() => tokenBucket({ quota: 5, window: '1s', burst: 9 } as never), 'Instead of "burst", write capacity'],
    [() => limit({ algorithm: 'leakyBucket', quota: 5, window: '1s', burst: 9 }), 'Instead of "burst", write capacity'],
    [
      () => fixedWindow({ quota: 5, window: '1s', burst: 9 } as never),
      'Instead of "burst", write gcra({ quota, window, burst }) or tokenBucket({ quota, window, capacity })',
    ],
    [() => concurrent({ quota: 5, lease: '1m' } as never), 'Instead of "lease", write expiresAfter'],
    [() => headersFor({} as never, { legacyHeaders: true } as never), `write headers: 'github' or 'legacy'`],
    [() => rateLimit({ keyer: byName, limits: perMinute(5), ipv6SubnetPrefix: 64 } as never), 'write keyer: ipKeyer('],
  ])('suggests the nearest name or the equal of an option: %s', (make, expected) => {
    expect(make).toThrow(expected)
  })

  it('names the functions that an option accepts', () => {
    const options = { keyer: () => 'ann', limits: perMinute(5), resetWhen: 'ok' }
    const message = `resetWhen: expected 'success', 'failure' or a function, got "ok"`
    expect(() => rateLimit(options as never)).toThrow(message)
  })

  it('is not needed for a limiter: it stands in the options', async () => {
    const limiter = createLimiter({ keyer: byName, limits: perMinute(5) })
    const expected = 'rateLimit: expected options such as { limiter }, got the limiter itself'
    for (const adapter of [rateLimit, koaRateLimit, fetchRateLimit, honoRateLimit, nodeRateLimit])
      expect(() => (adapter as (options: unknown) => unknown)(limiter)).toThrow(expected)
    const forRoot = expected.replace('rateLimit', 'RateLimitModule.forRoot')
    expect(() => RateLimitModule.forRoot(limiter as never)).toThrow(forRoot)
    await expect(fastify().register(fastifyRateLimit, limiter as never)).rejects.toThrow(expected)
  })

  it.each([[perMinute(5)], [[perMinute(5)]]])('is not a limit alone: %#', async (given) => {
    const expected = 'rateLimit: expected options such as { keyer, limits }, got limits alone'
    for (const adapter of [rateLimit, koaRateLimit, fetchRateLimit, honoRateLimit, nodeRateLimit])
      expect(() => (adapter as (options: unknown) => unknown)(given)).toThrow(expected)
  })

  it('names the argument that is wrong', () => {
    const limiter = createLimiter({ keyer: byName, limits: perMinute(5) })
    expect(() => limiter.key({} as never)).toThrow('key: expected a string')
    expect(() => limiter.penalize(ada, -1)).toThrow('units: expected a whole number from 0, got -1')
    expect(() => limiter.consume(ada, { cost: -1 })).toThrow('cost: expected a whole number from 0, got -1')
  })

  it('says which limit has months and years', () => {
    const monthly = { quota: 5, window: '1mo' } as const
    const message = "window: expected a duration such as '1d', or fixedWindow with anchor: 'calendar'"
    for (const make of [fixedWindow, gcra]) expect(() => make(monthly as never)).toThrow(message)
  })

  it.each(['windowMs', 'constructor', 'somethingElse'])('suggests nothing when no option is near: %s', (name) => {
    expect(() => memoryStore({ [name]: 5 } as never)).toThrow(/onFull, clock \(/)
  })

  it('is compared in bounded time, however long it is', () => {
    expect(() => memoryStore({ ['maxKeys'.repeat(100_000)]: 5 } as never)).toThrow(/has no option/)
  })
})
