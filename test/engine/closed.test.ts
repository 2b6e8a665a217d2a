// A limit with a quota or a capacity of 0 admits nothing, whatever its algorithm and the way in which it is made.
import { describe, expect, it } from 'vitest'
import {
  createLimiter,
  gcra,
  leakyBucket,
  limit,
  type Limit,
  type Limiter,
  memoryStore,
  perMinute,
  slidingWindowLog,
  type Store,
  tokenBucket,
} from '../../src/index.ts'
import { retryAfter } from '../../src/http/headers/retry-after.ts'
import { createRules } from '../../src/rules/index.ts'
import { LocalDecisions } from '../../src/stores/guard/local.ts'
import { redisStore } from '../../src/stores/redis/index.ts'
import { Charge, createPolicy } from '../../src/stores/store.ts'
import { type VirtualClock, virtualClock } from '../../src/testing.ts'
import { remoteStore } from '../../src/testing/later-store.ts'
import { names } from '../support/harness.ts'
import { headersOf } from '../support/written-headers.ts'
import { redisForAll } from '../support/redis-tests.ts'

const redis = redisForAll()
let runs = 0
// The equality test of Redis has quotas of 0 under all algorithms.
const stores: [string, readonly string[], (clock: VirtualClock) => Store][] = [
  ['memory', names(), (clock) => memoryStore({ clock })],
  ['Redis', ['gcra'], (clock) => redisStore(redis.client, { clock, prefix: `closed${runs++}:` })],
]

describe.each(stores)('a quota of 0 in %s', (_, algorithms, storeOn) => {
  const limiterOf = (limits: (quota: number) => Limit, clock = virtualClock()): Limiter<number> =>
    createLimiter<number>({ keyer: () => 'k', limits, store: storeOn(clock) })

  it.each(algorithms)('is never admitted, and a cost of 0 is: %s', async (algorithm) => {
    const closed = limit({ algorithm, quota: 0, window: '1m', name: 'closed' })
    const limiter = createLimiter({ keyer: () => 'k', limits: closed, store: storeOn(virtualClock()) })
    const denial = { allowed: false, retryAfter: Infinity, remaining: 0, resetAfter: 0, delay: 0 }
    expect(await limiter.consume({})).toMatchObject(denial)
    expect(await limiter.peek({}, { cost: 5 })).toMatchObject(denial)
    expect(await limiter.consume({}, { cost: 0 })).toMatchObject({ allowed: true, retryAfter: 0, delay: 0 })
    await expect(limiter.wait({})).rejects.toMatchObject({ code: 'NEVER_ADMITTED' })
  })

  it.each(algorithms)('keeps what was used before, for the quota that comes back: %s', async (algorithm) => {
    const full = algorithm === 'spacing' ? 1 : 4
    const limiter = limiterOf((quota) => limit({ algorithm, quota, window: '1h', name: 'plan' }))
    for (let i = 0; i < full; i++) await limiter.consume(full)
    const { remaining, resetAfter } = await limiter.peek(full, { cost: 0 })
    expect((await limiter.consume(0)).retryAfter).toBe(Infinity)
    expect(await limiter.peek(full, { cost: 0 })).toMatchObject({ remaining, resetAfter })
    expect((await limiter.consume(full)).allowed).toBe(false)
  })

  it('has no debt and keeps what was used before, for a capacity that comes back', async () => {
    const limiter = limiterOf((capacity) => tokenBucket({ quota: 4, window: '1h', capacity, name: 'plan' }))
    await limiter.penalize(0, 3)
    expect((await limiter.peek(0, { cost: 0 })).resetAfter).toBe(0)
    for (let i = 0; i < 4; i++) await limiter.consume(4)
    expect((await limiter.consume(0)).retryAfter).toBe(Infinity)
    expect((await limiter.consume(4)).allowed).toBe(false)
  })

  it('locks the key out where the limit has a block', async () => {
    const clock = virtualClock()
    const limiter = limiterOf((quota) => gcra({ quota, window: '1m', name: 'plan', block: '10s' }), clock)
    expect((await limiter.consume(0)).retryAfter).toBe(Infinity)
    expect(await limiter.consume(5)).toMatchObject({ allowed: false, retryAfter: 10_000 })
    clock.advance(10_000)
    expect((await limiter.consume(5)).allowed).toBe(true)
  })
})

