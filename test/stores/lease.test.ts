// A store with leases charges before it spends, and gives back what is unused.
import { describe, expect, it, vi } from 'vitest'
import {
  type AsyncStore,
  createLimiter,
  denyCache,
  fixedWindow,
  gcra,
  guard,
  lease,
  type Limit,
  memoryStore,
  perSecond,
  stack,
  type Store,
  tokenBucket,
} from '../../src/index.ts'
import type { Operation, Place, Reply } from '../../src/extend.ts'
import { leaseCounts } from '../../src/stores/lease-counts.ts'
import { Charge, createPolicy } from '../../src/stores/store.ts'
import { storeBehaviours, type VirtualClock, virtualClock } from '../../src/testing.ts'
import { heapUsed } from '../support/heap.ts'
import { laterStore } from '../support/later.ts'
import { wrappers } from '../../src/stores/wrappers.ts'

/** How a store answers: at once, when a test says so, never, or with an error. */
type Mode = 'now' | 'held' | 'never' | 'failed'

/** A store on the same clock, and the operations that it was asked for. */
function testStore(clock?: VirtualClock, place?: Place) {
  // Few keys, so that it keeps little itself.
  const inner = memoryStore({ maxKeys: 1000, ...(clock && { clock }) })
  const made = {
    ...inner,
    sync: false as const,
    answersAlways: false,
    wrappers,
    ...(place && { place }),
    asked: [] as Operation[],
    mode: 'now' as Mode,
    held: [] as (() => void)[],
    givenUp: 0,
    run(operation: Operation, reply: Reply): () => void {
      made.asked.push(operation)
      if (made.mode === 'failed') reply.failed(new Error('no connection'))
      else if (made.mode === 'now') inner.run(operation, reply)
      else if (made.mode === 'held') made.held.push(() => inner.run(operation, reply))
      return () => void made.givenUp++
    },
    /** What it has counted can be read afterwards. */
    close: async () => undefined,
    answer(): void {
      for (const each of made.held.splice(0)) each()
    },
    count: (kind: Operation['kind']): number => made.asked.filter((each) => each.kind === kind).length,
  }
  return made
}

let names = 0

type LeaseStoreOptions = NonNullable<Parameters<typeof lease>[1]>

interface WorldOptions extends LeaseStoreOptions {
  /** False: the store has no clock of a test. */
  readonly isVirtual?: boolean
}

function world(limits: Limit | Limit[] | (() => Limit), { isVirtual = true, ...options }: WorldOptions = {}) {
  const clock = virtualClock()
  const inner = testStore(isVirtual ? clock : undefined)
  const store = lease(inner, { share: 1, ...options })
  const name = `lease ${names++}`
  const limiter = createLimiter<string>({ name, keyer: (key) => key, limits, store })
  const exact = createLimiter<string>({ name, keyer: (key) => key, limits, store: inner, shared: true })
  /** Makes requests, so that units are leased. */
  const heat = async (times = 40, key = 'k'): Promise<void> => {
    for (let i = 0; i < times; i++) expect((await limiter.consume(key)).allowed).toBe(true)
  }
  /** Units that are charged in the store. */
  const charged = async (key = 'k'): Promise<number> => {
    const { limit, remaining } = (await exact.peek(key, { cost: 0 })).limits[0]!
    return limit.quota - remaining
  }
  /** True if a request is made without the store. */
  const isLocal = async (key = 'k', cost = 1): Promise<boolean> => {
    const before = inner.count('consume')
    expect((await limiter.consume(key, { cost })).allowed).toBe(true)
    return inner.count('consume') === before
  }
  return { clock, inner, store, limiter, exact, heat, charged, isLocal, name }
}

const hour = fixedWindow({ name: 'hour', quota: 1000, window: '1h' })
const fast = gcra({ quota: 1_000_000, window: '1s' })

/** A limiter of any name. `shared`, because several can have one. */
function on(store: Store, name: string, limits: Limit | Limit[] = hour, keyer = (key: string): string => key) {
  return createLimiter<string>({ name, keyer, limits, store, shared: true })
}

/** Asks a store to decide a charge. Nobody waits for the answer. */
function consumeAt(store: AsyncStore, charges: readonly Charge[]): ReturnType<AsyncStore['run']> {
  const reply = { answered: () => undefined, failed: () => undefined }
  return store.run({ kind: 'consume', charges, fresh: false }, reply)
}

