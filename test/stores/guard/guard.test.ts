import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, describe, expect, it, vi } from 'vitest'
import {
  type AsyncStore,
  createLimiter,
  fixedWindow,
  gcra,
  guard,
  type GuardOptions,
  type Limiter,
  memoryStore,
  perMinute,
  SluiceError,
  stack,
  type Store,
  type StoreChange,
} from '../../../src/index.ts'
import { remoteStore, rowStore, serveStore } from '../../../src/extend.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { Backlog } from '../../../src/stores/guard/backlog.ts'
import { Charge, createPolicy, isDeciding, type Operation, storeClock } from '../../../src/stores/store.ts'
import { storeBehaviours } from '../../../src/testing.ts'
import { guardedOn, timed, warningsOfEachTest } from '../../support/guarded.ts'
import { faultyStore } from '../../support/faulty-store.ts'
import { headerPart, heapUsed } from '../../support/heap.ts'
import { mapRows } from '../../support/map-rows.ts'
import { redisForAll, until } from '../../support/redis-tests.ts'

/** A store whose next operations a test holds or lets fail. */
function testStore() {
  const faults = { error: undefined as Error | undefined, isHeld: false, held: [] as (() => void)[] }
  const store = faultyStore(() => {
    const { error, isHeld, held } = faults
    return isHeld ? new Promise((resolve) => held.push(() => resolve(error))) : error
  })
  return Object.assign(faults, store, {
    /** Lets all delayed operations continue, late. */
    release(): void {
      faults.isHeld = false
      for (const go of faults.held.splice(0)) go()
    },
    /** What it was asked for, without probes. */
    own: (): Operation[] => store.asked.filter((each) => !isProbe(each)),
  })
}

function isProbe(operation: Operation): boolean {
  return (operation.kind === 'forget' ? operation : operation.charges[0]!).limiter === '·probe'
}

interface Setup {
  readonly store: ReturnType<typeof testStore>
  readonly guarded: AsyncStore
  readonly limiter: Limiter<string>
  readonly changes: StoreChange[]
}

function setup(options: GuardOptions = {}, limits = perMinute(100)): Setup {
  const changes: StoreChange[] = []
  const store = testStore()
  const guarded = guard(store, { deadline: 20, onChange: (change) => void changes.push(change), ...options })
  const limiter = createLimiter<string>({ name: 'test', keyer: (key) => key, limits, store: guarded })
  made.push(guarded)
  return { store, guarded, limiter, changes }
}

/** The guards of a test. They would warn in the next one. */
const made: Store[] = []
const warnings = warningsOfEachTest()
afterEach(async () => {
  for (const each of made.splice(0)) await each.close()
  await new Promise((resolve) => setImmediate(resolve))
})

const failed = new SluiceError('STORE_FAILED', 'no')

async function lose({ store, limiter }: Setup): Promise<void> {
  store.error = failed
  for (let i = 0; i < 3; i++) await limiter.consume('lost')
}

describe('the conformance suite', () => {
  const redis = redisForAll()
  let runs = 0
  const stores = {
    Redis: (clock: { now(): number }) =>
      guard(redisStore(redis.client, { clock, prefix: `guard${++runs}:` }), { deadline: '5s' }),
    // Each decision is made in this process.
    'a store that never answers': (clock: { now(): number }) => {
      const away = faultyStore((operation) => (isDeciding(operation) ? failed : undefined))
      return guard({ ...away, clock: storeClock(clock) })
    },
  }
  for (const [name, make] of Object.entries(stores)) {
    describe(name, () => {
      const resets = /deletes|forget|reset|until it has had none for a while|given up/i
      for (const each of storeBehaviours(make, { runs: 15 })) {
        // Without a store a reset rejects, and the trace has resets. Nothing is under way that could be given up.
        const needsStore = resets.test(each.name) || each.name.includes('same as memoryStore')
        if (name.includes('never') && needsStore) continue
        it(each.name, each.run)
      }
    })
  }
})

