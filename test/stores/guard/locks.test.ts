// block, pause and penalize through a guard, with a store that answers, does not, and answers again.
import { describe, expect, it, vi } from 'vitest'
import {
  type AsyncStore,
  createLimiter,
  denyCache,
  guard,
  memoryStore,
  perMinute,
  SluiceError,
} from '../../../src/index.ts'
import { guardedLimiterOf } from '../../../src/limiter/adapted.ts'
import type { LockMode } from '../../../src/engine/adjust.ts'
import { Backlog } from '../../../src/stores/guard/backlog.ts'
import { Charge, createPolicy } from '../../../src/stores/store.ts'
import { warningsOfEachTest } from '../../support/guarded.ts'
import { down, faultyStore, up } from '../../support/faulty-store.ts'
import { keyed } from '../../support/limiters.ts'
import { until } from '../../support/redis-tests.ts'

/** A limiter on a guard, and `other` of another process, on the store itself. */
function world(wrap: (store: AsyncStore) => AsyncStore = (store) => guard(store)) {
  const store = faultyStore()
  const [limiter, other] = [keyed(wrap(store), perMinute(100)), keyed(store, perMinute(100))]
  const degraded = async (): Promise<boolean> => (await limiter.peek('probe')).degraded !== undefined
  return {
    store,
    limiter,
    other,
    async fail() {
      store.fault = down
      for (let i = 0; i < 5; i++) await limiter.peek('probe')
      expect(await degraded()).toBe(true)
    },
    async recover() {
      store.fault = up
      await until(async () => !(await degraded()))
    },
  }
}

warningsOfEachTest()

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
    await limiter.peek('a')
    store.fault = down
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
    const store = faultyStore()
    const limiter = createLimiter<string>({ keyer: (key) => key, limits: perMinute(100), store })
    const guarded = guardedLimiterOf(limiter, undefined)
    store.fault = down
    for (let i = 0; i < 5; i++) await guarded.peek('probe')
    await limiter.block('a', '1h')
    await limiter.key('a').pause('2h')
    expect((await guarded.consume('a')).retryAfter).toBeGreaterThan(7_000_000)
    await limiter.penalize('b', 200)
    store.fault = up
    await until(async () => !(await guarded.peek('b')).allowed)
  })
})

describe('a penalty', () => {
  it('of an outage applies here at once, and is charged in the store once when it answers again', async () => {
    const { limiter, other, fail, recover } = world()
    await fail()
    await limiter.penalize('a', 30)
    expect(await limiter.consume('a')).toMatchObject({ degraded: 'local', remaining: 69 })
    await limiter.key('b').penalize(200)
    expect(await limiter.consume('b')).toMatchObject({ degraded: 'local', allowed: false })
    expect(await limiter.consume('c')).toMatchObject({ degraded: 'local', remaining: 99 })
    await recover()
    await until(async () => !(await other.peek('b')).allowed)
    const { remaining } = (await other.peek('a', { cost: 0 })).limits[0]!
    expect(remaining).toBeGreaterThanOrEqual(70)
    expect(remaining).toBeLessThan(90)
  })

  it('applies in an outage that begins later', async () => {
    const { limiter, other, fail } = world()
    await limiter.penalize('a', 200)
    expect((await other.consume('a')).allowed).toBe(false)
    await fail()
    expect(await limiter.consume('a')).toMatchObject({ allowed: false, degraded: 'local' })
  })

  it('that fails before the guard has noticed the outage is rejected, and applies here', async () => {
    const { store, limiter, fail } = world()
    await limiter.consume('a')
    store.fault = down
    await expect(async () => limiter.penalize('a', 200)).rejects.toThrow('down')
    await fail()
    expect(await limiter.consume('a')).toMatchObject({ allowed: false, degraded: 'local' })
  })

  it('of a key that is reset in an outage is not sent later, but refunds are', async () => {
    const { limiter, other, fail, recover } = world()
    const decision = await limiter.consume('a', { cost: 50 })
    await fail()
    await limiter.penalize('a', 200)
    await limiter.refund(decision)
    await expect(async () => limiter.reset('a')).rejects.toMatchObject({ code: 'STORE_FAILED' })
    expect(await limiter.consume('a')).toMatchObject({ degraded: 'local', remaining: 99 })
    await limiter.penalize('b', 200)
    await recover()
    await until(async () => !(await other.peek('b')).allowed)
    await until(async () => (await other.peek('a', { cost: 0 })).limits[0]!.remaining > 90)
  })
})