describe('a limit that admits nothing', () => {
  const capacities: [string, Limit][] = [
    ['gcra with a burst of 0', gcra({ quota: 5, window: '1m', burst: 0 })],
    ['leakyBucket with a capacity of 0', leakyBucket({ quota: 5, window: '1m', capacity: 0 })],
    ['tokenBucket with a capacity of 0', tokenBucket({ quota: 5, window: '1m', capacity: 0 })],
    ['a refill into a capacity of 0', tokenBucket({ quota: 5, window: '1m', capacity: 0, refill: 'interval' })],
    ['a quota of 0 with a burst', gcra({ quota: 0, window: '1m', burst: 5 })],
  ]

  it.each(capacities)('%s', (_, limits) => {
    const limiter = createLimiter({ keyer: () => 'k', limits })
    expect(limiter.consume({})).toMatchObject({ allowed: false, retryAfter: Infinity, remaining: 0 })
    expect(headersOf(limits)['RateLimit-Policy']).toMatch(/;q=0;w=60$/)
  })

  it('comes from a document of rules, also by an override', () => {
    const overridden = { key: 'ann', limits: [{ quota: 0 }] }
    const rules = createRules({
      policies: [
        { name: 'off', match: { path: '/off' }, key: 'ip', limits: [{ quota: 0, window: '1m' }] },
        { name: 'on', key: 'attribute:user', limits: [{ quota: 1, window: '1m' }], overrides: [overridden] },
      ],
    })
    const limiter = createLimiter({ rules })
    const ask = (path: string, user: string): unknown => limiter.peek({ path, ip: '192.0.2.1', attributes: { user } })
    expect(ask('/off', 'bob')).toMatchObject({ retryAfter: Infinity })
    expect(ask('/on', 'ann')).toMatchObject({ retryAfter: Infinity })
    expect(ask('/on', 'bob')).toMatchObject({ allowed: true })
  })

  it('still checks the other options', () => {
    expect(() => gcra({ quota: 0, window: '1m', burst: -1 })).toThrow(/^burst: /)
    expect(() => limit({ algorithm: 'fixedWindow', quota: 0, window: '1m', anchor: 'x' })).toThrow(/^anchor: /)
    expect(() => slidingWindowLog({ quota: -1, window: '1m' })).toThrow('quota: expected a whole number from 0')
  })

  it('is written as a quota of 0 that returns after its window, without Retry-After', () => {
    const off = perMinute(0, { name: 'off' })
    expect(retryAfter(createLimiter({ keyer: () => 'k', limits: off }).consume({}))).toBeUndefined()
    expect(headersOf(off)).toEqual({ 'RateLimit-Policy': '"off";q=0;w=60', RateLimit: '"off";r=0;t=60' })
    expect(headersOf(off, 'draft-6')).toEqual({
      'RateLimit-Policy': '0;w=60',
      'RateLimit-Limit': '0',
      'RateLimit-Remaining': '0',
      'RateLimit-Reset': '60',
    })
  })

  it('admits nothing while the store does not answer, whatever the share of the process', () => {
    for (const share of [1, 0.1]) {
      const local = new LocalDecisions(share, 100, remoteStore(memoryStore()))
      const policy = createPolicy('api', gcra({ quota: 3, window: '1m', burst: 0 }), memoryStore(), {})
      const charge = new Charge(policy, 'k', 1)
      local.decide({ kind: 'consume', charges: [charge], fresh: false }, 'local')
      expect(charge).toMatchObject({ allowed: false, retryAfter: Infinity })
      local.close()
    }
  })
})
