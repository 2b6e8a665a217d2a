import { describe, expect, it } from 'vitest'
import { dedupe } from '../../src/limiter/charges.ts'
import { createLimiter, type Limit, memoryStore, perMinute, perSecond, stack } from '../../src/index.ts'
import { Charge, createPolicy, type Store } from '../../src/stores/store.ts'

const store = memoryStore()

function charge(limit: Limit, key: string, cost: number, limiter = 'one', on: Store = store): Charge {
  return new Charge(createPolicy(limiter, limit, on, {}), key, cost)
}

describe('the same limit and key named more than once', () => {
  it('is charged once, with the largest cost', () => {
    const limit = perSecond(10)
    const costs = [2, 5, 1, 5, 3]
    const [only, ...others] = dedupe(costs.map((cost) => charge(limit, 'a', cost)))
    expect(others).toEqual([])
    expect(only!.cost).toBe(5)
  })

  it('keeps the order of the others', () => {
    const [a, b, c] = [perSecond(1), perMinute(2), perMinute(3)]
    const charges = [charge(a, 'k', 1), charge(b, 'k', 1), charge(a, 'k', 1), charge(a, 'k', 1), charge(c, 'k', 1)]
    expect(dedupe(charges).map(({ limit }) => limit)).toEqual([a, b, c])
  })

  it('is charged separately under another key, another limiter or another store', () => {
    const limit = perSecond(10)
    const others = [charge(limit, 'b', 1), charge(limit, 'a', 1, 'two'), charge(limit, 'a', 1, 'one', memoryStore())]
    const charges = [charge(limit, 'a', 1), ...others]
    expect(dedupe([...charges])).toEqual(charges)
  })

  it('is an error if two different limits have the name', () => {
    const [one, other] = [perSecond(10, { name: 'same' }), perSecond(11, { name: 'same' })]
    expect(() => dedupe([charge(one, 'a', 1), charge(other, 'a', 1)])).toThrow(/^Two limits are named "same"/)
  })

  it('counts separately in each limiter of a stack', () => {
    const on = memoryStore()
    const limits = perSecond(10)
    const byUser = createLimiter({ name: 'user', keyer: (key: string) => key, limits, store: on })
    const byTeam = createLimiter({ name: 'team', keyer: (key: string) => key, limits, store: on })
    stack(byUser, byTeam).consume('a')
    expect(byUser.peek('a', { cost: 0 }).limits[0]!.remaining).toBe(9)
    expect(byTeam.peek('a', { cost: 0 }).limits[0]!.remaining).toBe(9)
  })
})
