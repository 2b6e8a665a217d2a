import { describe, expect, it } from 'vitest'
import { createLimiter, fixedWindow, gcra, type Limit, type Limiter, stack, type Store } from '../../../src/index.ts'
import { type RedisClient, redisStore } from '../../../src/stores/redis/index.ts'

const duplicate = expect.objectContaining({ code: 'DUPLICATE_LIMITER' }) as Error
const gcraOne = gcra({ name: 'one', quota: 1, window: '1d' })
const fixedOne = fixedWindow({ name: 'one', quota: 1, window: '1d' })

/** A client that receives no command. */
const clientOf = (): RedisClient => ({ evalsha: async () => [], eval: async () => [] })

function limiterOf(store: Store, limits: Limit = gcraOne, shared = false): Limiter<string> {
  return createLimiter<string>({ keyer: (key) => key, limits, store, shared })
}

describe('two stores of one client and prefix', () => {
  it('count in the same place: two limiters of one name are an error', () => {
    const client = clientOf()
    limiterOf(redisStore(client))
    expect(() => limiterOf(redisStore(client), fixedOne)).toThrow(duplicate)
    expect(() => limiterOf(redisStore(client, { prefix: 'sluice:' }), fixedOne)).toThrow(duplicate)
    expect(() => limiterOf(redisStore(client, { clock: Date, cluster: true }), fixedOne)).toThrow(duplicate)
  })

  it('are one store whatever their other options are, and other stores are different', () => {
    const client = clientOf()
    const { place } = redisStore(client, { prefix: 'a:' })
    expect(redisStore(client, { prefix: 'a:' }).place).toBe(place)
    expect(redisStore(client, { prefix: 'b:' }).place).not.toBe(place)
    expect(redisStore(clientOf(), { prefix: 'a:' }).place).not.toBe(place)
  })

  it('decide one transaction together, unless their clocks differ', () => {
    const client = clientOf()
    const of = (store: Store): Limiter<string> => limiterOf(store, gcraOne, true)
    const plain = of(redisStore(client))
    const mismatch = expect.objectContaining({ code: 'STORE_MISMATCH' }) as Error
    expect(() => stack(plain, of(redisStore(client)))).not.toThrow()
    const clocked = of(redisStore(client, { clock: Date }))
    expect(() => stack(clocked, of(redisStore(client, { clock: Date })))).not.toThrow()
    expect(() => stack(clocked, of(redisStore(client, { clock: { now: () => 0 } })))).toThrow(mismatch)
    expect(() => stack(clocked, plain)).toThrow(mismatch)
    for (const other of [redisStore(client, { prefix: 'b:' }), redisStore(clientOf())])
      expect(() => stack(plain, of(other))).toThrow(mismatch)
  })
})
