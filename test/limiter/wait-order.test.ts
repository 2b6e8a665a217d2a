import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import {
  type AsyncStore,
  createLimiter,
  type Decision,
  fixedWindow,
  gcra,
  guard,
  leakyBucket,
  type Limit,
  type Limiter,
  memoryStore,
  perSecond,
  slidingWindowLog,
  stack,
  type SyncStore,
} from '../../src/index.ts'
import { waitingRequests } from '../../src/limiter/waiting.ts'
import { remoteStore } from '../../src/testing/adapter/world.ts'
import { virtualClock } from '../../src/testing/virtual-clock.ts'
import { methodsOf, methodStore } from '../support/method-store.ts'

const key = 'ada'

function limiterOf(
  limits: Limit | readonly Limit[],
  store: SyncStore = memoryStore({ clock: Date }),
): Limiter<string, Decision> {
  return createLimiter({ keyer: (input: string) => input, limits, store })
}

/** A store that answers later, and whose adjustments fail when `fails` says so. */
function later(store: SyncStore, fails: () => boolean = () => false): AsyncStore {
  const inner = methodsOf(remoteStore(store))
  return methodStore({
    ...inner,
    adjust: async (charges, units) => {
      if (fails()) throw new Error('down')
      await inner.adjust(charges, units)
    },
  })
}

beforeEach(() => {
  vi.useFakeTimers({ now: 1_767_225_600_000 })
})
afterEach(() => {
  vi.useRealTimers()
})

describe('requests that wait on a store and on a guard of it', () => {
  const definition = {
    name: 'guarded',
    keyer: (input: string) => input,
    limits: gcra({ quota: 10, window: '1s', burst: 2 }),
  }
  const pair = (): [Limiter<string>, Limiter<string>] => {
    const store = later(memoryStore({ clock: Date }))
    return [createLimiter({ ...definition, store }), createLimiter({ ...definition, store: guard(store) })]
  }

  it('are served before requests that come later over the other one', async () => {
    for (const [waiting, other] of [pair(), pair().toReversed() as [Limiter<string>, Limiter<string>]]) {
      await waiting.consume(key, { cost: 2 })
      let served = false
      void waiting.wait(key, { cost: 2 }).then(() => (served = true))
      let admitted = 0
      for (let i = 0; i < 40 && !served; i++) {
        await vi.advanceTimersByTimeAsync(10)
        if ((await other.consume(key)).allowed && !served) admitted++
      }
      expect([admitted, served]).toEqual([0, true])
    }
  })

  it('are served in the order of their arrival', async () => {
    const [plain, guarded] = pair()
    await plain.consume(key, { cost: 2 })
    const served: number[] = []
    const began = Date.now()
    for (const limiter of [plain, guarded, plain, guarded])
      void limiter.wait(key).then(() => served.push(Date.now() - began))
    await vi.advanceTimersByTimeAsync(1000)
    expect(served).toEqual([100, 200, 300, 400])
  })

  it('are asked again when the other one gives something back', async () => {
    const [plain, guarded] = pair()
    const charged = await guarded.consume(key, { cost: 2 })
    let served = false
    void plain.wait(key, { cost: 2 }).then(() => (served = true))
    await vi.advanceTimersByTimeAsync(10)
    await guarded.refund(charged)
    await vi.advanceTimersByTimeAsync(1)
    expect(served).toBe(true)
  })
})