describe('lease', () => {
  it('asks the store for few of many decisions of a hot key', async () => {
    const { limiter, inner, clock } = world(perSecond(10_000), { share: 0.1 })
    for (let i = 0; i < 1000; i++) {
      expect((await limiter.consume('hot')).allowed).toBe(true)
      clock.advance(1)
    }
    expect(inner.count('consume')).toBeLessThan(60)
  })
  it('leases at most `share` of what remains, and less than what was used within `for`', async () => {
    const { heat, charged, limiter } = world(hour, { share: 0.1 })
    await heat(200)
    const held = (await charged()) - 200
    expect(held).toBeGreaterThan(0)
    expect(held).toBeLessThanOrEqual(0.1 * (1000 - 200) + 1)
    await limiter.consume('k', { cost: 700 })
    expect((await charged()) - 900).toBeLessThanOrEqual(0.1 * 100 + held)
  })
  it('keeps at most `share` of what remains when the store answers, whatever others have used meanwhile', async () => {
    const { heat, charged, exact, inner, limiter } = world(hour, { share: 0.1, from: 2 })
    await heat(30)
    inner.mode = 'held'
    while (inner.held.length === 0) void limiter.consume('k')
    inner.mode = 'now'
    await exact.consume('k', { cost: 850 })
    const before = inner.count('adjust')
    inner.answer()
    expect(inner.count('adjust')).toBe(before + 1)
    const used = leaseCounts().at(-1)!
    expect(used.leased - used.used - used.returned).toBeLessThanOrEqual(0.1 * 120)
    expect(await charged()).toBeLessThan(1000)
  })
  it.each([
    ['was granted after its end', [hour], async ({ clock }: ReturnType<typeof world>) => clock.advance(300)],
    [
      'a shadow limit has denied meanwhile',
      [hour, fixedWindow({ name: 'shadow', quota: 200, window: '1h', shadow: true })],
      async ({ exact }: ReturnType<typeof world>) => {
        const { remaining } = (await exact.peek('k', { cost: 0 })).limits[1]!
        await exact.consume('k', { cost: remaining })
      },
    ],
  ])('gives a lease back at once that %s', async (_, limits, happen) => {
    const made = world(limits, { from: 2 })
    const { heat, charged, inner, limiter, exact } = made
    await heat(10)
    inner.mode = 'held'
    const asked: Promise<unknown>[] = []
    while (inner.held.length === 0) asked.push(limiter.consume('k'))
    inner.mode = 'now'
    await happen(made)
    // Other units of this process, and what it has used.
    const before = (await exact.peek('k', { cost: 0 })).limits[0]!.used
    const refunds = inner.count('adjust')
    inner.answer()
    expect(inner.count('adjust')).toBe(refunds + 1)
    expect(await charged()).toBe(before)
  })
  it('asks for none while a round trip takes longer than `for`, and warns after ten seconds', async () => {
    const warned: string[] = []
    vi.spyOn(process, 'emitWarning').mockImplementation((_, options) => {
      warned.push((options as { code: string }).code)
    })
    const { clock, inner, limiter, isLocal } = world(fast, { from: 2 })
    const ask = async (trip: number): Promise<void> => {
      inner.mode = 'held'
      const asked = Array.from({ length: 5 }, () => limiter.consume('k'))
      await Promise.resolve()
      clock.advance(trip)
      inner.mode = 'now'
      inner.answer()
      await Promise.all(asked)
    }
    for (let i = 0; i < 100; i++) await ask(260)
    expect([inner.count('consume'), inner.count('adjust')]).toEqual([500, 0])
    expect(warned).toEqual(['SLUICE_SHORT_LEASE'])
    for (let i = 0; i < 40; i++) await limiter.consume('k')
    expect(await isLocal()).toBe(true)
  })
  it('asks for no lease before `from` decisions within `for`, and then for less than those', async () => {
    const { heat, charged, clock } = world(hour, { from: 30 })
    await heat(29)
    expect(await charged()).toBe(29)
    clock.advance(2000)
    await heat(29)
    expect(await charged()).toBe(58)
    await heat(4)
    const held = (await charged()) - 62
    expect(held).toBeGreaterThan(0)
    expect(held).toBeLessThan(33)
  })
  it('asks for no lease for a while after a denied one', async () => {
    const { heat, exact, inner, limiter, clock } = world(hour, { from: 2 })
    await heat(10)
    inner.mode = 'held'
    // A batch asks for its successor when little is left.
    while (inner.held.length === 0) await limiter.consume('k')
    inner.mode = 'now'
    await exact.consume('k', { cost: 960 })
    inner.answer()
    const before = inner.count('consume')
    for (let i = 0; i < 5; i++) await limiter.consume('k')
    expect(inner.count('consume') - before).toBeLessThanOrEqual(5)
    clock.advance(1)
  })
  it('of a cost of 0 among others leases all others', async () => {
    const { limiter, inner } = world([hour, fixedWindow({ name: 'other', quota: 10, window: '1h' })], { from: 2 })
    const cost = ({ limit }: { limit: Limit }): number => (limit.name === 'hour' ? 1 : 0)
    expect(cost({ limit: hour })).toBe(1)
    const policies = (await limiter.peek('k')).limits as readonly Charge[]
    const ask = (): boolean => {
      const before = inner.count('consume')
      const charges = policies.map(({ policy }, i) => new Charge(policy, 'k', i === 0 ? 1 : 0))
      consumeAt(policies[0]!.policy.store as AsyncStore, charges)
      return inner.count('consume') === before
    }
    const local = Array.from({ length: 100 }, ask).filter(Boolean).length
    expect(local).toBeGreaterThan(50)
    // Each lease is asked for once, and none is given back at once.
    expect(inner.count('adjust')).toBe(0)
  })
  it('asks for the next one when a quarter is left, also with a limit that has no cost', async () => {
    const trips = async (cost: number): Promise<number> => {
      const clock = virtualClock()
      const inner = testStore(clock)
      const limits = ['a', 'b'].map((name) => gcra({ name, quota: 1_000_000, window: '1s' }))
      const costOf = (_: string, { name }: Limit): number => (name === 'b' ? cost : 1)
      const limiter = createLimiter<string>({ keyer: (key) => key, limits, cost: costOf, store: lease(inner) })
      for (let i = 0; i < 4000; i++) {
        await limiter.consume('k')
        if (i % 20 === 0) clock.advance(1)
      }
      return inner.count('consume')
    }
    expect(await trips(0)).toBe(await trips(1))
  })
  it('is asked for after more decisions than are counted of a cold key, if `from` says so', async () => {
    const { limiter, inner } = world(fast, { for: '1m', from: 500 })
    for (let i = 0; i < 2000; i++) await limiter.consume('k')
    expect(inner.count('consume')).toBeGreaterThanOrEqual(500)
    expect(inner.count('consume')).toBeLessThan(1000)
  })
  it('is used for the limits of two limiters that have one name', async () => {
    const clock = virtualClock()
    const inner = testStore(clock)
    const store = lease(inner)
    const [one, two] = [100_000, 200_000].map((quota, i) =>
      on(store, `twin ${i}`, fixedWindow({ name: 'requests', quota, window: '1h' })),
    )
    const both = stack(one!, two!)
    inner.mode = 'held'
    for (let i = 0; i < 400; i++) {
      const asked = both.consume('k')
      await Promise.resolve()
      await Promise.resolve()
      inner.answer()
      await asked
      clock.advance(1)
    }
    expect(inner.count('consume')).toBeLessThan(100)
  })
})