describe('the deadline', () => {
  it('bounds a decision, and a late answer does not change it', async () => {
    const { store, limiter } = setup({}, gcra({ quota: 10, window: '1d' }))
    for (let i = 0; i < 4; i++) await limiter.consume('k')
    store.isHeld = true
    const [ms, decision] = await timed(() => limiter.consume('k'))
    expect(ms).toBeLessThan(1000)
    expect(decision).toMatchObject({ allowed: true, degraded: 'local', remaining: 9 })
    const before = JSON.stringify(decision)
    store.release()
    await until(async () => (await limiter.peek('k')).remaining === 5)
    expect(JSON.stringify(decision)).toBe(before)
    await limiter.refund(decision)
    expect(await limiter.peek('k')).toMatchObject({ degraded: undefined, remaining: 5 })
  })

  it('ignores an error that comes late', async () => {
    const { store, limiter } = setup()
    store.isHeld = true
    store.error = failed
    await limiter.consume('k')
    store.release()
    store.error = undefined
    await pause(10)
    expect(store.own()).toMatchObject([{ kind: 'consume' }])
  })
})

describe('a burst', () => {
  /** Stores whose answer takes `ms` milliseconds for so many keys. */
  const slowed = {
    'on rows of a database'(ms) {
      const rows = mapRows()
      return rowStore({
        async transact(keys, change, info) {
          const made = await rows.transact(keys, change, info)
          await pause(ms(keys.length))
          return made
        },
      })
    },
    'in another process'(ms) {
      const answer = serveStore(memoryStore())
      return remoteStore(async (message) => {
        await pause(ms(message.operations.length))
        return answer(message)
      })
    },
  } satisfies Record<string, (ms: (size: number) => number) => AsyncStore>

  it.each(Object.entries(slowed))(
    '%s waits for all of its decisions, and one slow decision does not',
    async (_, make) => {
      let isSlow = false
      const { limiter, states } = guardedOn(make((size) => (isSlow ? 150 : size)))
      for (let i = 0; i < 30; i++) await limiter.consume('k')
      const burst = await Promise.all(Array.from({ length: 150 }, async (_, i) => limiter.consume(String(i))))
      expect(burst.filter(({ degraded }) => degraded !== undefined)).toEqual([])
      isSlow = true
      expect((await limiter.consume('k')).degraded).toBe('local')
      expect(states()).toEqual([])
    },
  )
})

