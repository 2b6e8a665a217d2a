import { describe, expect, it } from 'vitest'
import {
  type AsyncStore,
  createLimiter,
  type Decision,
  denyCache,
  type DenyCacheOptions,
  fixedWindow,
  gcra,
  type Limit,
  type Limiter,
  memoryStore,
  stack,
  type Store,
} from '../../../src/index.ts'
import { compiled } from '../../../src/engine/limit.ts'
import { Charge, createPolicy, isDeciding, perform } from '../../../src/stores/store.ts'
import { storeBehaviours, virtualClock } from '../../../src/testing.ts'
import { turns } from '../../../src/testing/waiting.ts'
import { laterStore } from '../../support/later.ts'
import { faultyStore } from '../../support/faulty-store.ts'

const one = fixedWindow({ name: 'one', quota: 1, window: '1s' })
const hourly = fixedWindow({ name: 'hourly', quota: 5, window: '1h' })

function on(store: Store, limits: Limit | Limit[] | (() => Limit), name = 'test'): Limiter<string, Promise<Decision>> {
  return createLimiter<string>({ name, keyer: (key) => key, limits, store }) as Limiter<string, Promise<Decision>>
}

function world(options?: DenyCacheOptions) {
  const clock = virtualClock()
  const memory = memoryStore({ clock })
  const inner = laterStore(memory)
  const store = denyCache(inner, options)
  /** Returns how many requests reach the store during some work. */
  async function asked(work: () => unknown): Promise<number> {
    const before = inner.asked
    await work()
    return inner.asked - before
  }
  return { clock, memory, inner, store, asked }
}

