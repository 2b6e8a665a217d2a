// block, pause and penalize through a guard, with a store that answers, does not, and answers again.
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  type AsyncStore,
  createLimiter,
  denyCache,
  guard,
  type Limiter,
  memoryStore,
  perMinute,
} from '../../../src/index.ts'
import { guardedLimiterOf } from '../../../src/limiter/variants.ts'
import { KeptLocks } from '../../../src/stores/guard/kept-locks.ts'
import { Charge, createPolicy } from '../../../src/stores/store.ts'
import { recordWarnings } from '../../support/guarded.ts'
import { until } from '../../support/redis-tests.ts'

/** A store that fails while `isDown`. */
function remote(): AsyncStore & { isDown: boolean } {
  const near = memoryStore()
  const store = {
    isDown: false,
    sync: false as const,
    take: async (...given: Parameters<AsyncStore['take']>) => near.take(...up(given)),
    adjust: async (...given: Parameters<AsyncStore['adjust']>) => near.adjust(...up(given)),
    lock: async (...given: Parameters<NonNullable<AsyncStore['lock']>>) => near.lock!(...up(given)),
    forget: async (...given: Parameters<AsyncStore['forget']>) => near.forget(...up(given)),
    close: async () => near.close(),
  }
  function up<Given>(given: Given): Given {
    if (store.isDown) throw new Error('down')
    return given
  }
  return store
}

interface World {
  readonly store: ReturnType<typeof remote>
  readonly limiter: Limiter<string>
  /** A limiter of another process, on the store itself. */
  readonly other: Limiter<string>
  fail(): Promise<void>
  recover(): Promise<void>
}

function world(wrap: (store: AsyncStore) => AsyncStore = (store) => guard(store)): World {
  const store = remote()
  const on = (place: AsyncStore): Limiter<string> =>
    createLimiter<string>({ name: 'test', keyer: (key) => key, limits: perMinute(100), store: place, shared: true })
  const limiter = on(wrap(store))
  const degraded = async (): Promise<boolean> => (await limiter.peek('probe')).degraded !== undefined
  return {
    store,
    limiter,
    other: on(store),
    async fail() {
      store.isDown = true
      for (let i = 0; i < 5; i++) await limiter.peek('probe')
      expect(await degraded()).toBe(true)
    },
    async recover() {
      store.isDown = false
      await until(async () => !(await degraded()))
    },
  }
}

let warnings: ReturnType<typeof recordWarnings>
beforeEach(() => void (warnings = recordWarnings()))
afterEach(() => warnings.stop())