describe('the breaker', () => {
  it('opens after three failures in a row, and then asks nothing more', async () => {
    const world = setup()
    await world.limiter.consume('k')
    await lose(world)
    expect(world.changes).toEqual([{ state: 'away', reason: 'no', name: 'A store of rate limits' }])
    for (let i = 0; i < 100; i++) expect((await world.limiter.consume('k')).degraded).toBe('local')
    expect(world.store.own().length).toBe(4)
  })

  it('starts to count again after an answer', async () => {
    const { store, limiter, changes } = setup()
    await limiter.consume('k')
    for (const error of [failed, failed, undefined, failed, failed, undefined]) {
      store.error = error
      await limiter.consume('k')
    }
    expect(changes).toEqual([])
  })

  it('decides all waiting requests at once when it opens', async () => {
    const { store, limiter } = setup({ deadline: '2s' })
    store.isHeld = true
    const waiting = Array.from({ length: 10 }, async () => limiter.consume('k'))
    await pause(5)
    store.isHeld = false
    store.error = failed
    for (let i = 0; i < 3; i++) await limiter.consume('other')
    const [ms, decisions] = await timed(() => Promise.all(waiting))
    expect(ms).toBeLessThan(1500)
    for (const { degraded } of decisions) expect(degraded).toBe('local')
  })

  it('probes in the background, at most every 250 ms, one at a time, and closes at the first answer', async () => {
    const world = setup()
    await lose(world)
    await pause(700)
    const probes = (): number => world.store.asked.length - world.store.own().length
    expect(probes()).toBeGreaterThanOrEqual(1)
    expect(probes()).toBeLessThanOrEqual(2)
    world.store.error = undefined
    world.store.isHeld = true
    await pause(600)
    expect(probes()).toBeLessThanOrEqual(3)
    expect(world.changes.length).toBe(1)
    world.store.release()
    await until(async () => world.changes.length === 2)
    expect(world.changes[1]).toMatchObject({ state: 'healthy', reason: 'the store answers again' })
    expect((await world.limiter.consume('k')).degraded).toBeUndefined()
  })

  it('stays open while probes are answered too late', async () => {
    const world = setup()
    await lose(world)
    world.store.error = undefined
    world.store.held.length = 0
    world.store.isHeld = true
    const { held, asked } = world.store
    for (let i = 0; i < 2; i++) {
      await until(async () => asked.at(-1)!.kind === 'consume' && isProbe(asked.at(-1)!))
      await pause(100)
      held.splice(0).forEach((answer) => answer())
      await pause(20)
      expect(world.changes.map(({ state }) => state)).not.toContain('healthy')
    }
    expect(world.changes.map(({ state }) => state)).toEqual(['away', 'slow'])
    expect(world.changes[1]!.reason).toMatch(/^answers take .*, and `deadline.most` is 20 ms$/)
    world.store.release()
    await until(async () => world.changes.length === 3)
  })

  it('leaves nothing of a probe in the store', async () => {
    const world = setup()
    await lose(world)
    world.store.error = undefined
    await until(async () => world.changes.length === 2)
    await until(async () => world.store.asked.some((each) => each.kind === 'forget' && isProbe(each)))
  })

  it('passes errors on that say that the request was wrong', async () => {
    const { store, limiter, changes } = setup()
    store.error = new SluiceError('STORE_REJECTED', 'wrong')
    for (let i = 0; i < 5; i++) await expect(limiter.consume('k')).rejects.toMatchObject({ code: 'STORE_REJECTED' })
    expect(changes).toEqual([])
  })

  it('treats any other error as an outage, also one that is thrown', async () => {
    const { store, limiter } = setup()
    store.run = () => {
      throw new TypeError('broken')
    }
    expect((await limiter.consume('k')).degraded).toBe('local')
  })

  it('opens only for a part of the store, and finds a key of that part for its probes', async () => {
    const partOf = (_limiter: string, key: string): string => (/[02468]$|bad/.test(key) ? 'even' : 'odd')
    let isDown = true
    const inner = faultyStore((operation) =>
      isDown && isDeciding(operation) && operation.charges.some(({ key }) => partOf('', key) === 'even')
        ? failed
        : undefined,
    )
    const changes: StoreChange[] = []
    const parted = { ...inner, place: { ...inner.place, partOf } }
    const store = guard(parted, { onChange: (change) => void changes.push(change) })
    const limiter = createLimiter<string>({ keyer: (key) => key, limits: perMinute(9), store })
    for (let i = 0; i < 3; i++) await limiter.consume('bad')
    expect(changes).toMatchObject([{ state: 'away', reason: 'even: no' }])
    expect((await limiter.consume('0')).degraded).toBe('local')
    expect((await limiter.consume('1')).degraded).toBeUndefined()
    await pause(400)
    expect(changes.length).toBe(1)
    isDown = false
    await until(async () => changes.length === 2)
    expect((await limiter.consume('0')).degraded).toBeUndefined()
  })
})

describe('onOutage', () => {
  it("'local' decides by the same limits, with a share of each quota", async () => {
    const world = setup({ localShare: 0.1 }, gcra({ quota: 50, window: '1d' }))
    await lose(world)
    const seen = []
    for (let i = 0; i < 6; i++) seen.push((await world.limiter.consume('k')).allowed)
    expect(seen).toEqual([true, true, true, true, true, false])
    const { limits, retryAfter } = await world.limiter.consume('k', { cost: 20 })
    expect(limits[0]!.limit.quota).toBe(50)
    expect(retryAfter).toBe(1000)
  })

  it("'local' keeps its counts from one outage to the next", async () => {
    const world = setup({}, gcra({ quota: 2, window: '1d' }))
    await lose(world)
    expect((await world.limiter.consume('k')).allowed).toBe(true)
    world.store.error = undefined
    await until(async () => world.changes.length === 2)
    await lose(world)
    const seen = [await world.limiter.consume('k'), await world.limiter.consume('k')]
    expect(seen.map(({ allowed }) => allowed)).toEqual([true, false])
  })

  it("'open' admits and counts nothing, also at a settlement", async () => {
    const world = setup({ onOutage: 'open' }, perMinute(1))
    await lose(world)
    const decision = await world.limiter.consume('k', { cost: 0 })
    expect(decision).toMatchObject({ allowed: true, degraded: 'open', retryAfter: 0, remaining: Infinity })
    for (let i = 0; i < 5; i++) expect((await world.limiter.consume('k')).allowed).toBe(true)
    world.store.error = undefined
    await until(async () => world.changes.length === 2)
    await world.limiter.settle(decision, 1)
    await world.limiter.refund(await world.limiter.consume('other'))
    expect((await world.limiter.consume('k')).allowed).toBe(true)
  })

  it("'closed' denies for a second, except by limits in shadow, and so does a share of 0", async () => {
    for (const options of [{ onOutage: 'closed' }, { localShare: 0 }] as const) {
      const world = setup(options)
      await lose(world)
      const denied = { allowed: false, degraded: 'closed', retryAfter: 1000, remaining: 0, resetAfter: 0 }
      expect(await world.limiter.consume('k')).toMatchObject(denied)
      expect(await world.limiter.peek('k')).toMatchObject(denied)
      const limits = perMinute(1, { shadow: true })
      const shadow = createLimiter<string>({ name: 'shadow', keyer: (key) => key, limits, store: world.guarded })
      expect(await shadow.consume('k')).toMatchObject({ allowed: true, degraded: 'closed' })
    }
  })
})