describe('a denial', () => {
  it('is answered here until the limit admits again', async () => {
    const { clock, store, asked } = world({ maxAge: '1m' })
    const limiter = on(store, one)
    await limiter.consume('a')
    await limiter.consume('a')
    clock.advance(400)
    expect(await asked(() => limiter.consume('a'))).toBe(0)
    expect(await limiter.consume('a')).toMatchObject({ allowed: false, retryAfter: 600, resetAfter: 600, remaining: 0 })
    clock.advance(600)
    expect(await limiter.consume('a')).toMatchObject({ allowed: true })
  })

  it('of a key that is locked out says so, and how long it still is', async () => {
    const { clock, store, asked } = world({ maxAge: '1h' })
    const limiter = on(store, fixedWindow({ quota: 1, window: '1s', block: '15m' }))
    await limiter.consume('a')
    await limiter.consume('a')
    clock.advance(60_000)
    expect(
      await asked(async () => {
        const { limits } = await limiter.consume('a')
        expect(limits).toMatchObject([{ retryAfter: 840_000, lockedFor: 840_000 }])
      }),
    ).toBe(0)
    const free = on(store, one, 'free')
    await free.consume('b')
    const { limits } = await free.consume('b')
    expect([limits, (await free.consume('b')).limits]).toMatchObject([[{ lockedFor: 0 }], [{ lockedFor: 0 }]])
  })

  it('is requested again after maxAge, by default a second', async () => {
    for (const [options, age] of [
      [{}, 1000],
      [{ maxAge: '5s' }, 5000],
    ] as const) {
      const { clock, store, asked } = world(options)
      const limiter = on(store, hourly)
      await limiter.consume('a', { cost: 5 })
      await limiter.consume('a')
      clock.advance(age - 1)
      expect(await asked(() => limiter.consume('a'))).toBe(0)
      clock.advance(1)
      expect(await asked(() => limiter.consume('a'))).toBe(1)
    }
  })

  it('ends no later than in the store when the limit counts in milliseconds', async () => {
    const slow = gcra({ name: 'slow', quota: 200, window: '365d', burst: 100_000 })
    expect(compiled(slow).perMs).toBe(1)
    const { clock, memory, store } = world({ maxAge: '365d' })
    const limiter = on(store, slow)
    const plain = on(memory, slow)
    clock.advance(0.7)
    await limiter.consume('a', { cost: 100_000 })
    clock.advance(0.2)
    const { retryAfter } = await limiter.consume('a')
    clock.advance(retryAfter - 2)
    for (let i = 0; i < 30; i++, clock.advance(0.1)) {
      const { allowed } = await plain.peek('a')
      expect((await limiter.peek('a')).allowed).toBe(allowed)
    }
  })

  it('of one cost does not answer for another cost', async () => {
    const { store, asked } = world()
    const limiter = on(store, hourly)
    await limiter.consume('a', { cost: 3 })
    await limiter.consume('a', { cost: 4 })
    await limiter.consume('a', { cost: 5 })
    expect(await asked(() => limiter.consume('a', { cost: 4 }))).toBe(0)
    expect(await asked(() => limiter.consume('a', { cost: 5 }))).toBe(0)
    expect(await limiter.consume('a', { cost: 0 })).toMatchObject({ allowed: true })
    expect(await limiter.consume('a', { cost: 1 })).toMatchObject({ allowed: true })
    // What the smaller cost has used is missing in the figures of the larger ones.
    expect(await asked(() => limiter.consume('a', { cost: 4 }))).toBe(1)
    expect(await limiter.consume('a', { cost: 4 })).toMatchObject({ limits: [{ remaining: 1 }] })
  })

  it('answers for a peek, and a peek answers for nothing', async () => {
    const { store, asked } = world()
    const limiter = on(store, fixedWindow({ name: 'locked', quota: 1, window: '100ms', block: '1m' }))
    await limiter.consume('a')
    // A peek says that a request would lock the key.
    expect(await limiter.peek('a')).toMatchObject({ allowed: false, retryAfter: 60_000 })
    expect(await asked(() => limiter.peek('a'))).toBe(1)
    expect(await asked(() => limiter.consume('a'))).toBe(1)
    expect(await asked(() => limiter.peek('a'))).toBe(0)
    expect(await limiter.peek('a')).toMatchObject({ allowed: false, retryAfter: 60_000 })
  })

  it('by a lock-out is answered here until block, pause or reset change it', async () => {
    const { clock, store, asked } = world({ maxAge: '1h' })
    const limiter = on(store, hourly)
    await limiter.block('a', '1m')
    expect(await asked(() => limiter.consume('a'))).toBe(1)
    clock.advance(1000)
    expect(await asked(() => limiter.consume('a'))).toBe(0)
    expect(await limiter.consume('a')).toMatchObject({ allowed: false, retryAfter: 59_000 })
    await limiter.pause('a', '2m')
    expect(await limiter.consume('a')).toMatchObject({ allowed: false, retryAfter: 120_000 })
    await limiter.block('a', '1s')
    expect(await limiter.consume('a')).toMatchObject({ allowed: false, retryAfter: 1000 })
    await limiter.block('a', 0)
    expect(await limiter.consume('a')).toMatchObject({ allowed: true })
    await limiter.penalize('a', 10)
    expect(await limiter.consume('a')).toMatchObject({ allowed: false })
    await limiter.penalize('a', 10)
    await limiter.reset('a')
    expect(await limiter.consume('a')).toMatchObject({ allowed: true })
  })

  it('by a limit with block is asked for each time if the store does not say when the lock-out ends', async () => {
    const { inner, asked } = world()
    const silent: AsyncStore = {
      ...inner,
      run(operation, reply) {
        if (!isDeciding(operation)) return inner.run(operation, reply)
        const { charges } = operation
        const copies = charges.map(({ policy, key, cost }) => new Charge(policy, key, cost))
        return inner.run(
          { ...operation, charges: copies },
          {
            answered(by) {
              for (const [i, charge] of charges.entries()) Object.assign(charge, copies[i])
              reply.answered(by)
            },
            failed: (error) => reply.failed(error),
          },
        )
      },
    }
    const limiter = on(denyCache(silent), fixedWindow({ name: 'locked', quota: 1, window: '1s', block: '10s' }))
    await limiter.consume('a')
    for (let i = 0; i < 2; i++) expect(await asked(() => limiter.consume('a'))).toBe(1)
  })

  it('by another limit is requested again once a limit with block has less, because it may lock the key', async () => {
    const { store, asked } = world()
    const by = (name: 'user' | 'resource', limits: Limit[]) =>
      createLimiter<{ user: string; resource: string }>({ name, keyer: (input) => input[name], limits, store })
    const twice = fixedWindow({ quota: 2, window: '1s', block: '15m' })
    const limiter = stack(by('user', [twice]), by('resource', [one]))
    const consume = (resource: string, cost: number) => limiter.consume({ user: 'a', resource }, { cost })
    await consume('full', 2)
    expect(await asked(() => consume('full', 2))).toBe(0)
    await consume('free', 1)
    expect(await asked(() => consume('full', 2))).toBe(1)
    expect((await consume('other', 1)).limits).toMatchObject([
      { allowed: false, lockedFor: 900_000 },
      { allowed: true },
    ])
  })

  it('by a limit that all keys share is answered here for each of them, until one unit of it is given back', async () => {
    const { store, asked } = world({ maxAge: '1h' })
    const user = on(store, hourly, 'user')
    const all = createLimiter<string>({ name: 'all', keyer: () => 'all', limits: hourly, store })
    const both = stack(user, all as typeof user)
    const users = ['a', 'b', 'c', 'd', 'e', 'f', 'g']
    const charged = await both.consume('z', { cost: 5 })
    const askAll = async (): Promise<boolean[]> =>
      Promise.all(users.map(async (key) => (await both.consume(key)).allowed))
    await askAll()
    expect(await asked(askAll)).toBe(0)
    await both.refund(charged)
    expect(await askAll()).toEqual([true, true, true, true, true, false, false])
  })

  it('is not remembered if a decision that was given up is refunded on its way', async () => {
    const ways: (() => void)[] = []
    const way = (): Promise<void> => new Promise((resolve) => void ways.push(resolve))
    const inner = laterStore(memoryStore({ clock: virtualClock() }), way)
    const store = denyCache(inner, { maxAge: '1h' })
    const policy = createPolicy('test', fixedWindow({ quota: 1, window: '1h' }), store, store)
    const verdicts: boolean[] = []
    const ask = (): (() => void) => {
      const charge = new Charge(policy, 'a', 1)
      const answered = (): void => void verdicts.push(charge.allowed)
      return store.run(
        { kind: 'consume', charges: [charge], fresh: false },
        { answered, failed: expect.fail },
      ) as () => void
    }
    const arrive = async (index: number): Promise<void> => {
      ways.splice(index, 1)[0]!()
      await turns(5)
    }
    const giveUp = ask()
    await arrive(0)
    ask()
    await arrive(1)
    giveUp()
    await arrive(0)
    await arrive(0)
    expect([verdicts.at(-1), inner.asked]).toEqual([false, 2])
    ask()
    expect(inner.asked).toBe(3)
  })

  it('is kept apart from those of other keys, whatever they contain', async () => {
    const { store, asked } = world({ maxAge: '1h' })
    const first = createLimiter<readonly [string, string]>({ name: 'x', keyer: ([key]) => key, limits: one, store })
    const second = createLimiter<readonly [string, string]>({ name: 'y', keyer: ([, key]) => key, limits: one, store })
    const both = stack(first, second)
    // What would stand between two keys without their lengths.
    const boundary = 'y\0one\0\0'
    await both.consume([`a${boundary}`, 'b'])
    for (let i = 0; i < 2; i++) await both.consume(['a', `${boundary}b`])
    expect(await asked(() => both.consume(['a', `${boundary}b`]))).toBe(0)
    expect(await asked(() => both.consume([`a${boundary}`, 'b']))).toBe(1)
  })

  it('by a shadow limit denies nothing', async () => {
    const { store, asked } = world()
    const limiter = on(store, [hourly, fixedWindow({ name: 'shade', quota: 1, window: '1h', shadow: true })])
    for (let i = 0; i < 5; i++)
      expect(await limiter.consume('a')).toMatchObject({ allowed: true, limits: [{}, { allowed: i === 0 }] })
    await limiter.consume('a')
    expect(await asked(() => limiter.consume('a'))).toBe(0)
    expect(await limiter.consume('a')).toMatchObject({
      allowed: false,
      limits: [{ allowed: false }, { allowed: false }],
    })
  })

  it('reports all limits of a request, so it answers for that request alone', async () => {
    const { store, asked } = world()
    const users = on(store, one, 'users')
    const pages = createLimiter<string>({ name: 'pages', keyer: (input) => input.slice(1), limits: hourly, store })
    const user = createLimiter<string>({ name: 'first', keyer: (input) => input[0], limits: one, store })
    const both = stack(user, pages as typeof users)
    await both.consume('a1')
    await both.consume('a1')
    expect(await asked(() => both.consume('a1'))).toBe(0)
    expect(await asked(() => both.consume('a2'))).toBe(1)
    expect(await asked(() => both.consume('a2'))).toBe(0)
    // Another user of the page is admitted, which keeps the denial of the first one.
    await both.consume('b1')
    expect(await asked(() => both.consume('a1'))).toBe(0)
    expect(await both.consume('a1')).toMatchObject({
      allowed: false,
      retryAfter: 1000,
      limits: [
        { allowed: false, remaining: 0 },
        // As it was when the first user was denied.
        { allowed: true, remaining: 4, retryAfter: 0 },
      ],
    })
  })

  it('that was made without the store is not kept', async () => {
    const { inner, asked } = world()
    const run: AsyncStore['run'] = (operation, reply) =>
      inner.run(operation, { answered: () => reply.answered('local'), failed: (error) => reply.failed(error) })
    const limiter = on(denyCache({ ...inner, run }), one)
    await limiter.consume('a')
    for (let i = 0; i < 2; i++)
      expect(await asked(async () => expect(await limiter.consume('a')).toMatchObject({ degraded: 'local' }))).toBe(1)
  })
})