describe('for: 0', () => {
  const behaviours = storeBehaviours((clock) => lease(laterStore(memoryStore({ clock })), { for: 0, from: 1 }), {
    runs: 20,
  })
  for (const { name, run } of behaviours) it(`is no lease: ${name}`, run)
})

describe('what ends a lease', () => {
  it('is a changed limit, at once, also one that was seen before', async () => {
    let quota = 1000
    const { heat, inner, clock, limiter, isLocal } = world(() => fixedWindow({ name: 'hour', quota, window: '1h' }), {
      from: 2,
    })
    for (const each of [1000, 2000, 1000]) {
      quota = each
      await heat(20)
      expect(await isLocal()).toBe(true)
    }
    const before = inner.count('adjust')
    quota = 2000
    await limiter.consume('k', { cost: 50 })
    expect(inner.count('adjust')).toBeGreaterThan(before)
    quota = 1000
    expect(await isLocal()).toBe(false)
    clock.advance(1)
  })
  it('is a limit that is leased no longer', async () => {
    let limit: Limit = hour
    const { limiter, heat, clock } = world(() => limit)
    await heat(200)
    limit = fixedWindow({ name: 'hour', quota: 2000, window: '1h', exact: true })
    await limiter.consume('k')
    clock.advance(5000)
    expect((await limiter.peek('k', { cost: 0 })).limits[0]!.used).toBe(201)
  })
  it.each([{ refill: 'greedy', initial: 999 }, { refill: 'interval', initial: 999 }, { refill: 'interval' }] as const)(
    'is the refill of a bucket, if all tokens come back at once: %j',
    async (options) => {
      const limits = tokenBucket({ quota: 10, window: '1s', capacity: 1000, ...options })
      const { limiter, isLocal, clock } = world(limits)
      const first = await limiter.consume('k', { cost: 200 })
      clock.advance(100)
      await limiter.refund(first)
      clock.advance(2300)
      // Refills come a whole number of seconds after this request.
      await limiter.consume('k', { cost: 10 })
      clock.advance(800)
      for (let i = 0; i < 40; i++) await limiter.consume('k')
      clock.advance(205)
      expect(await isLocal()).toBe(options.refill === 'greedy')
    },
  )
  it('is its time, also when the timer is late', async () => {
    const { heat, inner, limiter, clock } = world(hour)
    Object.assign(inner.clock, { after: () => () => undefined })
    await heat()
    clock.advance(300)
    await limiter.peek('k')
    expect(inner.count('adjust')).toBeGreaterThan(0)
  })
  it('is a wall clock that has passed it while the process was frozen', async () => {
    const { heat, isLocal } = world(hour, { isVirtual: false, for: '1m' })
    await heat()
    expect(await isLocal()).toBe(true)
    vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 61_000)
    expect(await isLocal()).toBe(false)
  })
  it('is a given clock that steps back, and no wall clock that does', async () => {
    const given = world(hour)
    await given.heat()
    given.clock.advance(100)
    expect(await given.isLocal()).toBe(true)
    given.clock.advance(-50)
    expect(await given.isLocal()).toBe(false)
    const own = world(hour, { isVirtual: false, for: '1m' })
    await own.heat()
    vi.spyOn(Date, 'now').mockReturnValue(Date.now() - 30_000)
    expect(await own.isLocal()).toBe(true)
  })
  it.each([
    ['reset', async (limiter: ReturnType<typeof world>['limiter']) => limiter.reset('k')],
    ['penalize', async (limiter: ReturnType<typeof world>['limiter']) => limiter.penalize('k', 1)],
    ['a lock-out that has ended', async (limiter: ReturnType<typeof world>['limiter']) => limiter.block('k', 0)],
    ['a pause of no time', async (limiter: ReturnType<typeof world>['limiter']) => limiter.pause('k', 0)],
  ])('is %s, also while one is asked for', async (_, change) => {
    const { heat, inner, limiter, isLocal, clock } = world(hour, { from: 2 })
    await heat(10)
    expect(await isLocal()).toBe(true)
    inner.mode = 'held'
    while (inner.held.length === 0) void limiter.consume('k')
    inner.mode = 'now'
    await change(limiter)
    inner.answer()
    clock.advance(1)
    expect(await isLocal()).toBe(false)
  })
  it('is a change that is under way', async () => {
    const { heat, inner, limiter, store, name } = world(hour)
    await heat()
    const isSpent = (): boolean => store.recall!([new Charge(createPolicy(name, hour, store, store), 'k', 1)])
    expect(isSpent()).toBe(true)
    inner.mode = 'held'
    const changing = limiter.reset('k')
    expect(isSpent()).toBe(false)
    inner.mode = 'now'
    inner.answer()
    await changing
  })
  it('is no settlement', async () => {
    const { heat, limiter, isLocal } = world(hour)
    await heat()
    const decision = await limiter.consume('k')
    await limiter.settle(decision, 2)
    expect(await isLocal()).toBe(true)
  })
  it('is `close`, which also gives back what is asked for meanwhile', async () => {
    const { heat, inner, limiter, store, charged } = world(hour, { from: 2 })
    await heat(10)
    inner.mode = 'held'
    let made = 10
    while (inner.held.length === 0) {
      void limiter.consume('k')
      made++
    }
    const closing = store.close()
    inner.mode = 'now'
    inner.answer()
    await closing
    expect(await charged()).toBe(made)
  })
  it('waits at most a second in `close` for a store that never answers', async () => {
    const { heat, inner, store } = world(hour)
    await heat()
    inner.mode = 'never'
    const began = performance.now()
    await store.close()
    expect(performance.now() - began).toBeGreaterThan(900)
    expect(performance.now() - began).toBeLessThan(5000)
  })
})