describe('a lock-out', () => {
  it('applies in the store and, in an outage, in this process', async () => {
    const { limiter, other, fail } = world()
    await limiter.block('a', '1h')
    expect((await other.consume('a')).allowed).toBe(false)
    await fail()
    expect(await limiter.consume('a')).toMatchObject({ allowed: false, degraded: 'local' })
    expect(await limiter.consume('b')).toMatchObject({ allowed: true, degraded: 'local' })
  })

  it('of an outage applies here at once, and in the store when it answers again, for its remaining time', async () => {
    const { limiter, other, fail, recover } = world()
    await fail()
    await limiter.block('a', '1h')
    await limiter.pause('b', '1h')
    expect(await limiter.consume('a')).toMatchObject({ allowed: false, degraded: 'local' })
    await recover()
    await until(async () => !(await other.peek('a')).allowed && !(await other.peek('b')).allowed)
    const { retryAfter } = await other.peek('a')
    expect(retryAfter).toBeLessThan(3_600_000)
    expect(retryAfter).toBeGreaterThan(3_500_000)
    expect((await limiter.consume('a')).degraded).toBeUndefined()
  })

  it('that is replaced or ended in an outage is not sent later', async () => {
    const { limiter, other, fail, recover } = world()
    await limiter.block('c', '1h')
    await fail()
    await limiter.block('a', '1h')
    await limiter.block('a', 0)
    await limiter.block('b', '1h')
    await expect(async () => limiter.reset('b')).rejects.toMatchObject({ code: 'STORE_FAILED' })
    await limiter.block('c', 0)
    await limiter.block('d', '1h')
    await recover()
    await until(async () => !(await other.peek('d')).allowed)
    await until(async () => (await other.peek('c')).allowed)
    for (const key of ['a', 'b']) expect((await other.consume(key)).allowed).toBe(true)
  })

  it('that the store does not confirm while it is asked is rejected, and applies here', async () => {
    const { store, limiter } = world()
    store.isDown = true
    await expect(limiter.block('a', '1h')).rejects.toThrow('down')
    for (let i = 0; i < 3; i++) await limiter.peek('probe')
    expect(await limiter.consume('a')).toMatchObject({ allowed: false, degraded: 'local' })
  })

  it('goes through denyCache in either order', async () => {
    for (const wrap of [
      (store: AsyncStore) => guard(denyCache(store, { maxAge: '1h' })),
      (store: AsyncStore) => denyCache(guard(store), { maxAge: '1h' }),
    ]) {
      const { limiter, other } = world(wrap)
      await limiter.block('a', '1h')
      expect((await limiter.consume('a')).allowed).toBe(false)
      await limiter.block('a', 0)
      expect((await limiter.consume('a')).allowed).toBe(true)
      expect((await other.consume('a')).allowed).toBe(true)
    }
  })

  it('of a limiter that an adapter has guarded goes through the guard', async () => {
    const store = remote()
    const limiter = createLimiter<string>({ keyer: (key) => key, limits: perMinute(100), store })
    const guarded = guardedLimiterOf(limiter, undefined)
    store.isDown = true
    for (let i = 0; i < 5; i++) await guarded.peek('probe')
    await limiter.block('a', '1h')
    await limiter.key('a').pause('2h')
    expect((await guarded.consume('a')).retryAfter).toBeGreaterThan(7_000_000)
    await limiter.penalize('b', 200)
    store.isDown = false
    await until(async () => !(await guarded.peek('b')).allowed)
  })

  it('is refused if the store inside has no locks', async () => {
    const { lock: _, ...bare } = remote()
    for (const store of [guard(bare), denyCache(bare)]) {
      expect(store.lock).toBeUndefined()
      const limiter = createLimiter<string>({ keyer: (key) => key, limits: perMinute(100), store })
      await expect(async () => limiter.block('a', '1h')).rejects.toMatchObject({ code: 'NOT_SUPPORTED' })
    }
  })
})

describe('a penalty', () => {
  it('of an outage is charged when the store answers again', async () => {
    const { limiter, other, fail, recover } = world()
    await fail()
    await limiter.penalize('a', 100)
    await recover()
    await until(async () => !(await other.peek('a')).allowed)
  })
})

describe('kept lock-outs', () => {
  it('are bounded, and one of each key', () => {
    const store = memoryStore()
    const policy = createPolicy('test', perMinute(1), store, store)
    const kept = new KeptLocks()
    const charge = (i: number): Charge => new Charge(policy, String(i), 1)
    for (let i = 0; i < 10_000; i++) kept.keep(charge(i), 1000, 'set')
    expect(() => kept.keep(charge(10_000), 1000, 'set')).toThrow('10000 lock-outs')
    kept.keep(charge(7), 500, 'extend')
    kept.keep(charge(8), 5000, 'extend')
    kept.keep(charge(9), 10, 'set')
    const due = kept.due(({ key }) => ['7', '8', '9'].includes(key))
    expect(due.map(({ until: end, mode }) => [end, mode])).toEqual([
      [1000, 'set'],
      [5000, 'set'],
      [10, 'set'],
    ])
    kept.forget('test', '0')
    kept.drop(charge(1))
    kept.drop(charge(1))
    for (const i of [10_000, 10_001]) kept.keep(charge(i), 1000, 'set')
    expect(() => kept.keep(charge(10_002), 1000, 'set')).toThrow('10000 lock-outs')
  })
})
