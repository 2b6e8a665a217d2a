import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import { createLimiter, type Decision, type Limiter, memoryStore, perSecond, stack } from '../../../src/index.ts'
import { virtualClock } from '../../../src/testing.ts'
import { recordWarnings } from '../../../src/testing/warnings.ts'
import { dice, limits, names } from '../../support/harness.ts'
import { keyed } from '../../support/limiters.ts'
import { type Model, modelOf } from '../../support/model.ts'

const clock = virtualClock()

describe('maxKeys', () => {
  it.each([0, -1, 1.5, NaN, '5'])('%s is refused', (maxKeys) => {
    expect(() => memoryStore({ maxKeys: maxKeys as number })).toThrow(/^maxKeys: expected/)
  })

  // Checked with `Map` alone, as it takes seconds: one of 9,000,000 keys throws after another 7,777,217 have replaced keys of it.
  it.each([8_000_001, 9_000_000, 2 ** 24, 2 ** 31])(
    '%d is refused, which no Map can hold while keys come and go',
    (maxKeys) => {
      expect(() => memoryStore({ maxKeys })).toThrow(/^maxKeys: expected at most 8000000/)
    },
  )

  it('says when it is reached, and again after it has recovered', () => {
    const onFull = vi.fn()
    const limit = perSecond(5)
    const limiter = keyed(memoryStore({ clock, maxKeys: 10, onFull }), limit)
    const flood = (): void => {
      for (let i = 0; i < 100; i++) limiter.consume(`key ${i}`)
    }
    flood()
    expect(onFull.mock.calls).toEqual([[{ limiter: 'test', limit, maxKeys: 10 }]])
    clock.advance(10_000)
    for (let i = 0; i < 100; i++) limiter.consume('key 1')
    clock.advance(10_000)
    flood()
    expect(onFull).toHaveBeenCalledTimes(2)
  })

  it('warns when there is no onFull', () => {
    const { codes, stop } = recordWarnings()
    const limiter = keyed(memoryStore({ clock, maxKeys: 1 }), perSecond(5))
    for (const key of ['a', 'b', 'c']) limiter.consume(key)
    stop()
    expect(codes).toEqual(['SLUICE_MAX_KEYS'])
  })

  it('a transaction of several who share is one', () => {
    const store = memoryStore({ clock, maxKeys: 1, onFull: () => undefined })
    const of = (part: number): Limiter<string, Decision> =>
      createLimiter({ shared: true, store, keyer: (key: string) => `${key} ${part}`, limits: perSecond(3) })
    const both = stack(of(0), of(1), of(2))
    expect(both.consume('x').limits.map(({ remaining }) => remaining)).toEqual([2, 2, 2])
    expect(both.consume('x').limits.map(({ remaining }) => remaining)).toEqual([1, 1, 1])
  })
})

describe.each(names().filter((name) => name !== 'exponential'))('a flood against %s', (name) => {
  const quota = fc.integer({ min: 1, max: 12 })
  const small = limits(name, { quota, window: fc.constantFrom(1000, 60_000), strict: false }).filter(
    ({ burst, capacity, initial, anchor }) =>
      // Hundreds of years of a calendar are beyond the seconds of a slab.
      Number(burst ?? capacity ?? 0) < 100 && initial === undefined && anchor !== 'calendar',
  )

  it('never admits what an exact model would deny, and is exact again after it', () => {
    const property = fc.property(small, fc.nat(), (limit, seed) => {
      const roll = dice(seed)
      const limiter = keyed(memoryStore({ clock, maxKeys: 20, onFull: () => undefined }), limit)
      const models = new Map<string, Model>()
      const micros = (): number => Math.round(clock.now() * 1000)
      const modelFor = (key: string): Model => {
        const known = models.get(key) ?? modelOf(limit, limit.window * 1000)!
        models.set(key, known)
        return known
      }
      const ask = (key: string): boolean => {
        const { allowed } = limiter.consume(key)
        if (allowed) {
          if (!modelFor(key).admits(micros(), 1)) expect.unreachable(`${key} is admitted`)
          modelFor(key).charge(micros(), 1)
        }
        return allowed
      }
      for (let i = 0; i < 400; i++) {
        if (roll(3) === 0) clock.advance(roll(limit.window * 300) / 1000)
        ask(`key ${roll(60)}`)
      }
      // Everything is fresh; each key finds its place again.
      clock.advance(limit.window * 400)
      for (let i = 0; i < 200; i++) limiter.consume('sweeper', { cost: 0 })
      models.clear()
      for (let i = 0; i < 60; i++) {
        const key = `key ${roll(10)}`
        const expected = modelFor(key).admits(micros(), 1)
        if (!expected) modelFor(key).see(micros())
        expect(ask(key)).toBe(expected)
      }
    })
    fc.assert(property, { numRuns: 20 })
  })
})
