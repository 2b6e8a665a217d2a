import { describe, expect, it } from 'vitest'
import {
  type AsyncStore,
  createLimiter,
  denyCache,
  fixedWindow,
  guard,
  type Limiter,
  memoryStore,
} from '../../../src/index.ts'
import { guardedLimiterOf } from '../../../src/limiter/adapted.ts'
import { storeBehaviours } from '../../../src/testing.ts'
import { warningsOfEachTest } from '../../support/guarded.ts'
import { laterStore } from '../../support/later.ts'
import { down, faultyStore, up } from '../../support/faulty-store.ts'

warningsOfEachTest()

const one = fixedWindow({ quota: 1, window: '1d', name: 'one' })
const limiterOn = (store: AsyncStore): Limiter<string> =>
  createLimiter<string>({ keyer: (key) => key, limits: one, store })

describe('a guard and a cache of denials', () => {
  const deadline = '5s'
  const pairs = {
    'denyCache(guard(store))': (store: AsyncStore) => denyCache(guard(store, { deadline })),
    'guard(denyCache(store))': (store: AsyncStore) => guard(denyCache(store), { deadline }),
  }
  for (const [name, wrap] of Object.entries(pairs)) {
    describe(name, () => {
      const make = (clock: { now(): number }): AsyncStore => wrap(laterStore(memoryStore({ clock })))
      // A denial of the cache may report what remained up to `maxAge` ago, so traces are not compared.
      for (const each of storeBehaviours(make)) if (!each.name.includes('same as memoryStore')) it(each.name, each.run)

      const setup = () => {
        const inner = faultyStore()
        return { inner, limiter: limiterOn(wrap(inner)) }
      }

      it('denies a repeated request without a round trip, and caches no decision of an outage', async () => {
        const { inner, limiter } = setup()
        for (let i = 0; i < 5; i++) await limiter.consume('k')
        expect(inner.asked.length).toBe(2)
        inner.fault = down
        for (let i = 0; i < 2; i++) expect((await limiter.consume('new')).degraded).toBe('local')
        inner.fault = up
        expect(await limiter.consume('new')).toMatchObject({ allowed: true, degraded: undefined })
      })

      it('opens the guard after three failures in a row, whatever the cache answers meanwhile', async () => {
        const { inner, limiter } = setup()
        for (let i = 0; i < 2; i++) await limiter.consume('k')
        inner.fault = down
        for (let i = 0; i < 5; i++) {
          expect((await limiter.consume(`new ${i}`)).degraded).toBe('local')
          const repeated = await limiter.consume('k')
          // A guard does not ask the cache inside it during an outage.
          if (i >= 2 && name.startsWith('guard')) expect(repeated.degraded).toBe('local')
          else expect(repeated).toMatchObject({ allowed: false, degraded: undefined })
        }
        expect(inner.asked.length).toBe(5)
      })

      it('passes on that the store itself must answer', async () => {
        const { inner, limiter } = setup()
        await limiter.wait('k')
        expect(inner.asked).toMatchObject([{ kind: 'consume', fresh: true }])
      })
    })
  }

  it('is guarded by an adapter that gets only a cache, once for all limiters', async () => {
    const inner = faultyStore()
    const options = { keyer: (key: string) => key, limits: one, store: denyCache(inner) }
    const limiter = guardedLimiterOf(createLimiter({ ...options, name: 'adapter' }), undefined)
    const closed = guardedLimiterOf(createLimiter({ ...options, name: 'closed' }), 'closed')
    for (let i = 0; i < 5; i++) await limiter.consume('k')
    expect(inner.asked.length).toBe(2)
    inner.fault = down
    for (let i = 0; i < 3; i++) expect(await limiter.consume(`new ${i}`)).toMatchObject({ degraded: 'local' })
    expect(inner.asked.length).toBe(5)
    expect(await closed.consume('new')).toMatchObject({ allowed: false, degraded: 'closed' })
    expect(inner.asked.length).toBe(5)
  })

  it('forgets a denial when the guard around the cache refunds a late charge', async () => {
    let trips = 0
    let release = (): void => undefined
    // The second decision is late on its way back.
    const travel = async (): Promise<void> => {
      if (++trips === 4) await new Promise<void>((resolve) => (release = resolve))
    }
    const late = laterStore(memoryStore(), travel)
    const limiter = limiterOn(guard(denyCache(late, { maxAge: '1h' }), { deadline: '20ms' }))
    // Before the first answer one failure opens the breaker.
    await limiter.consume('first')
    expect(await limiter.consume('k')).toMatchObject({ allowed: true, degraded: 'local' })
    // No denial is kept until the store has refunded the late charge.
    for (let i = 0; i < 3; i++) expect((await limiter.consume('k')).allowed).toBe(false)
    expect(late.asked).toBe(5)
    release()
    await new Promise((resolve) => setImmediate(resolve))
    expect(await limiter.consume('k')).toMatchObject({ allowed: true, degraded: undefined })
  })

  it('refuses a guard around a cache around a guard', () => {
    expect(() => guard(denyCache(guard(faultyStore())))).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
  })

  it('is not guarded again by an adapter, and has its own onOutage for each', async () => {
    const inner = faultyStore()
    const limiter = limiterOn(denyCache(guard(inner)))
    expect(guardedLimiterOf(limiter, undefined)).toBe(limiter)
    expect(guardedLimiterOf(limiter, 'local')).toBe(guardedLimiterOf(limiter, 'local'))
    const closed = guardedLimiterOf(limiter, 'closed')
    expect(guardedLimiterOf(limiter, 'closed')).toBe(closed)
    for (let i = 0; i < 3; i++) await limiter.consume('k')
    await closed.consume('k')
    expect(inner.asked.length).toBe(2)
    inner.fault = down
    expect(await closed.consume('new')).toMatchObject({ allowed: false, degraded: 'closed' })
    expect(await limiter.consume('new')).toMatchObject({ allowed: true, degraded: 'local' })
  })
})