describe('the backlog', () => {
  const store = memoryStore()
  const policy = createPolicy('test', perMinute(1), store, store)
  const charge = (i: number): Charge => new Charge(policy, String(i), 1)

  function setup(isOutFor = (): boolean => false): { backlog: Backlog; sent: unknown[] } {
    const sent: unknown[] = []
    const inner = faultyStore((operation) => {
      if (operation.kind !== 'lock') return void sent.push(operation)
      const { charges, ms, mode } = operation
      return void sent.push([charges[0]!.key, Math.ceil(ms / 1e6), mode])
    })
    const failed = (_: unknown, error: unknown): void => void sent.push(error)
    return { sent, backlog: new Backlog({ inner, isOutFor, failed }) }
  }

  it('waits again when the store fails while it is sent', async () => {
    let most = 100
    const { backlog, sent } = setup(() => sent.length >= most)
    for (let i = 0; i < 150; i++) backlog.keep({ kind: 'adjust', charges: [charge(i)], units: [-1] })
    await backlog.send()
    expect(sent.length).toBe(100)
    most = 150
    await backlog.send()
    expect(sent.length).toBe(150)
  })

  it('is bounded, and has one lock-out of each key', async () => {
    const { backlog, sent } = setup()
    const now = performance.now()
    const lock = (i: number, ms: number, mode: LockMode): unknown =>
      backlog.keep({ kind: 'lock', charges: [charge(i)], ms, mode }, now + ms)
    const full = { message: expect.stringContaining('10000 refunds') }
    for (let i = 0; i < 10_000; i++) lock(i, 2e6, 'set')
    expect(lock(10_000, 2e6, 'set')).toMatchObject(full)
    lock(7, 1e6, 'extend')
    lock(8, 5e6, 'extend')
    lock(9, 1e6, 'set')
    backlog.forget('test', '0')
    backlog.unlock(charge(1))
    backlog.unlock(charge(1))
    for (const i of [10_000, 10_001]) lock(i, 2e6, 'set')
    expect(lock(10_002, 2e6, 'set')).toMatchObject(full)
    await backlog.send()
    expect(sent.length).toBe(10_000)
    expect(sent.slice(0, 8)).toEqual([
      ...['2', '3', '4', '5', '6', '7'].map((key) => [key, 2, 'set']),
      ['8', 5, 'set'],
      ['9', 1, 'set'],
    ])
    await backlog.send()
    expect(sent.length).toBe(10_000)
  })

  it('counts each charge of a change', () => {
    const { backlog } = setup()
    const keep = (count: number): unknown =>
      backlog.keep({ kind: 'adjust', charges: Array.from({ length: count }, (_, i) => charge(i)), units: [] })
    for (let i = 0; i < 3333; i++) expect(keep(3)).toBeUndefined()
    expect(keep(2)).toMatchObject({ code: 'STORE_FAILED' })
    expect(keep(1)).toBeUndefined()
    expect(backlog.close()).toBe(3334)
  })

  it('repeats a refund of a locked key for a minute, and then says that it is lost', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    const lost: unknown[] = []
    const locked = new SluiceError('STORE_BUSY', 'locked')
    const inner = faultyStore(() => locked)
    const failed = (_: unknown, error: unknown): void => void lost.push(error)
    const backlog = new Backlog({ inner, isOutFor: () => false, failed })
    const refunded = charge(1)
    refunded.allowed = true
    expect(backlog.repeats({ kind: 'adjust', charges: [refunded], units: [-1] }, locked)).toBe(true)
    await vi.advanceTimersByTimeAsync(59_500)
    expect([inner.asked.length, lost]).toEqual([59, []])
    await vi.advanceTimersByTimeAsync(5000)
    const before = inner.asked.length
    await vi.advanceTimersByTimeAsync(60_000)
    expect(before).toBeLessThanOrEqual(61)
    expect([inner.asked.length, lost]).toEqual([before, [locked]])
  })

  it('repeats no refund without a receipt that may be done, and no penalty', () => {
    const { backlog } = setup()
    const refunded = charge(1)
    refunded.allowed = true
    expect(backlog.repeats({ kind: 'adjust', charges: [refunded], units: [-1] }, new Error('no answer'))).toBe(false)
    expect(
      backlog.repeats({ kind: 'adjust', charges: [charge(1)], units: [1] }, new SluiceError('STORE_BUSY', '')),
    ).toBe(false)
  })
})