describe('a request that waits', () => {
  it('is served before requests that come later, also when those need less', async () => {
    const limiter = limiterOf(gcra({ quota: 10, window: '1s', burst: 2 }))
    limiter.consume(key, { cost: 2 })
    let admitted = 0
    let served = Infinity
    void limiter.wait(key, { cost: 2 }).then(() => (served = Date.now()))
    const began = Date.now()
    for (let i = 0; i < 60; i++) {
      await vi.advanceTimersByTimeAsync(50)
      if (limiter.consume(key).allowed && served === Infinity) admitted++
    }
    expect({ admitted, after: served - began }).toEqual({ admitted: 0, after: 200 })
  })

  it('makes later requests wait for its time and their own', async () => {
    const limiter = limiterOf(gcra({ quota: 10, window: '1s', burst: 3 }))
    limiter.consume(key)
    limiter.consume(key, { cost: 2 })
    void limiter.wait(key, { cost: 2 })
    for (const decide of [() => limiter.consume(key), () => limiter.peek(key)]) {
      expect(decide()).toMatchObject({ allowed: false, retryAfter: 300, remaining: 0, binding: { allowed: false } })
    }
    await vi.advanceTimersByTimeAsync(300)
    expect(limiter.consume(key).allowed).toBe(true)
  })

  it('makes later requests wait at least as long as for the capacity', async () => {
    const limiter = limiterOf(gcra({ quota: 10, window: '1s', burst: 2 }))
    limiter.consume(key, { cost: 2 })
    void limiter.wait(key, { cost: 2 })
    expect(limiter.consume(key)).toMatchObject({ allowed: false, retryAfter: 200, remaining: 0 })
    await vi.advanceTimersByTimeAsync(200)
    expect(limiter.consume(key)).toMatchObject({ allowed: false, retryAfter: 100 })
  })

  it('delays no other key, no other limit and no request without a cost', async () => {
    const store = memoryStore({ clock: Date })
    const limiter = limiterOf(perSecond(1), store)
    const other = createLimiter({ name: 'other', keyer: (input: string) => input, limits: perSecond(1), store })
    limiter.consume(key)
    void limiter.wait(key)
    expect(limiter.consume('bob').allowed).toBe(true)
    expect(other.consume(key).allowed).toBe(true)
    expect(limiter.consume(key, { cost: 0 }).allowed).toBe(true)
    await vi.advanceTimersByTimeAsync(1000)
  })

  it('comes first for every limiter on its store', async () => {
    const store = memoryStore({ clock: Date })
    const user = createLimiter({ name: 'user', keyer: (input: string) => input, limits: perSecond(1), store })
    const site = createLimiter({ name: 'site', keyer: () => 'all', limits: perSecond(1), store })
    const both = stack(user, site)
    both.consume(key)
    let done = false
    void both.wait('bob').then(() => (done = true))
    expect(site.consume(key)).toMatchObject({ allowed: false, retryAfter: 1000 })
    await vi.advanceTimersByTimeAsync(1000)
    expect(done).toBe(true)
  })

  it('is served as soon as a refund or a reset makes room', async () => {
    const limiter = limiterOf(fixedWindow({ quota: 1, window: '1h' }))
    const first = limiter.consume(key)
    let served = 0
    void limiter.wait(key).then(() => served++)
    void limiter.wait(key).then(() => served++)
    await vi.advanceTimersByTimeAsync(10)
    limiter.refund(first)
    await vi.advanceTimersByTimeAsync(0)
    expect(served).toBe(1)
    limiter.reset(key)
    await vi.advanceTimersByTimeAsync(0)
    expect(served).toBe(2)
    expect(vi.getTimerCount()).toBe(0)
  })

  it('keeps its turn on a store that answers later', async () => {
    const limiter = createLimiter({
      keyer: (input: string) => input,
      limits: gcra({ quota: 10, window: '1s', burst: 2 }),
      store: later(memoryStore({ clock: Date })),
    })
    await limiter.consume(key, { cost: 2 })
    let served = Infinity
    const began = Date.now()
    void limiter.wait(key, { cost: 2 }).then(() => (served = Date.now()))
    for (let i = 0; i < 10; i++) {
      await vi.advanceTimersByTimeAsync(19)
      expect(await limiter.consume(key)).toMatchObject({ allowed: false })
    }
    await vi.advanceTimersByTimeAsync(10)
    expect(served - began).toBe(200)
  })
})

