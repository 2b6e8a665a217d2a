import { describe, expect, it } from 'vitest'
import { type AsyncStore, createLimiter, everyone, fixedWindow, guard, stack } from '../../src/index.ts'
import { guardedLimiterOf, preflightLimiterOf } from '../../src/limiter/adapted.ts'
import { down, faultyStore, up } from '../support/faulty-store.ts'

const two = fixedWindow({ name: 'two', quota: 2, window: '1d' })

/** Returns a limiter that admits two requests of each key. */
const limiterOn = (store: AsyncStore, name = 'default') =>
  createLimiter<string>({ name, keyer: (key) => key, limits: two, store })

describe('the guarded variant of a limiter', () => {
  it('is the limiter itself on a store that needs no guard', () => {
    const inMemory = createLimiter({ keyer: everyone, limits: two })
    expect(guardedLimiterOf(inMemory, 'closed')).toBe(inMemory)
    const guarded = createLimiter({ keyer: everyone, limits: two, store: guard(faultyStore()) })
    expect(guardedLimiterOf(guarded, undefined)).toBe(guarded)
    expect(guardedLimiterOf(guarded, 'open')).not.toBe(guarded)
    const custom = { ...guarded }
    expect(guardedLimiterOf(custom, 'open')).toBe(custom)
  })

  it('is made once for each `onOutage`, and counts with the limiter', async () => {
    const limiter = limiterOn(faultyStore())
    const guarded = guardedLimiterOf(limiter, undefined)
    expect(guardedLimiterOf(limiter, undefined)).toBe(guarded)
    expect(guardedLimiterOf(limiter, 'open')).not.toBe(guarded)
    await limiter.consume('k')
    await guarded.consume('k')
    expect((await guardedLimiterOf(limiter, 'open').consume('k')).allowed).toBe(false)
  })

  it('shares one guard with all limiters on the store', async () => {
    const store = faultyStore()
    const [a, b] = ['a', 'b'].map((name) => limiterOn(store, name))
    store.fault = down
    for (let i = 0; i < 3; i++) await guardedLimiterOf(a!, 'open').consume('k')
    store.fault = up
    expect(await guardedLimiterOf(b!, 'closed').consume('k')).toMatchObject({ allowed: false, degraded: 'closed' })
  })

  it('lets the limiter refund what was decided without the store, once', async () => {
    const store = faultyStore()
    const limiter = limiterOn(store)
    const guarded = guardedLimiterOf(limiter, 'local')
    store.fault = down
    const decision = await guarded.consume('k')
    await guarded.consume('k')
    await limiter.refund(decision)
    await guarded.refund(decision)
    expect((await guarded.peek('k', { cost: 0 })).limits[0]!.remaining).toBe(1)
    expect(store.asked.filter(({ kind }) => kind === 'adjust')).toEqual([])
  })

  it('is reset with the limiter, also where no store decided', async () => {
    const store = faultyStore()
    const limiter = limiterOn(store)
    const guarded = guardedLimiterOf(limiter, 'local')
    const preflights = preflightLimiterOf(guarded)
    for (const each of [guarded, preflights]) for (let i = 0; i < 2; i++) await each.consume('k')
    store.fault = down
    for (let i = 0; i < 2; i++) await guarded.consume('k')
    expect((await guarded.consume('k')).allowed).toBe(false)
    store.fault = up
    // Three decisions have failed, so the guard asks nothing: a reset of the store cannot be confirmed there.
    await expect(limiter.reset('k')).rejects.toMatchObject({ code: 'STORE_FAILED' })
    expect((await guarded.consume('k')).allowed).toBe(true)
    expect((await limiter.peek('k', { cost: 0 })).limits[0]!.remaining).toBe(2)
  })

  it('of a stack is a stack', async () => {
    const store = faultyStore()
    const [a, b] = ['a', 'b'].map((name) => limiterOn(store, name))
    const guarded = guardedLimiterOf(stack(a!, b!), 'local')
    store.fault = down
    expect((await guarded.consume('k')).limits.length).toBe(2)
    await guarded.consume('k')
    expect(await guarded.consume('k')).toMatchObject({ allowed: false, degraded: 'local' })
  })
})
