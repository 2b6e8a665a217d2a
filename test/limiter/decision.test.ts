import { describe, expect, it } from 'vitest'
import { combine } from '../../src/limiter/decision.ts'
import { perSecond } from '../../src/index.ts'
import type { LimitStatus } from '../../src/stores/store.ts'

const plain: LimitStatus = {
  limit: perSecond(10),
  key: 'a',
  cost: 1,
  allowed: true,
  remaining: 5,
  retryAfter: 0,
  resetAfter: 0,
  delay: 0,
}

describe('one decision from several verdicts', () => {
  it('of equals, the first binds', () => {
    const admitted = [{ ...plain }, { ...plain }]
    const refusal = { ...plain, allowed: false, retryAfter: 7 }
    expect(combine(admitted, undefined).binding).toBe(admitted[0])
    const denied = [{ ...refusal }, { ...refusal }]
    expect(combine(denied, undefined).binding).toBe(denied[0])
  })

  it('a limit that charges nothing does not bound what remains', () => {
    const free = { ...plain, cost: 0, remaining: 1 }
    expect(combine([free, plain], undefined).remaining).toBe(5)
    expect(combine([free], undefined).remaining).toBe(Infinity)
  })

  it('waits as long as the longest delay and the longest reset, in whichever order', () => {
    const short = { ...plain, delay: 10, resetAfter: 20 }
    const long = { ...plain, delay: 300, resetAfter: 400 }
    for (const limits of [
      [short, long],
      [long, short],
    ]) {
      expect(combine(limits, undefined)).toMatchObject({ delay: 300, resetAfter: 400 })
    }
  })

  it('nobody waits for a turn that was denied', () => {
    const denied = { ...plain, allowed: false, retryAfter: 50 }
    expect(combine([{ ...plain, delay: 300 }, denied], undefined)).toMatchObject({ delay: 0, retryAfter: 50 })
  })

  it('a shadow limit is listed, and changes nothing else', () => {
    const limit = perSecond(1, { shadow: true })
    const shadow = { ...plain, limit, allowed: false, remaining: 0, retryAfter: 900, resetAfter: 900, delay: 900 }
    const limits = [shadow, plain]
    const expected = { allowed: true, delay: 0, retryAfter: 0, remaining: 5, resetAfter: 0, binding: plain, limits }
    expect(combine(limits, undefined)).toMatchObject(expected)
  })
})