describe('a refund', () => {
  it('finds its lease while it lives, and then the store', async () => {
    const { heat, limiter, inner, clock, charged } = world(hour)
    await heat()
    const decisions = [await limiter.consume('k'), await limiter.consume('k')]
    const before = inner.count('adjust')
    await limiter.refund(decisions[0]!)
    expect(inner.count('adjust')).toBe(before)
    clock.advance(300)
    await limiter.refund(decisions[1]!)
    clock.advance(1)
    expect(await charged()).toBe(40)
  })
  it('of a cost that was too low takes what the lease has, and else asks the store', async () => {
    const { heat, limiter, inner, clock, charged } = world(hour)
    await heat()
    const before = inner.count('adjust')
    await limiter.settle(await limiter.consume('k'), 3)
    expect(inner.count('adjust')).toBe(before)
    await limiter.settle(await limiter.consume('k'), 500)
    expect(inner.count('adjust')).toBe(before + 1)
    clock.advance(300)
    expect(await charged()).toBe(543)
  })
  it('finds its lease through a guard, also when it changes only one of two limits', async () => {
    const inner = testStore(virtualClock())
    const limits = ['requests', 'tokens'].map((name) => fixedWindow({ name, quota: 10_000_000, window: '1h' }))
    const cost = (_: string, { name }: Limit): number => (name === 'tokens' ? 100 : 1)
    const store = guard(lease(inner))
    const limiter = createLimiter<string>({ name: 'partial', keyer: (key) => key, limits, cost, store })
    for (let i = 0; i < 300; i++)
      await limiter.settle(await limiter.consume('k'), ({ name }) => (name === 'tokens' ? 90 : 1))
    expect(inner.count('adjust')).toBeLessThan(50)
    await store.close()
  })
  it('of unused units is not sent where it gives nothing back', async () => {
    const { heat, inner, clock } = world(gcra({ quota: 1000, window: '1s' }))
    await heat(60)
    clock.advance(400)
    expect(inner.count('adjust')).toBe(0)
  })
})