describe('what was decided without the store', () => {
  it('is refunded and settled in this process, also after the outage', async () => {
    const world = setup({}, gcra({ quota: 10, window: '1d' }))
    await lose(world)
    const [a, b] = [await world.limiter.consume('k'), await world.limiter.consume('k')]
    world.store.error = undefined
    await until(async () => world.changes.length === 2)
    await world.limiter.refund(a)
    await world.limiter.settle(b, 4)
    expect(world.store.own().filter(({ kind }) => kind === 'adjust')).toEqual([])
    await lose(world)
    expect((await world.limiter.peek('k', { cost: 0 })).limits[0]!.remaining).toBe(6)
  })

  it('belongs to whole stacks: all limits of all limiters admit, or nothing is charged', async () => {
    const world = setup({}, perMinute(1))
    const store = world.guarded
    const other = createLimiter<string>({ name: 'other', keyer: () => 'all', limits: perMinute(5), store })
    const both = stack(world.limiter, other)
    await lose(world)
    expect((await both.consume('a')).allowed).toBe(true)
    expect((await both.consume('a')).allowed).toBe(false)
    expect((await other.peek('x')).limits[0]!.remaining).toBe(3)
  })

  it('keeps at most 10,000 adjustments of the store for later, and loses the next with a warning', async () => {
    const world = setup({}, fixedWindow({ quota: 20_000, window: '1d' }))
    const decisions = await Promise.all(Array.from({ length: 10_001 }, async () => world.limiter.consume('k')))
    await lose(world)
    for (const decision of decisions.slice(1)) await world.limiter.refund(decision)
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined)
    await world.limiter.refund(decisions[0]!)
    expect(warned).toHaveBeenCalledWith(expect.stringContaining('10000 refunds'), {
      type: 'SluiceWarning',
      code: 'SLUICE_OUTCOME',
    })
    warned.mockRestore()
    world.store.error = undefined
    await until(async () => world.changes.length === 2)
    await until(async () => (await world.limiter.peek('k', { cost: 0 })).limits[0]!.remaining === 19_999)
  })
})

describe('what waits for a store', () => {
  const policy = createPolicy('test', fixedWindow({ name: 'one', quota: 1, window: '1h' }), memoryStore(), {})
  const MOST = 10_000

  /** Returns a charge whose key is a part of a longer text, as of a header. */
  function charge(i: number): Charge {
    const made = new Charge(policy, headerPart(i), 1)
    made.markCharged(i, 1)
    return made
  }

  it.each([
    ['adjustments', { kind: 'adjust', units: [-1] }, undefined],
    ['lock-outs', { kind: 'lock', ms: 0, mode: 'set' }, 1],
  ] as const)('keeps 1 kB of each charge, and no header: %s', async (_, operation, until) => {
    const sent: unknown[] = []
    const inner = faultyStore((each) => void sent.push(each))
    const backlog = new Backlog({ inner, isOutFor: () => false, failed: (_, error) => sent.push(error) })
    const keep = (i: number): unknown => backlog.keep({ ...operation, charges: [charge(i)] }, until)
    const before = heapUsed()
    for (let i = 0; i < MOST; i++) keep(i)
    expect(heapUsed() - before).toBeLessThan(MOST * 1000)
    expect(keep(MOST)).toMatchObject({ code: 'STORE_FAILED' })
    await backlog.send()
    expect(sent).toHaveLength(MOST)
    expect(sent[0]).toMatchObject({ charges: [{ key: charge(0).key, at: 0, charged: 1, policy }] })
  })
})

