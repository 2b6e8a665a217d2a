import { describe, expect, it } from 'vitest'
import { combine } from '../../src/limiter/decision.ts'
import { createLimiter, type Decision, gcra, guard, limit, memoryStore, perMinute, perSecond } from '../../src/index.ts'
import type { LimitStatus } from '../../src/stores/store.ts'
import { virtualClock } from '../../src/testing.ts'
import { names } from '../support/harness.ts'
import { heldStore } from '../support/held-store.ts'

const plain: LimitStatus = {
  limit: perSecond(10),
  limiter: 'default',
  key: 'a',
  cost: 1,
  allowed: true,
  remaining: 5,
  used: 5,
  retryAfter: 0,
  resetAfter: 0,
  delay: 0,
}

describe('combine()', () => {
  it('binds to the first of equal verdicts', () => {
    const admitted = [{ ...plain }, { ...plain }]
    const refusal = { ...plain, allowed: false, retryAfter: 7 }
    expect(combine(admitted, undefined).binding).toBe(admitted[0])
    const denied = [{ ...refusal }, { ...refusal }]
    expect(combine(denied, undefined).binding).toBe(denied[0])
  })

  it('ignores a limit that charges nothing when it counts what remains', () => {
    const free = { ...plain, cost: 0, remaining: 1 }
    expect(combine([free, plain], undefined).remaining).toBe(5)
    expect(combine([free], undefined).remaining).toBe(Infinity)
  })

  it('reports the longest delay and the longest reset, in any order', () => {
    const short = { ...plain, delay: 10, resetAfter: 20 }
    const long = { ...plain, delay: 300, resetAfter: 400 }
    for (const limits of [
      [short, long],
      [long, short],
    ]) {
      expect(combine(limits, undefined)).toMatchObject({ delay: 300, resetAfter: 400 })
    }
  })

  it('reports no delay for a denial', () => {
    const denied = { ...plain, allowed: false, retryAfter: 50 }
    expect(combine([{ ...plain, delay: 300 }, denied], undefined)).toMatchObject({ delay: 0, retryAfter: 50 })
  })

  it('lists a shadow limit and ignores it otherwise', () => {
    const limit = perSecond(1, { shadow: true })
    const shadow = { ...plain, limit, allowed: false, remaining: 0, retryAfter: 900, resetAfter: 900, delay: 900 }
    const limits = [shadow, plain]
    const expected = { allowed: true, delay: 0, retryAfter: 0, remaining: 5, resetAfter: 0, binding: plain, limits }
    expect(combine(limits, undefined)).toMatchObject(expected)
  })
})

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

  it('is 0 where nothing is counted without the store', async () => {
    const store = guard(heldStore(memoryStore()), { onOutage: 'open', deadline: 5 })
    const limiter = createLimiter({ keyer: () => 'k', limits: perMinute(5), store })
    const decision = await limiter.consume({})
    expect(decision.degraded).toBe('open')
    expect(used(decision)).toEqual([0])
    await store.close()
  })
})