describe('a full queue', () => {
  it('rejects the newest waiter of the longest key for one of a shorter key', async () => {
    const limiter = limiterOf(perSecond(1))
    const left: string[] = []
    const enter = (key: string, name: string): void =>
      void limiter
        .wait(key, { maxQueue: 3 })
        .catch((error: unknown) => left.push(`${name} ${(error as { code: string }).code}`))
    for (const each of [key, 'bob']) limiter.consume(each)
    for (const name of ['ada 1', 'ada 2', 'ada 3']) enter(key, name)
    enter('bob', 'bob 1')
    await vi.advanceTimersByTimeAsync(0)
    expect(left).toEqual(['ada 3 WAIT_QUEUE_FULL'])
    enter('bob', 'bob 2')
    await vi.advanceTimersByTimeAsync(0)
    expect(left).toEqual(['ada 3 WAIT_QUEUE_FULL', 'bob 2 WAIT_QUEUE_FULL'])
    await vi.advanceTimersByTimeAsync(2000)
    expect(vi.getTimerCount()).toBe(0)
  })

  it('rejects one more of a key than maxPerKey, and no other key', async () => {
    const limiter = limiterOf(perSecond(1))
    for (const each of [key, 'bob']) limiter.consume(each)
    const waits = Array.from({ length: 2 }, () => limiter.wait(key, { maxPerKey: 2 }))
    await expect(limiter.wait(key, { maxPerKey: 2 })).rejects.toMatchObject({ code: 'WAIT_QUEUE_FULL' })
    waits.push(limiter.wait('bob', { maxPerKey: 2 }))
    await vi.advanceTimersByTimeAsync(2000)
    expect((await Promise.all(waits)).map(({ allowed }) => allowed)).toEqual([true, true, true])
  })

  it('keeps at most maxQueue waiters, however many keys ask', async () => {
    const limiter = limiterOf(perSecond(1))
    const rejected = { count: 0 }
    for (let i = 0; i < 300; i++) {
      limiter.consume(`key ${i}`)
      for (let each = 0; each < 3; each++)
        void limiter.wait(`key ${i}`, { maxQueue: 50 }).catch(() => void rejected.count++)
    }
    await vi.advanceTimersByTimeAsync(0)
    expect(rejected.count).toBe(900 - 50)
    expect(waitingRequests().get('default')).toBe(50)
    await vi.advanceTimersByTimeAsync(5000)
    expect([waitingRequests().get('default'), vi.getTimerCount()]).toEqual([undefined, 0])
  })

  it.each([0, 1.5, '9', null])('refuses maxQueue: %o', async (maxQueue) => {
    await expect(limiterOf(perSecond(1)).wait(key, { maxQueue } as object)).rejects.toThrow(/maxQueue: expected/)
  })
})

describe('the work of many waiters', () => {
  it('grows in proportion to their number, with a maxWait too', async () => {
    const store = memoryStore({ clock: Date })
    const run = vi.spyOn(store, 'run')
    const limiter = limiterOf(slidingWindowLog({ quota: 5, window: '1s' }), store)
    const abort = new AbortController()
    const waits = Array.from({ length: 4000 }, (_, i) =>
      limiter.wait(key, { signal: abort.signal, ...(i % 2 === 0 && { maxWait: 1e9 }) }).catch(() => 0),
    )
    await vi.advanceTimersByTimeAsync(0)
    expect(run.mock.calls.length).toBeLessThan(3 * 4000)
    abort.abort()
    await Promise.all(waits)
  })
})

describe('a wait that ends early', () => {
  it('warns when its charge cannot be refunded, and ends no process', async () => {
    const warnings = vi.spyOn(process, 'emitWarning').mockReturnValue()
    const limiter = createLimiter({
      keyer: (input: string) => input,
      limits: leakyBucket({ quota: 1, window: '1s', capacity: 5 }),
      store: later(memoryStore({ clock: Date }), () => true),
    })
    await limiter.wait(key)
    const abort = new AbortController()
    const held = limiter.wait(key, { signal: abort.signal })
    await vi.advanceTimersByTimeAsync(100)
    abort.abort(new Error('gone'))
    await expect(held).rejects.toThrow('gone')
    await vi.advanceTimersByTimeAsync(0)
    expect(warnings).toHaveBeenCalledWith(expect.stringContaining('down'), {
      type: 'SluiceWarning',
      code: 'SLUICE_OUTCOME',
    })
    warnings.mockRestore()
  })
})

describe('with a virtual clock', () => {
  it('waits and delays end when the clock says so', async () => {
    vi.useRealTimers()
    const clock = virtualClock()
    const limiter = limiterOf(leakyBucket({ quota: 1, window: '1h', capacity: 2 }), memoryStore({ clock }))
    await limiter.wait(key)
    const order: number[] = []
    const waits = [1, 2].map((i) => limiter.wait(key).then(() => order.push(i)))
    await Promise.resolve()
    expect(order).toEqual([])
    clock.advance(3_600_000)
    await waits[0]
    expect(order).toEqual([1])
    clock.advance(3_600_000)
    await Promise.all(waits)
    expect(order).toEqual([1, 2])
  })

  it('maxWait passes when the clock says so', async () => {
    vi.useRealTimers()
    const clock = virtualClock()
    const store = remoteStore(memoryStore({ clock }))
    const limits = fixedWindow({ quota: 1, window: '1h' })
    const limiter = createLimiter({ keyer: (input: string) => input, limits, store })
    await limiter.consume(key)
    vi.spyOn(store, 'run').mockReturnValue(undefined)
    const waiting = limiter.wait(key, { maxWait: 60_000 })
    clock.advance(60_002)
    await expect(waiting).rejects.toMatchObject({ code: 'WAIT_TOO_LONG' })
  })
})
