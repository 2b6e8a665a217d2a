// Rows in the storage of a Durable Object. The storage is not real; test/stores/cloudflare.test.ts has that of workerd.
import { describe, expect, it } from 'vitest'
import { createLimiter, fixedWindow, type Limiter, slidingWindowLog, stack } from '../../../src/index.ts'
import {
  type DurableObjectStorageLike,
  type DurableObjectStore,
  durableObjectStore,
  type DurableObjectTransactionLike,
} from '../../../src/stores/cloudflare/index.ts'

/** The most keys in one call. */
const MOST_KEYS = 128

function checked<Items extends { readonly length: number }>(items: Items): Items {
  if (items.length > MOST_KEYS) throw new Error(`${items.length} keys`)
  return items
}

/** A storage with the bounds of the platform. */
class FakeStorage implements DurableObjectStorageLike, DurableObjectTransactionLike {
  readonly values = new Map<string, unknown>()
  alarm: number | null = null

  transaction<Result>(work: (transaction: DurableObjectTransactionLike) => Promise<Result>): Promise<Result> {
    return work(this)
  }

  async get(keys: string[]): Promise<Map<string, unknown>> {
    return new Map(checked(keys).flatMap((key) => (this.values.has(key) ? [[key, this.values.get(key)]] : [])))
  }

  async list({
    prefix,
    startAfter = '',
    limit,
  }: {
    prefix: string
    startAfter?: string
    limit: number
  }): Promise<Map<string, unknown>> {
    const all = [...this.values].toSorted(([one], [other]) => (one < other ? -1 : 1))
    return new Map(all.filter(([key]) => key.startsWith(prefix) && key > startAfter).slice(0, limit))
  }

  async put(entries: Record<string, unknown>): Promise<void> {
    for (const [key, value] of checked(Object.entries(entries))) this.values.set(key, value)
  }

  async delete(keys: string[]): Promise<number> {
    return checked(keys).filter((key) => this.values.delete(key)).length
  }

  async getAlarm(): Promise<number | null> {
    return this.alarm
  }

  async setAlarm(time: number): Promise<void> {
    this.alarm = time
  }
}

class FakeSqlStorage extends FakeStorage {
  readonly sql = { databaseSize: 0 }
}

/** A store whose clock a test moves. */
class World {
  ms = Date.now()
  readonly storage: FakeStorage
  readonly store: DurableObjectStore

  constructor(storage = new FakeStorage()) {
    this.storage = storage
    this.store = durableObjectStore(storage, { clock: { now: () => this.ms } })
  }

  limiter(quota = 5, name = 'api'): Limiter<string> {
    const limits = fixedWindow({ quota, window: '1h' })
    return createLimiter({ name, keyer: (key: string) => key, limits, store: this.store })
  }

  /** Rings the alarm, as the platform does. */
  async ring(): Promise<void> {
    this.storage.alarm = null
    await this.store.alarm()
  }
}

describe('the rows of durableObjectStore', () => {
  it('are read and written in parts, if they are more than the storage takes at a time', async () => {
    const world = new World()
    const limiter = stack(...Array.from({ length: 300 }, (_, i) => world.limiter(5, `n${i}`)))
    expect((await limiter.consume('ann')).remaining).toBe(4)
    expect((await limiter.consume('ann')).remaining).toBe(3)
    expect(world.storage.values.size).toBe(300)
  })

  it('are kept until they have expired, and are deleted by an alarm then', async () => {
    const world = new World()
    await world.storage.put({ own: 'kept' })
    await world.limiter().consume('ann')
    const end = world.storage.alarm!
    expect(end).toBeGreaterThan(world.ms)
    await world.ring()
    expect([...world.storage.values.keys()]).toEqual(['own', 'sluice:["api","ann"]'])
    expect(world.storage.alarm).toBe(end)
    world.ms = end + 1
    await world.ring()
    expect([...world.storage.values.keys()]).toEqual(['own'])
    expect(world.storage.alarm).toBe(null)
  })

  it('are deleted in several alarms, at most 512 in each', async () => {
    const world = new World()
    const limiter = world.limiter()
    for (let i = 0; i < 600; i++) await limiter.consume(`key ${i}`)
    world.ms += 3_602_000
    const left = []
    for (let i = 0; i < 9 && world.storage.alarm !== null; i++) {
      await world.ring()
      left.push(world.storage.values.size)
    }
    // The last alarm looks for rows that were inserted meanwhile.
    expect(left).toEqual([88, 0, 0])
  })

  it('are refused if they are larger than a value can be, which is more with SQL', async () => {
    const fill = async (storage: FakeStorage): Promise<void> => {
      const world = new World(storage)
      const logs = Array.from({ length: 400 }, (_, i) => `log ${i}`)
      const limits = logs.map((name) => slidingWindowLog({ name, quota: 100_000, window: '1h' }))
      const limiter = createLimiter({ keyer: (key: string) => key, limits, store: world.store })
      for (let i = 0; i < 16; i++) {
        world.ms++
        await limiter.consume('ann')
      }
    }
    await expect(fill(new FakeStorage())).rejects.toMatchObject({
      code: 'STORE_REJECTED',
      message: expect.stringMatching(/would have 13\d{4} bytes, .* at most 130048/) as string,
    })
    await fill(new FakeSqlStorage())
  })
})

describe('durableObjectStore', () => {
  const storage = { transaction: async () => undefined } as unknown as DurableObjectStorageLike

  it('counts in one place of each storage', () => {
    const other = { ...storage }
    const { place } = durableObjectStore(storage)
    expect(place.joins(durableObjectStore(storage).place)).toBe(true)
    expect(place.joins(durableObjectStore(other).place)).toBe(false)
    expect(place.name).toBe('the storage of a Durable Object')
  })

  it.each([
    [undefined, undefined, 'INVALID_OPTION'],
    [{}, undefined, 'INVALID_OPTION'],
    [storage, { clock: {} }, 'INVALID_OPTION'],
    [storage, { prefix: 'x' }, 'UNKNOWN_OPTION'],
  ])('refuses %j with %j', (given, options, code) => {
    const make = (): unknown => durableObjectStore(given as DurableObjectStorageLike, options as object)
    expect(make).toThrow(expect.objectContaining({ code }))
  })
})