describe('a decision of a lease', () => {
  it('counts what remains down from the answer that gave the lease', async () => {
    const { heat, limiter, clock } = world(hour)
    await heat()
    const made: { at: number; remaining: number; resetAfter: number }[] = []
    for (let i = 0; i < 3; i++) {
      const { limits } = await limiter.consume('k', { cost: 2 })
      const { at, remaining, resetAfter } = limits[0] as Charge
      made.push({ at, remaining, resetAfter })
      clock.advance(10)
    }
    const [first, second] = made[0]!.at === made[1]!.at ? made : made.slice(1)
    expect(second).toEqual({ at: first!.at, remaining: first!.remaining - 2, resetAfter: first!.resetAfter - 10 })
  })
  it('is not a denial because the process holds units: it gives them back', async () => {
    const { heat, limiter } = world(hour, { share: 0.1 })
    await heat(201)
    const decision = await limiter.consume('k', { cost: 790 })
    expect([decision.allowed, decision.limits[0]!.remaining]).toEqual([true, 9])
    expect((await limiter.consume('k', { cost: 790 })).retryAfter).toBeGreaterThan(1000)
  })
  it('counts down what remains, whatever the costs, and so does a peek', async () => {
    const { limiter } = world(hour, { share: 0.5 })
    let used = 0
    for (let i = 0; used < 950; i++) {
      const cost = i % 7 === 6 ? 20 : (i % 3) + 1
      const { allowed, limits } = await limiter.consume('k', { cost })
      if (allowed) used += cost
      expect(limits[0]!.remaining).toBe(1000 - used)
      expect((await limiter.peek('k', { cost: 0 })).limits[0]!.remaining).toBe(1000 - used)
    }
  })
  it('has what the process holds, and no more, after a settlement beyond the limit', async () => {
    const { heat, limiter, charged, clock } = world(hour)
    await heat(200)
    const held = (await charged()) - 200
    const decision = await limiter.consume('k')
    await limiter.settle(decision, 5000)
    expect((await limiter.consume('k')).limits[0]!.remaining).toBe(held - 2)
    expect((await limiter.peek('k', { cost: 0 })).limits[0]!.remaining).toBe(held - 2)
    clock.advance(300)
    expect((await limiter.peek('k', { cost: 0 })).limits[0]!.remaining).toBe(0)
  })
  it('does not report units whose refund arrives after the end of their window', async () => {
    const { clock, exact, heat, inner, limiter } = world(
      fixedWindow({ quota: 1000, window: '1s', anchor: 'clock', name: 'clock' }),
    )
    clock.advance(700)
    await heat()
    inner.mode = 'held'
    const asked = limiter.consume('k', { cost: 500 })
    await Promise.resolve()
    clock.advance(250)
    clock.advance(100)
    inner.mode = 'now'
    await exact.consume('k', { cost: 300 })
    inner.answer()
    expect((await asked).limits[0]!.remaining).toBe(200)
  })
  it('does not count units as remaining twice that an earlier answer includes', async () => {
    const { clock, exact, heat, inner, limiter } = world(hour)
    await heat()
    // The first lease is given back, and an answer includes that.
    clock.advance(300)
    await limiter.consume('k')
    await heat()
    inner.mode = 'held'
    const asked = limiter.consume('k', { cost: 500 })
    await Promise.resolve()
    // The second one is given back after this request.
    clock.advance(300)
    inner.mode = 'now'
    await exact.consume('k', { cost: 300 })
    expect(inner.held.length).toBe(2)
    inner.answer()
    expect((await asked).limits[0]!.remaining).toBe(1000 - 81 - 300 - 500)
  })
  it('counts what other kinds of decisions have used of the same key', async () => {
    const inner = testStore(virtualClock())
    const store = lease(inner, { share: 0.5 })
    const all = on(store, 'all of both', hour, () => 'all')
    const both = stack(on(store, 'each'), all)
    for (let i = 1; i < 300; i++) {
      const limits = i % 3 === 0 ? (await all.consume('k')).limits : (await both.consume(`k${i % 2}`)).limits
      expect(limits.at(-1)!.remaining).toBe(1000 - i)
    }
    expect(inner.count('consume')).toBeLessThan(150)
  })
  it('that costs more than the lease is the decision of the store, and the lease stays', async () => {
    const { heat, isLocal } = world(hour)
    await heat()
    expect(await isLocal('k', 500)).toBe(false)
    expect(await isLocal()).toBe(true)
    expect(await isLocal('k', 0)).toBe(true)
  })
  it('is made by `wait` too, and never by `peek`', async () => {
    const { heat, limiter, inner } = world(hour)
    await heat()
    const before = inner.count('consume')
    expect((await limiter.wait('k')).allowed).toBe(true)
    expect(inner.count('consume')).toBe(before)
    await limiter.peek('k')
    expect(inner.count('peek')).toBe(1)
  })
  it('is also made for limits that a function makes anew for each request', async () => {
    const { heat, isLocal } = world(() => fixedWindow({ name: 'hour', quota: 1000, window: '1h' }))
    await heat()
    expect(await isLocal()).toBe(true)
  })
  it('is given up only in the store', async () => {
    const { heat, inner, store } = world(hour)
    await heat(2)
    inner.mode = 'never'
    const giveUp = consumeAt(store, [new Charge(createPolicy('given up', hour, store, store), 'k', 1)])
    giveUp?.()
    expect(inner.givenUp).toBe(1)
  })
  it('is not made for keys of two parts of a cluster', async () => {
    const place: Place = { partOf: (_, key) => key, joins: (other) => other === place }
    const inner = testStore(virtualClock(), place)
    const store = lease(inner, { share: 1 })
    const both = stack(
      on(store, 'one'),
      on(store, 'two', hour, () => 'all'),
    )
    for (let i = 0; i < 50; i++) await both.consume('k')
    expect(inner.count('consume')).toBe(50)
    const single = on(store, 'three')
    for (let i = 0; i < 50; i++) await single.consume('k')
    expect(inner.count('consume')).toBeLessThan(80)
  })
})

