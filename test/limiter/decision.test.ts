import { describe, expect, it } from 'vitest'
import { combine } from '../../src/limiter/decision.ts'
import { perSecond } from '../../src/index.ts'
import type { LimitStatus } from '../../src/stores/store.ts'

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
