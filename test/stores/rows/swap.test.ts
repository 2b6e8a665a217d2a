import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { concurrent, createLimiter, fixedWindow, gcra, guard, stack } from '../../../src/index.ts'
import { rowStore, type SwapDatabase, type SwapWrite, type VersionedRow } from '../../../src/extend.ts'
import { createRules } from '../../../src/rules/index.ts'
import { storeBehaviours } from '../../../src/testing.ts'
import { codeOf } from '../../support/code-of.ts'

/** A service with compare and set, as several processes use it. */
class Service {
  readonly rows = new Map<string, VersionedRow>()
  reads = 0
  swaps = 0
  conflicts = 0
  atOnce = 0
  most = 0
  readonly #ms: number
  #versions = 0

  constructor(ms = 0) {
    this.#ms = ms
  }

  connect(options: Partial<SwapDatabase> = {}): SwapDatabase {
    const { mostKeys = Infinity } = options
    return {
      read: async (keys) => {
        this.reads++
        this.most = Math.max(this.most, ++this.atOnce)
        const found = keys.map((key) => this.rows.get(key))
        await pause(this.#ms)
        return found
      },
      swap: async (writes) => {
        this.swaps++
        expect(writes.length).toBeLessThanOrEqual(mostKeys)
        await pause(this.#ms)
        this.atOnce--
        return this.#swap(writes)
      },
      ...options,
    }
  }

  #swap(writes: readonly SwapWrite[]): boolean {
    if (writes.some(({ key, version }) => this.rows.get(key)?.version !== version)) {
      this.conflicts++
      return false
    }
    for (const { key, row } of writes)
      if (row === undefined) this.rows.delete(key)
      else this.rows.set(key, { row, version: ++this.#versions })
    return true
  }
}

const keyer = (key: string): string => key
const hour = (quota: number) => fixedWindow({ quota, window: '1h' })

describe.each([
  ['at most two keys', { mostKeys: 2 }, true],
  ['one key', { mostKeys: 1 }, false],
])('a store that swaps %s', (_, options, stacks) => {
  const behaviours = storeBehaviours((clock) => rowStore(new Service().connect(options), { clock }), {
    stacks,
    runs: 30,
  })
  // Only stacks, and how many keys are written together, are different.
  const own = behaviours.filter(({ name }) => stacks || /concurrent|kept apart|decides the same/.test(name))
  for (const { name, run } of own) it(name, run, 60_000)
  it('has cases of stacks only where they are possible', () => {
    expect(behaviours.some(({ name }) => name.startsWith('a stack'))).toBe(stacks)
  })
})

describe('rowStore of a service that swaps', () => {
  it('admits exactly the quota of several processes that change one row', async () => {
    const service = new Service(1)
    const limiters = Array.from({ length: 3 }, () => {
      const store = rowStore(service.connect({ mostKeys: 1 }))
      return createLimiter({ keyer, limits: hour(100), store })
    })
    const answers = await Promise.allSettled(
      Array.from({ length: 60 }, (_, i) => limiters.map((each) => pause(i).then(() => each.consume('hot')))).flat(),
    )
    const admitted = answers.filter((each) => each.status === 'fulfilled' && each.value.allowed).length
    const failed = answers.filter((each) => each.status === 'rejected')
    for (const { reason } of failed) expect(reason).toMatchObject({ code: 'STORE_BUSY' })
    expect(service.conflicts).toBeGreaterThan(0)
    expect(admitted).toBe(Math.min(100, 180 - failed.length))
  })

  it('gathers the decisions of a hot key, so that one swap runs at a time', async () => {
    const service = new Service(2)
    const limiter = createLimiter({ keyer, limits: hour(1000), store: rowStore(service.connect({ mostKeys: 1 })) })
    const decisions = await Promise.all(Array.from({ length: 500 }, () => limiter.consume('hot')))
    expect(decisions.every(({ allowed }) => allowed)).toBe(true)
    expect([service.most, service.conflicts]).toEqual([1, 0])
    expect(service.swaps).toBeLessThanOrEqual(3)
  })

  it.each([4, 64, undefined])('runs as many swaps at a time as `inFlight` says: %s', async (inFlight) => {
    const service = new Service(5)
    const store = rowStore(service.connect({ mostKeys: 1, ...(inFlight !== undefined && { inFlight }) }))
    const limiter = createLimiter({ keyer, limits: hour(5), store })
    await Promise.all(Array.from({ length: 150 }, (_, i) => limiter.consume(`key ${i}`)))
    expect(service.most).toBe(inFlight ?? 64)
  })

  it('waits for a service that refuses all swaps for half a second', async () => {
    const service = new Service()
    const free = performance.now() + 500
    const busy: SwapDatabase = service.connect()
    const swap: SwapDatabase['swap'] = async (writes) => performance.now() >= free && (await busy.swap(writes))
    const limiter = createLimiter({ keyer, limits: hour(5), store: rowStore({ ...busy, swap }) })
    expect((await limiter.consume('a')).remaining).toBe(4)
    expect(service.reads).toBeGreaterThan(10)
  })

  it('gives up after a second, but not before ten swaps, and no guard takes that for an outage', async () => {
    const service = new Service()
    const never = service.connect({ swap: () => Promise.resolve(false) })
    const slow = service.connect({ swap: () => pause(120).then(() => false) })
    const start = performance.now()
    const [fast, rare] = [never, slow].map((each) =>
      createLimiter({ keyer, limits: hour(5), store: rowStore(each) }).consume('a'),
    )
    await expect(fast).rejects.toMatchObject({ code: 'STORE_BUSY', message: /before each of \d\d swaps/ })
    expect(performance.now() - start).toBeGreaterThan(990)
    await expect(rare).rejects.toMatchObject({ code: 'STORE_BUSY', message: /before each of 10 swaps/ })
    const changes: unknown[] = []
    const guarded = guard(rowStore({ ...never }), { onChange: (change) => changes.push(change) })
    const local = createLimiter({ keyer, limits: hour(5), store: guarded })
    expect((await local.consume('a')).degraded).toBe('local')
    expect(changes).toEqual([])
    await guarded.close()
  })

  it('does not repeat a swap whose result is unknown', async () => {
    const service = new Service()
    let swaps = 0
    const store = rowStore(service.connect({ swap: () => Promise.reject(new Error(`lost ${++swaps}`)) }))
    const limiter = createLimiter({ keyer, limits: hour(5), store })
    await expect(limiter.consume('a')).rejects.toMatchObject({ code: 'STORE_FAILED', message: /lost 1/ })
    expect(swaps).toBe(1)
  })

  it('swaps nothing for a denial', async () => {
    const service = new Service()
    const limiter = createLimiter({ keyer, limits: hour(1), store: rowStore(service.connect()) })
    await limiter.consume('a')
    expect((await limiter.consume('a')).allowed).toBe(false)
    expect([service.reads, service.swaps]).toEqual([2, 1])
  })

  it('takes an object whose wrong option was corrected', () => {
    const service = new Service().connect()
    const withMost = (mostKeys: number): unknown => rowStore(Object.assign(service, { mostKeys }))
    expect(() => withMost(0)).toThrow('mostKeys')
    expect(() => withMost(2)).not.toThrow()
  })

  it('refuses what needs several keys when it is created, with `mostKeys: 1`', async () => {
    const store = rowStore(new Service().connect({ mostKeys: 1 }))
    const [one, other] = ['one', 'other'].map((name) => createLimiter({ name, keyer, limits: hour(5), store }))
    expect(codeOf(() => stack(one!, other!))).toBe('STORE_MISMATCH')
    const limiters = ['a', 'b'].map((name) => ({ name, keyer, limits: hour(5) }))
    expect(codeOf(() => stack({ store: guard(store), limiters }))).toBe('STORE_MISMATCH')
    const policy = { name: 'api', key: 'header:x-key', limits: [{ quota: 1, window: '1m' }] }
    const rules = createRules({ policies: [policy] })
    expect(codeOf(() => createLimiter({ rules, store }))).toBe('STORE_MISMATCH')
    const decision = await one!.consume('a')
    expect(codeOf(() => one!.receipt(decision))).toBe('STORE_MISMATCH')
    // Several limits of one key are one row.
    const limits = [gcra({ quota: 5, window: '1s' }), concurrent(2)]
    const both = createLimiter({ name: 'both', keyer, limits, store })
    expect((await both.consume('a')).limits).toHaveLength(2)
    const wide = rowStore(new Service().connect({ mostKeys: 2 }))
    const two = ['one', 'other'].map((name) => createLimiter({ name, keyer, limits: hour(5), store: wide }))
    expect((await stack(...two).consume('a')).allowed).toBe(true)
    const third = createLimiter({ name: 'third', keyer, limits: hour(5), store: wide })
    await expect(stack(...two, third).consume('a')).rejects.toMatchObject({ code: 'STORE_REJECTED' })
  })

  it('counts in one place for each object', () => {
    const database = new Service().connect()
    expect(rowStore(database).place.joins(rowStore(database).place)).toBe(true)
    expect(rowStore(database).place.joins(rowStore({ ...database }).place)).toBe(false)
  })

  it.each<[object, string]>([
    [{ read: () => 0 }, 'swap'],
    [{ swap: () => 0 }, 'read'],
    [{ read: () => 0, swap: () => 0, ready: 1 }, 'ready'],
    [{ read: () => 0, swap: () => 0, close: 1 }, 'close'],
    [{ read: () => 0, swap: () => 0, mostKeys: 0 }, 'mostKeys'],
    [{ read: () => 0, swap: () => 0, inFlight: 0.5 }, 'inFlight'],
  ])('refuses %o', (given, option) => {
    expect(() => rowStore(given as never)).toThrow(new RegExp(`^${option}: expected`))
  })

  it.each([
    [{ read: () => Promise.resolve([]) }, /read: expected 1 rows, got an array of 0/],
    [{ read: () => Promise.resolve(undefined) }, /read: expected 1 rows, got undefined/],
    [{ read: () => Promise.resolve([{ row: 'text', version: 1 }]) }, /Uint8Array/],
    [{ swap: () => Promise.resolve(undefined) }, /swap: expected true or false, got undefined/],
  ])('fails if the service returns something else: %o', async (given, message) => {
    const store = rowStore(new Service().connect(given as never))
    const limiter = createLimiter({ keyer, limits: hour(5), store })
    await expect(limiter.consume('a')).rejects.toMatchObject({ code: 'STORE_FAILED', message })
  })
})
