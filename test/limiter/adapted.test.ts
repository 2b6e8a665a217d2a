import { describe, expect, it } from 'vitest'
import { type AsyncStore, createLimiter, everyone, fixedWindow, guard, stack } from '../../src/index.ts'
import { guardedLimiterOf, preflightLimiterOf } from '../../src/limiter/adapted.ts'
import { isDeciding } from '../../src/stores/store.ts'
import { faultyStore } from '../stores/guard/faulty-store.ts'
import { keyed } from '../support/limiters.ts'

const two = fixedWindow({ name: 'two', quota: 2, window: '1d' })

/** A store that answers later, unless `isDown`. */
function remote(): AsyncStore & { isDown: boolean; readonly adjusted: number[] } {
  const state = { isDown: false, adjusted: [] as number[] }
  const store = faultyStore((operation) => {
    if (operation.kind === 'adjust') state.adjusted.push(...operation.units)
    return state.isDown && isDeciding(operation) ? new Error('down') : undefined
  })
  return Object.assign(state, store)
}

/** Returns a limiter that admits two requests of each key. */
const limiterOn = (store: AsyncStore, name?: string) => keyed(store, two, name)

describe('the guarded variant of a limiter', () => {
  it('is the limiter itself on a store that needs no guard', () => {
    const inMemory = createLimiter({ keyer: everyone, limits: two })
    expect(guardedLimiterOf(inMemory, 'closed')).toBe(inMemory)
    const guarded = createLimiter({ keyer: everyone, limits: two, store: guard(remote()) })
    expect(guardedLimiterOf(guarded, undefined)).toBe(guarded)
    expect(guardedLimiterOf(guarded, 'open')).not.toBe(guarded)
    const custom = { ...guarded }
    expect(guardedLimiterOf(custom, 'open')).toBe(custom)
  })

  it('is made once for each `onOutage`, and counts with the limiter', async () => {
    const limiter = limiterOn(remote())
    const guarded = guardedLimiterOf(limiter, undefined)
    expect(guardedLimiterOf(limiter, undefined)).toBe(guarded)
    expect(guardedLimiterOf(limiter, 'open')).not.toBe(guarded)
    await limiter.consume('k')
    await guarded.consume('k')
    expect((await guardedLimiterOf(limiter, 'open').consume('k')).allowed).toBe(false)
  })

  it('shares one guard with all limiters on the store', async () => {
    const store = remote()
    const [a, b] = ['a', 'b'].map((name) => limiterOn(store, name))
    store.isDown = true
    for (let i = 0; i < 3; i++) await guardedLimiterOf(a!, 'open').consume('k')
    store.isDown = false
    expect(await guardedLimiterOf(b!, 'closed').consume('k')).toMatchObject({ allowed: false, degraded: 'closed' })
  })

  it('lets the limiter refund what was decided without the store, once', async () => {
    const store = remote()
    const limiter = limiterOn(store)
    const guarded = guardedLimiterOf(limiter, 'local')
    store.isDown = true
    const decision = await guarded.consume('k')
    await guarded.consume('k')
    await limiter.refund(decision)
    await guarded.refund(decision)
    expect((await guarded.peek('k', { cost: 0 })).limits[0]!.remaining).toBe(1)
    expect(store.adjusted).toEqual([])
  })

  it('is reset with the limiter, also where no store decided', async () => {
    const store = remote()
    const limiter = limiterOn(store)
    const guarded = guardedLimiterOf(limiter, 'local')
    const preflights = preflightLimiterOf(guarded)
    for (const each of [guarded, preflights]) for (let i = 0; i < 2; i++) await each.consume('k')
    store.isDown = true
    for (let i = 0; i < 2; i++) await guarded.consume('k')
    expect((await guarded.consume('k')).allowed).toBe(false)
    store.isDown = false
    // Three decisions have failed, so the guard asks nothing: a reset of the store cannot be confirmed there.
    await expect(limiter.reset('k')).rejects.toMatchObject({ code: 'STORE_FAILED' })
    expect((await guarded.consume('k')).allowed).toBe(true)
    expect((await limiter.peek('k', { cost: 0 })).limits[0]!.remaining).toBe(2)
  })

  it('of a stack is a stack', async () => {
    const store = remote()
    const [a, b] = ['a', 'b'].map((name) => limiterOn(store, name))
    const guarded = guardedLimiterOf(stack(a!, b!), 'local')
    store.isDown = true
    expect((await guarded.consume('k')).limits.length).toBe(2)
    await guarded.consume('k')
    expect(await guarded.consume('k')).toMatchObject({ allowed: false, degraded: 'local' })
  })
})
