// A store has one verb and five other members, and others that not all stores have. Each is a property of its own, so that `{ ...inner, run }` is a wrapper.
import { Redis } from 'ioredis'
import { describe, expect, expectTypeOf, it } from 'vitest'
import {
  type AsyncStore,
  createLimiter,
  denyCache,
  guard,
  lease,
  memoryStore,
  perMinute,
  type Store,
  type SyncStore,
} from '../../src/index.ts'
import { rateLimit } from '../../adapters/fetch/index.ts'
import { rowStore, wrappers } from '../../src/extend.ts'
import { redisStore } from '../../src/stores/redis/index.ts'

type Member = 'sync' | 'run' | 'place' | 'clock' | 'answersAlways' | 'close'
const MEMBERS: readonly Member[] = ['sync', 'run', 'place', 'clock', 'answersAlways', 'close']

const client = new Redis({ lazyConnect: true })
const transact = (): never => {
  throw new Error('not called')
}

describe('a store', () => {
  it('has six members, `ready` if it is set up, `recall` if it leases, and `wrappers` if it can fail', () => {
    expectTypeOf<keyof SyncStore>().toEqualTypeOf<Member | 'ready' | 'recall' | 'wrappers'>()
    expectTypeOf<keyof AsyncStore>().toEqualTypeOf<Member | 'ready' | 'recall' | 'wrappers'>()
  })

  it.each<[string, Store, boolean]>([
    ['memoryStore', memoryStore(), false],
    ['redisStore', redisStore(client), true],
    ['rowStore, at once', rowStore({ sync: true, transact }), true],
    ['rowStore, later', rowStore({ transact }), true],
    ['denyCache', denyCache(redisStore(client)), true],
    ['lease', lease(redisStore(client)), true],
    ['guard', guard(redisStore(client)), false],
  ])('has them as its own properties, and brings its guard and leases if it can fail: %s', (_, store, canFail) => {
    expect(MEMBERS.filter((member) => !Object.hasOwn(store, member))).toEqual([])
    expect(store.wrappers).toBe(canFail ? wrappers : undefined)
    expect(Object.hasOwn(store, 'wrappers')).toBe(canFail)
  })

  it('is guarded by adapters, or refused', async () => {
    const { wrappers: _, ...bare } = rowStore({
      transact: () => {
        throw new Error('down')
      },
    })
    const settings = { keyer: () => 'k', limits: perMinute(1), shared: true }
    expect(() => rateLimit({ ...settings, store: bare })).toThrow(expect.objectContaining({ code: 'UNGUARDED_STORE' }))
    expect(() => rateLimit({ ...settings, store: { ...bare, wrappers } })).not.toThrow()
    expect(() => rateLimit({ ...settings, store: guard(bare) })).not.toThrow()
    await bare.close()
  })

  it('refuses the option `lease` of a limiter without `wrappers`', () => {
    const { wrappers: _, ...bare } = rowStore({ transact })
    const settings = { keyer: () => 'k', limits: perMinute(1), lease: true }
    expect(() => createLimiter({ ...settings, store: bare })).toThrow(/^lease: .*wrappers/)
    expect(() => createLimiter({ ...settings, store: { ...bare, wrappers } })).not.toThrow()
  })

  it.each<[string, (inner: SyncStore, run: SyncStore['run']) => SyncStore]>([
    ['of another object', (inner, run) => ({ ...inner, run })],
    ['of the store itself', (inner, run) => Object.assign(inner, { run })],
    [
      'of a proxy',
      (inner, run) => new Proxy(inner, { get: (_, name) => (name === 'run' ? run : Reflect.get(inner, name)) }),
    ],
  ])('is wrapped by members %s', (_, wrapped) => {
    const inner = memoryStore()
    const { run: original } = inner
    const kinds: string[] = []
    const store = wrapped(inner, (operation, reply) => {
      kinds.push(operation.kind)
      return original(operation, reply)
    })
    const limiter = createLimiter<string>({ keyer: (key) => key, limits: perMinute(1), store })
    const decision = limiter.consume('k')
    limiter.refund(decision)
    limiter.peek('k')
    limiter.block('k', '1m')
    limiter.reset('k')
    expect(kinds).toEqual(['consume', 'adjust', 'peek', 'lock', 'forget'])
  })
})