describe('guard', () => {
  it('returns a store that decides at once as it is', () => {
    const store = memoryStore()
    expect(guard(store)).toBe(store)
  })

  it.each([
    [{ deadline: 0 }, 'INVALID_OPTION'],
    [{ deadline: 'soon' }, 'INVALID_OPTION'],
    [{ deadline: '30d' }, 'INVALID_OPTION'],
    [{ onOutage: 'shut' }, 'INVALID_OPTION'],
    [{ localShare: 1.1 }, 'INVALID_OPTION'],
    [{ localShare: -0.1 }, 'INVALID_OPTION'],
    [{ localShare: NaN }, 'INVALID_OPTION'],
    [{ maxKeys: 0 }, 'INVALID_OPTION'],
    [{ onChange: true }, 'INVALID_OPTION'],
    [{ timeout: 50 }, 'UNKNOWN_OPTION'],
  ])('refuses %o', (options, code) => {
    expect(() => guard(testStore(), options as GuardOptions)).toThrow(expect.objectContaining({ code }))
    expect(() => guard(memoryStore(), options as GuardOptions)).toThrow(expect.objectContaining({ code }))
  })

  it('refuses what is no store, and a store that is guarded already', () => {
    const invalid = expect.objectContaining({ code: 'INVALID_OPTION' })
    for (const given of [undefined, {}, 'redis']) expect(() => guard(given as never)).toThrow(invalid)
    expect(() => guard(guard(testStore()))).toThrow(invalid)
  })

  it('counts in the same place as its store, and with its clock', () => {
    const store = { ...testStore(), clock: storeClock(Date) }
    const guarded = guard(store)
    expect(guarded.clock).toBe(store.clock)
    expect(guarded.place).toBe(store.place)
  })

  it('survives an onChange that throws or rejects', async () => {
    for (const onChange of [
      () => {
        throw new Error('mine')
      },
      async () => Promise.reject(new Error('mine')),
    ]) {
      const world = setup({ onChange })
      await lose(world)
      expect((await world.limiter.consume('k')).degraded).toBe('local')
    }
    await pause(1)
    expect(warnings.codes.filter((code) => code === 'SLUICE_OUTCOME')).toEqual(['SLUICE_OUTCOME', 'SLUICE_OUTCOME'])
  })

  it('closes its store, stops its probes and rejects what comes later', async () => {
    const world = setup()
    const close = vi.spyOn(world.store, 'close')
    await lose(world)
    await world.guarded.close()
    const { length } = world.store.asked
    await pause(400)
    expect(world.store.asked.length).toBe(length)
    expect(close).toHaveBeenCalledTimes(1)
    await expect(world.limiter.consume('k')).rejects.toMatchObject({ code: 'STORE_CLOSED' })
    await expect(world.limiter.reset('k')).rejects.toMatchObject({ code: 'STORE_CLOSED' })
  })

  it('says how many changes are lost if the store does not answer when it is closed', async () => {
    const world = setup()
    const [one, two] = [await world.limiter.consume('k'), await world.limiter.consume('k')]
    await lose(world)
    await world.limiter.refund(one)
    await world.limiter.settle(two, 4)
    await world.limiter.block('k', '1h')
    const lost = (): number => warnings.messages.filter((each) => each.includes('lock-outs that are lost: 3')).length
    await world.guarded.close()
    await world.guarded.close()
    await pause(1)
    expect(lost()).toBe(1)
  })

  it('decides what is under way when it is closed', async () => {
    const { store, limiter, guarded } = setup({ deadline: '10s' })
    store.isHeld = true
    const asked = Array.from({ length: 5 }, async () => limiter.consume('k'))
    await pause(1)
    await guarded.close()
    for (const { degraded } of await Promise.all(asked)) expect(degraded).toBe('local')
  })
})
