import { describe, expect, it } from 'vitest'
import { dedupe } from '../../src/limiter/charges.ts'
import { type Limit, memoryStore, perMinute, perSecond } from '../../src/index.ts'
import { Charge, createPolicy, type Store } from '../../src/stores/store.ts'

const store = memoryStore()

function charge(limit: Limit, key: string, cost: number, limiter = 'one', on: Store = store): Charge {
  return new Charge(createPolicy(limiter, limit, on, {}), key, cost)
}

describe('the same limit and key named more than once', () => {
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
})
