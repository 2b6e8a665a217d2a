import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  concurrent,
  createLimiter,
  exponential,
  fixedWindow,
  gcra,
  guard,
  leakyBucket,
  type Limit,
  type Limiter,
  limit,
  memoryStore,
  perMinute,
  quotaLinear,
  slidingWindowBuckets,
  slidingWindowCounter,
  slidingWindowLog,
  type Store,
  tokenBucket,
} from '../../src/index.ts'
import { createRules } from '../../src/rules/index.ts'
import { virtualClock } from '../../src/testing.ts'
import { laterStore } from '../support/later.ts'

const keyer = (key: string): string => key
const capacityOf = (limit: Limit): number => Number(limit['burst'] ?? limit['capacity'] ?? limit.quota)
const QUOTA = { quota: 10, window: '1m', capCost: true } as const

// `quotaLinear` reports no burst after a refund, and `exponential` weighs costs.
const exact: readonly Limit[] = [
  gcra(QUOTA),
  gcra({ ...QUOTA, burst: 4 }),
  tokenBucket({ ...QUOTA, capacity: 25 }),
  tokenBucket({ ...QUOTA, refill: 'interval' }),
  leakyBucket({ ...QUOTA, shape: false }),
  fixedWindow(QUOTA),
  fixedWindow({ ...QUOTA, window: '1d', anchor: 'calendar' }),
  slidingWindowCounter(QUOTA),
  slidingWindowLog(QUOTA),
  slidingWindowBuckets(QUOTA),
]

describe('capCost', () => {
  it.each(
    [...exact, quotaLinear(QUOTA), exponential(QUOTA), concurrent({ quota: 10, capCost: true })].map(
      (each) => [each.algorithm, each] as const,
    ),
  )('%s admits a cost above the capacity as the capacity', (_, limits) => {
    const limiter = createLimiter({ keyer, limits, store: memoryStore({ clock: virtualClock(0) }) })
    const capacity = capacityOf(limits)
    const decision = limiter.consume('ann', { cost: 1000 })
    expect(decision).toMatchObject({ allowed: true, limits: [{ cost: capacity, used: capacity, remaining: 0 }] })
    expect(limiter.consume('ann', { cost: 1000 })).toMatchObject({ allowed: false })
    expect(limiter.consume('ann', { cost: 1000 }).retryAfter).toBeLessThan(Infinity)
  })

  it('is off by default: such a cost is denied for ever', () => {
    for (const limits of [perMinute(10), perMinute(10, { capCost: false })]) {
      const { allowed, retryAfter } = createLimiter({ keyer, limits }).consume('ann', { cost: 11 })
      expect([allowed, retryAfter]).toEqual([false, Infinity])
    }
  })

  it('leaves a limit that admits nothing closed', () => {
    for (const limits of [perMinute(0, { capCost: true }), gcra({ ...QUOTA, burst: 0 })])
      expect(createLimiter({ keyer, limits }).consume('ann', { cost: 5 }).allowed).toBe(false)
  })

  it('applies to each limit by itself, and to a cost function', () => {
    const limits = [perMinute(10, { name: 'tokens', capCost: true }), perMinute(5, { name: 'requests' })]
    const cost = (_: string, { name }: Limit): number => (name === 'tokens' ? 99 : 2)
    const decision = createLimiter({ keyer, limits, cost }).consume('ann')
    expect(decision.limits.map((each) => [each.cost, each.remaining])).toEqual([
      [10, 0],
      [2, 3],
    ])
  })

  it('refuses anything but a boolean, and is data', () => {
    expect(() => perMinute(1, { capCost: 1 as never })).toThrow('capCost: expected')
    expect(limit(JSON.parse(JSON.stringify(perMinute(1, { capCost: true }))))).toEqual(perMinute(1, { capCost: true }))
  })

  it('works in documents of rules and in overrides', () => {
    const limits = [{ quota: 10, window: '1m', capCost: true }]
    const overrides = [{ key: '/b', limits: [{ capCost: false }] }]
    const rules = createRules({ policies: [{ name: 'api', key: 'path', cost: 50, limits, overrides }] })
    const limiter = createLimiter({ rules, store: memoryStore() }) as Limiter<object>
    expect(limiter.consume({ method: 'GET', path: '/a' })).toMatchObject({ allowed: true })
    expect(limiter.consume({ method: 'GET', path: '/b' })).toMatchObject({ allowed: false })
  })

  it('lets wait wait for the whole capacity instead of refusing', async () => {
    const clock = virtualClock()
    const limiter = createLimiter({ keyer, limits: perMinute(10, { capCost: true }), store: memoryStore({ clock }) })
    limiter.consume('ann')
    const waiting = limiter.wait('ann', { cost: 1000 })
    clock.advance(6000)
    expect((await waiting).allowed).toBe(true)
  })

  it('settles a share of a guard to the whole actual cost', async () => {
    const clock = virtualClock()
    const inner = laterStore(memoryStore({ clock }), () => Promise.reject(new Error('away')))
    const store = guard(inner, { localShare: 0.5 })
    const limiter = createLimiter({ keyer, limits: gcra({ quota: 60, window: '1m', capCost: true }), store })
    const decision = await limiter.consume('ann', { cost: 100 })
    expect(decision).toMatchObject({ allowed: true, degraded: 'local' })
    await limiter.settle(decision, 45)
    // 30 units a minute: a debt of 15, and one unit.
    expect((await limiter.consume('ann')).retryAfter).toBe(16 * 2000)
  })
})

const step = fc.record({ cost: fc.nat({ max: 40 }), actual: fc.nat({ max: 60 }) })
const steps = fc.array(step, { minLength: 1, maxLength: 6 })
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never

/** The obvious model: time stands still, a request charges at most the capacity, and ends with its actual cost. */
async function follows(limits: Limit, store: Store, cases: readonly Step[], key: string): Promise<void> {
  const limiter: Limiter<string> = createLimiter({ keyer, limits, store, shared: true })
  const capacity = capacityOf(limits)
  let total = 0
  for (const { cost, actual } of cases) {
    const charged = Math.min(cost, capacity)
    const decision = await limiter.consume(key, { cost })
    expect(decision.allowed).toBe(charged === 0 || total + charged <= capacity)
    if (!decision.allowed) continue
    total += charged
    expect(decision.limits[0]!.used).toBe(Math.min(total, capacity))
    await limiter.settle(decision, actual)
    total += actual - charged
    expect((await limiter.peek(key, { cost: 0 })).limits[0]!.used).toBe(Math.min(total, capacity))
  }
}

describe('a capped charge that is settled', () => {
  const algorithms = exact.map((each) => [`${each.algorithm} ${JSON.stringify(each)}`, each] as const)

  it.each(algorithms)('has charged exactly the actual cost in memory: %s', async (_, limits) => {
    const store = memoryStore({ clock: virtualClock(0) })
    let key = 0
    const property = fc.asyncProperty(steps, (cases) => follows(limits, store, cases, `key ${key++}`))
    await fc.assert(property, { numRuns: 60 })
  })

  it('pays a debt of exactly the actual cost', () => {
    fc.assert(
      fc.property(fc.integer({ min: 11, max: 500 }), fc.integer({ min: 10, max: 500 }), (cost, actual) => {
        const clock = virtualClock(0)
        const limits = perMinute(10, { capCost: true })
        const limiter = createLimiter({ keyer, limits, store: memoryStore({ clock }) })
        limiter.settle(limiter.consume('ann', { cost }), actual)
        expect(limiter.peek('ann').retryAfter).toBe((actual + 1 - 10) * 6000)
      }),
    )
  })
})
