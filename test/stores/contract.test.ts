// A store has one verb and five other members, and one more around leases. Each is a property of its own, so that `{ ...inner, run }` is a wrapper.
import { Redis } from 'ioredis'
import { describe, expect, expectTypeOf, it } from 'vitest'
import {
  type AsyncStore,
  createLimiter,
  denyCache,
  guard,
  memoryStore,
  perMinute,
  type Store,
  type SyncStore,
} from '../../src/index.ts'
import { rowStore } from '../../src/extend.ts'
import { redisStore } from '../../src/stores/redis/index.ts'

type Member = 'sync' | 'run' | 'place' | 'clock' | 'answersAlways' | 'close'
const MEMBERS: readonly Member[] = ['sync', 'run', 'place', 'clock', 'answersAlways', 'close']

const client = new Redis({ lazyConnect: true })
const transact = (): never => {
  throw new Error('not called')
}

describe('a store', () => {
  it('has six members, `ready` if it is set up, and `recall` if it leases', () => {
    expectTypeOf<keyof SyncStore>().toEqualTypeOf<Member | 'ready' | 'recall'>()
    expectTypeOf<keyof AsyncStore>().toEqualTypeOf<Member | 'ready' | 'recall'>()
  })

  it.each<[string, Store]>([
    ['memoryStore', memoryStore()],
    ['redisStore', redisStore(client)],
    ['rowStore, at once', rowStore({ sync: true, transact })],
    ['rowStore, later', rowStore({ transact })],
    ['denyCache', denyCache(redisStore(client))],
    ['guard', guard(redisStore(client))],
  ])('has them as its own properties: %s', (_, store) => {
    expect(MEMBERS.filter((member) => !Object.hasOwn(store, member))).toEqual([])
  })

  it('is wrapped by other members', () => {
    const inner = memoryStore()
    const kinds: string[] = []
    const run: SyncStore['run'] = (operation, reply) => {
      kinds.push(operation.kind)
      return inner.run(operation, reply)
    }
    const limiter = createLimiter<string>({ keyer: (key) => key, limits: perMinute(1), store: { ...inner, run } })
    const decision = limiter.consume('k')
    limiter.refund(decision)
    limiter.peek('k')
    limiter.block('k', '1m')
    limiter.reset('k')
    expect(kinds).toEqual(['consume', 'adjust', 'peek', 'lock', 'forget'])
  })
})
