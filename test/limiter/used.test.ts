// Each limit of a decision says how much of it is used, and which limiter it belongs to.
import { describe, expect, it } from 'vitest'
import { createLimiter, type Decision, gcra, guard, limit, memoryStore, perMinute, stack } from '../../src/index.ts'
import { createRules } from '../../src/rules/index.ts'
import { virtualClock } from '../../src/testing.ts'
import { heldStore } from '../support/held-store.ts'
import { names } from '../support/harness.ts'

function used({ limits }: Decision): number[] {
  return limits.map((each) => each.used)
}

describe('used', () => {
  it.each(names())('counts what was admitted, and nothing once it has expired: %s', async (algorithm) => {
    const clock = virtualClock()
    const quota = algorithm === 'spacing' ? 1 : 4
    const limits = limit({ algorithm, quota, window: '1m' })
    const limiter = createLimiter({ keyer: () => 'k', limits, store: memoryStore({ clock }) })
    expect(used(await limiter.peek({}, { cost: 0 }))).toEqual([0])
    for (let i = 1; i <= quota; i++) expect(used(await limiter.consume({}))).toEqual([i])
    const denied = await limiter.consume({})
    expect(used(denied)).toEqual([quota])
    expect(denied.limits[0]).toMatchObject({ allowed: false, remaining: 0 })
    clock.advance(denied.resetAfter)
    expect(used(await limiter.peek({}, { cost: 0 }))).toEqual([0])
  })

  it('refers to the capacity, and shows a debt as all of it', async () => {
    const limits = gcra({ quota: 10, window: '1m', burst: 3 })
    const limiter = createLimiter({ keyer: () => 'k', limits, store: memoryStore({ clock: virtualClock() }) })
    const decision = await limiter.consume({})
    expect(decision.limits[0]).toMatchObject({ used: 1, remaining: 2 })
    await limiter.settle(decision, 8)
    expect(used(await limiter.peek({}, { cost: 0 }))).toEqual([3])
    expect(used(decision)).toEqual([1])
  })

  it('is part of the plain data of a decision, as is the name of the limiter', async () => {
    const store = memoryStore({ clock: virtualClock() })
    const one = createLimiter({ name: 'one', keyer: () => 'k', limits: perMinute(5), store })
    const two = createLimiter({ name: 'two', keyer: () => 'k', limits: perMinute(9), store })
    const decision = await stack(one, two).consume({}, { cost: 2 })
    expect(structuredClone(decision.limits)).toMatchObject([
      { limiter: 'one', used: 2, remaining: 3 },
      { limiter: 'two', used: 2, remaining: 7 },
    ])
    expect(Object.keys({ ...decision.binding })).toEqual(expect.arrayContaining(['limiter', 'used']))
  })
})

describe('the name of the limiter', () => {
  it("is 'default' for a limiter without a name", () => {
    const limiter = createLimiter({ keyer: () => 'k', limits: perMinute(5) })
    expect(limiter.consume({}).limits[0]!.limiter).toBe('default')
  })

  it('has the name of the policy for rules', async () => {
    const rules = createRules({ policies: [{ name: 'api', key: 'ip', limits: [{ quota: 5, window: '1m' }] }] })
    const decision = await createLimiter({ rules }).consume({ ip: '192.0.2.1' })
    expect(decision.limits[0]).toMatchObject({ limiter: 'rules/api', used: 1 })
  })
})

describe('used without a store', () => {
  it('is 0 where nothing is counted', async () => {
    const store = guard(heldStore(memoryStore()), { onOutage: 'open', deadline: 5 })
    const limiter = createLimiter({ keyer: () => 'k', limits: perMinute(5), store })
    const decision = await limiter.consume({})
    expect(decision.degraded).toBe('open')
    expect(used(decision)).toEqual([0])
    await store.close()
  })
})