describe('a change in this process', () => {
  async function denied() {
    const made = world({ maxAge: '1h' })
    let limit: Limit = hourly
    const limiter = on(made.store, () => limit)
    const charged = await limiter.consume('a', { cost: 5 })
    await limiter.consume('a')
    expect(await made.asked(() => limiter.consume('a'))).toBe(0)
    return { ...made, limiter, charged, change: (to: Limit) => void (limit = to) }
  }

  // The denial of another cost does not take the place of the first.
  it.each([1, 2])('of the limit, for a request of %i, and back asks the store', async (cost) => {
    const { limiter, change, asked } = await denied()
    change(fixedWindow({ name: 'hourly', quota: 2, window: '1h' }))
    await limiter.consume('a', { cost })
    change(hourly)
    // All five units count again.
    expect(await asked(async () => expect(await limiter.consume('a')).toMatchObject({ allowed: false }))).toBe(1)
  })

  it('of one key keeps the denials of others', async () => {
    const { limiter, charged, asked } = await denied()
    await limiter.consume('b', { cost: 5 })
    await limiter.consume('b')
    await limiter.refund(charged)
    await limiter.reset('c')
    expect(await asked(() => limiter.consume('b'))).toBe(0)
  })
})

describe('denyCache', () => {
  it('returns a store that answers at once', () => {
    const store = memoryStore()
    expect(denyCache(store)).toBe(store)
  })

  it.each([
    [{ maxKeys: 1 }, /maxKeys/],
    [{ maxKeys: 1e8 }, /maxKeys/],
    [{ maxAge: '1 second' as '1s' }, /maxAge/],
    [{ maxAge: 0 }, /maxAge/],
    [{ age: 1 } as DenyCacheOptions, /age/],
  ])('refuses %j', (options, message) => {
    expect(() => denyCache(memoryStore(), options)).toThrow(message)
  })

  it('refuses what is no store', () => {
    expect(() => denyCache({} as Store)).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
    expect(() => denyCache(undefined as unknown as Store)).toThrow(/denyCache: expected a store/)
  })

  it('counts in the same place as the store: two limiters of one name are an error', () => {
    const { inner, store } = world()
    on(inner, one)
    expect(() => on(store, hourly)).toThrow(expect.objectContaining({ code: 'DUPLICATE_LIMITER' }))
  })

  it('decides together with the store, because both count in one place', async () => {
    const { clock, inner, store } = world()
    const [plain, cached] = [on(inner, one, 'plain'), on(store, one, 'cached')]
    for (const both of [stack(plain, cached), stack(cached, plain)]) {
      expect([(await both.consume('a')).allowed, (await both.consume('a')).allowed]).toEqual([true, false])
      for (const limiter of [plain, cached]) expect((await limiter.peek('a')).allowed).toBe(false)
      for (const limiter of [plain, cached]) await limiter.reset('a')
      // The limiters of the store itself do not end what the cache remembers.
      clock.advance(1000)
    }
  })

  it('passes an error on, and decides the next request', async () => {
    const { inner } = world()
    let fails = true
    const store = faultyStore(() => (fails ? new Error('lost') : undefined), inner)
    const limiter = on(denyCache(store), one)
    await expect(limiter.consume('a')).rejects.toThrow('lost')
    fails = false
    expect(await limiter.consume('a')).toMatchObject({ allowed: true })
  })

  it('denies nothing once it is closed', async () => {
    const { inner } = world()
    let isClosed = false
    const closing = faultyStore(() => (isClosed ? new Error('closed') : undefined), inner)
    const store = denyCache({ ...closing, close: async () => void (isClosed = true) })
    const limiter = on(store, one)
    await limiter.consume('a')
    await limiter.consume('a')
    await store.close()
    await expect(limiter.consume('a')).rejects.toThrow('closed')
  })

  it('lets a wait ask the store itself', async () => {
    const { clock, memory, store, asked } = world({ maxAge: '1h' })
    const limiter = on(store, hourly)
    await limiter.consume('a', { cost: 5 })
    await limiter.consume('a')
    perform(memory, { kind: 'forget', limiter: 'test', key: 'a' })
    expect((await limiter.consume('a')).allowed).toBe(false)
    expect(await asked(() => limiter.wait('a', { maxWait: 0 }))).toBe(1)
    // What the store has said since then counts.
    expect((await limiter.consume('a')).allowed).toBe(true)
    await limiter.consume('a', { cost: 3 })
    await limiter.consume('a')
    const waiting = limiter.wait('a')
    await new Promise(setImmediate)
    clock.advance(3_600_000)
    expect((await waiting).allowed).toBe(true)
  })

  it('predicts waits as the store does', async () => {
    const { store } = world()
    const limiter = on(store, one)
    await limiter.consume('a')
    const first = limiter.wait('a')
    const second = limiter.wait('a', { maxWait: 900 })
    await expect(second).rejects.toMatchObject({ code: 'WAIT_TOO_LONG' })
    first.catch(() => undefined)
  })
})

describe('denyCache around a store in this process', () => {
  const behaviours = storeBehaviours((clock) => denyCache(laterStore(memoryStore({ clock }))), { runs: 60 })
  for (const { name, run } of behaviours) it(name, run)
})