describe('guard(denyCache(lease(store)))', () => {
  it('spends a lease although a denial of a larger cost is remembered, and remembers denials', async () => {
    const { heat, inner, store, name } = world(hour, { from: 2 })
    const limiter = on(guard(denyCache(store)), name)
    await heat(20)
    await limiter.consume('k', { cost: 1000 })
    // The denied cost, and every larger one, is remembered.
    const before = inner.count('consume')
    expect((await limiter.consume('k', { cost: 1000 })).allowed).toBe(false)
    expect(inner.count('consume')).toBe(before)
    expect((await limiter.consume('k')).allowed).toBe(true)
    expect(inner.count('consume')).toBe(before)
  })
  it('spends a lease when a denial of the same cost is remembered', async () => {
    const { heat, inner, store, exact, limiter: direct, name } = world(hour, { from: 2 })
    const limiter = on(denyCache(store), name)
    await heat(20)
    const last = await direct.consume('k')
    await exact.consume('k', { cost: (await exact.peek('k', { cost: 0 })).limits[0]!.remaining })
    // What is left of the lease, and then the store denies.
    const seen: boolean[] = []
    for (let i = 0; i < 60; i++) seen.push((await limiter.consume('k')).allowed)
    expect(seen).toContain(true)
    expect(seen.at(-1)).toBe(false)
    const before = inner.count('consume')
    expect((await limiter.consume('k')).allowed).toBe(false)
    await direct.refund(last)
    expect((await limiter.consume('k')).allowed).toBe(true)
    expect(inner.count('consume')).toBe(before)
  })
  it('decides without the store during an outage, never leases a probe, and uses leases again after it', async () => {
    const { heat, inner, store, name, isLocal } = world(hour, { isVirtual: false, for: '1m', from: 2 })
    const states: string[] = []
    const limiter = on(guard(denyCache(store), { onChange: ({ state }) => states.push(state) }), name)
    await heat(20)
    inner.mode = 'failed'
    const degraded = new Set<unknown>()
    for (let i = 0; i < 100; i++) degraded.add((await limiter.consume('k', { cost: 30 })).degraded)
    expect(degraded).toContain('local')
    expect(states).toEqual(['away'])
    await vi.waitFor(() => expect(inner.asked.filter(({ kind }) => kind === 'consume').length).toBeGreaterThan(5), 5000)
    expect((await limiter.consume('k')).degraded).toBe('local')
    inner.mode = 'now'
    await vi.waitFor(() => expect(states).toEqual(['away', 'healthy']), 5000)
    expect((await limiter.consume('k')).degraded).toBeUndefined()
    expect(await isLocal()).toBe(true)
    const probes = inner.asked
      .flatMap((each) => (each.kind === 'consume' ? each.charges : []))
      .filter(({ key, limiter: of }) => of !== name && key !== 'k')
    expect(probes.length).toBeGreaterThan(0)
    expect(new Set(probes.map(({ cost }) => cost))).toEqual(new Set([1]))
  })
  it('throws for another order, and for a second lease', () => {
    const inner = testStore(virtualClock())
    const order = 'a store inside of `guard` and `denyCache`, as in guard(denyCache(lease(store)))'
    for (const wrong of [
      guard(inner),
      denyCache(inner),
      guard(denyCache(lease(inner))),
      lease(inner),
      denyCache(lease(inner)),
    ])
      expect(() => lease(wrong)).toThrow(
        expect.objectContaining({ code: 'INVALID_OPTION', message: expect.stringContaining(order) as string }),
      )
  })
})

