import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import {
  createLimiter,
  type Decision,
  type Limit,
  type Limiter,
  memoryStore,
  perSecond,
  stack,
} from '../../../src/index.ts'
import { virtualClock } from '../../../src/testing.ts'
import { dice, limits, names } from '../../support/harness.ts'
import { type Model, modelOf } from '../../support/model.ts'

const clock = virtualClock()
const identity = (key: string): string => key

function bounded(
  limit: Limit | readonly Limit[],
  maxKeys: number,
  onFull: () => void = () => undefined,
): Limiter<string, Decision> {
  return createLimiter({ keyer: identity, limits: limit, store: memoryStore({ clock, maxKeys, onFull }) })
}

describe('maxKeys', () => {
  it.each([0, -1, 1.5, NaN, '5'])('%s is refused', (maxKeys) => {
    expect(() => memoryStore({ maxKeys: maxKeys as number })).toThrow(/^maxKeys: expected/)
  })

  it('says when it is reached, and again after it has recovered', () => {
    const onFull = vi.fn()
    const limit = perSecond(5)
    const limiter = bounded(limit, 10, onFull)
    const flood = (): void => {
      for (let i = 0; i < 100; i++) limiter.consume(`key ${i}`)
    }
    flood()
    expect(onFull.mock.calls).toEqual([[{ limiter: 'default', limit, maxKeys: 10 }]])
    clock.advance(10_000)
    for (let i = 0; i < 100; i++) limiter.consume('key 1')
    clock.advance(10_000)
    flood()
    expect(onFull).toHaveBeenCalledTimes(2)
  })

  it('warns when there is no onFull', () => {
    const emit = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined)
    const limiter = createLimiter({ keyer: identity, limits: perSecond(5), store: memoryStore({ clock, maxKeys: 1 }) })
    for (const key of ['a', 'b', 'c']) limiter.consume(key)
    expect(emit.mock.calls.map(([, options]) => (options as { code: string }).code)).toEqual(['SLUICE_MAX_KEYS'])
    emit.mockRestore()
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
      const limiter = bounded(limit, 20)
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
          expect(modelFor(key).admits(micros(), 1)).toBe(true)
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
    fc.assert(property, { numRuns: 60 })
  })
})