describe('options', () => {
  const inner = testStore(virtualClock())
  it('leave a store that answers at once as it is', () => {
    const memory = memoryStore()
    expect(lease(memory)).toBe(memory)
    expect(() => lease(memory, { share: 2 })).toThrow('share')
  })
  it.each([
    [{ for: '2h' }, 'for: expected at most an hour'],
    [{ for: -1 }, 'for: expected'],
    [{ share: 0 }, 'share: expected a number above 0 and at most 1, got 0'],
    [{ share: 1.1 }, 'share: expected a number above 0 and at most 1, got 1.1'],
    [{ share: '0.5' }, 'share: expected'],
    [{ from: 0 }, 'from: expected'],
    [{ from: 1.5 }, 'from: expected'],
    [{ maxLeases: 0 }, 'maxLeases: expected'],
    [{ maxLeases: 1_000_001 }, 'maxLeases: expected at most 1000000'],
  ])('are checked: %j', (options, message) => {
    expect(() => lease(inner, options as LeaseStoreOptions)).toThrow(
      expect.objectContaining({ code: 'INVALID_OPTION', message: expect.stringContaining(message) as string }),
    )
  })
  it('have no other names', () => {
    expect(() => lease(inner, { maxLease: 1 } as LeaseStoreOptions)).toThrow(
      expect.objectContaining({ code: 'UNKNOWN_OPTION', message: expect.stringContaining('maxLeases') as string }),
    )
    expect(() => lease({} as AsyncStore)).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
  })
})

describe('what is kept', () => {
  /** Bytes of the heap that decisions about so many keys leave. `perMs`: decisions in a millisecond. Default: all at one time. */
  async function growth(
    { limiter, inner, clock }: Pick<ReturnType<typeof world>, 'limiter' | 'inner' | 'clock'>,
    keys: number,
    perMs = Infinity,
  ): Promise<number> {
    await limiter.consume('first')
    const before = heapUsed()
    for (let i = 0; i < keys; i++) {
      await limiter.consume(`key ${i}`)
      if (i % 1000 === 0) inner.asked.length = 0
      if (perMs < Infinity && i % perMs === 0) clock.advance(1)
    }
    inner.asked.length = 0
    return heapUsed() - before
  }

  it('is nothing per cold key, and at most `maxLeases` hot keys', async () => {
    const { limiter, inner, isLocal, clock } = world(fast, { maxLeases: 50 })
    expect(await growth({ limiter, inner, clock }, 100_000, 10)).toBeLessThan(3e6)
    clock.advance(1000)
    for (let round = 0; round < 40; round++) for (let i = 0; i < 100; i++) await limiter.consume(`hot ${i}`)
    let local = 0
    for (let i = 0; i < 100; i++) if (await isLocal(`hot ${i}`)) local++
    expect(local).toBeGreaterThan(20)
    expect(local).toBeLessThanOrEqual(50)
    // Others take the place of keys that nobody uses any more.
    clock.advance(2000)
    for (let round = 0; round < 40; round++) for (let i = 0; i < 20; i++) await limiter.consume(`later ${i}`)
    expect(await isLocal('later 7')).toBe(true)
  })
  it('is nothing per cold key at 100,000 decisions a second', async () => {
    expect(await growth(world(fast), 50_000, 100)).toBeLessThan(6e5)
  })
  it('is nothing for a cold key beside a hot one', async () => {
    const inner = testStore(virtualClock())
    const store = lease(inner, { maxLeases: 50 })
    const both = stack(
      on(store, 'beside all', fast, () => 'all'),
      on(store, 'beside each', fast),
    )
    for (let i = 0; i < 1000; i++) await both.consume(`cold ${i}`)
    inner.asked.length = 0
    for (let i = 0; i < 200; i++) await both.consume('hot')
    expect(inner.count('consume')).toBeLessThan(50)
  })
  it('is given up when it is not used for its own time, not for the longest of all', async () => {
    const clock = virtualClock()
    const inner = testStore(clock)
    const store = lease(inner, { maxLeases: 100 })
    const [long, short] = (['1h', '250ms'] as const).map((time) =>
      createLimiter<string>({ name: time, keyer: (key) => key, limits: fast, store, lease: { for: time } }),
    )
    await long!.consume('x')
    for (let i = 0; i < 6 * 150; i++) {
      await short!.consume(`cold ${i % 150}`)
      clock.advance(10)
    }
    inner.asked.length = 0
    for (let i = 0; i < 500; i++) {
      await short!.consume('hot')
      clock.advance(1)
    }
    expect(inner.count('consume')).toBeLessThan(200)
  })
  it('is a few used-up leases of a key. The store makes refunds of older ones', async () => {
    const { limiter, heat, inner, clock } = world(perSecond(1000), { for: '10m' })
    const run = async (): Promise<void> => {
      for (let i = 0; i < 20_000; i++) {
        await limiter.consume('k')
        clock.advance(2)
      }
    }
    await heat(100)
    const early = await limiter.consume('k')
    await run()
    const late = await limiter.consume('k')
    inner.asked.length = 0
    await limiter.refund(late)
    expect(inner.count('adjust')).toBe(0)
    await limiter.refund(early)
    expect(inner.count('adjust')).toBe(1)
  })
  it('is at most `maxLeases` keys that are asked about often', async () => {
    expect(await growth(world(fast, { maxLeases: 50, from: 1 }), 20_000)).toBeLessThan(3e6)
  })
  it('is not the place of a key whose request for a lease is never answered', async () => {
    const { heat, inner, limiter, clock, isLocal } = world(hour, { maxLeases: 1, from: 2 })
    await heat(10)
    inner.mode = 'held'
    while (inner.held.length === 0) void limiter.consume('k')
    inner.mode = 'now'
    clock.advance(1000)
    await heat(40, 'other')
    expect(await isLocal('other')).toBe(true)
    // The answers that are too late are given back.
    inner.answer()
    expect(await isLocal('other')).toBe(true)
  })
  it('is one timer for all keys, also when a shorter lease comes after a longer one', async () => {
    const clock = virtualClock()
    const inner = testStore(clock)
    let timers = 0
    let most = 0
    const after = clock.after.bind(clock)
    Object.assign(inner.clock, {
      after: (ms: number, wake: () => void) => {
        most = Math.max(most, ++timers)
        const cancel = after(ms, () => {
          timers--
          wake()
        })
        return () => {
          timers--
          cancel()
        }
      },
    })
    const store = lease(inner, { share: 1, for: '1h' })
    const long = on(store, 'long')
    for (const key of ['a', 'b', 'c']) for (let i = 0; i < 40; i++) await long.consume(key)
    const settings = { span: 100_000, share: 1, from: 4 }
    const policy = createPolicy('short', hour, store, store, undefined, settings)
    for (let i = 0; i < 40; i++) consumeAt(store, [new Charge(policy, 'k', 1)])
    expect(most).toBe(1)
    expect(inner.count('adjust')).toBe(0)
    clock.advance(150)
    expect(inner.count('adjust')).toBeGreaterThan(0)
    expect(most).toBe(1)
  })
})
