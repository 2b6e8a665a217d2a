// A limiter takes units that its store has charged before, and makes no request for them.
import { describe, expect, it } from 'vitest'
import {
  type AsyncStore,
  createLimiter,
  type Decision,
  denyCache,
  gcra,
  lease,
  type Limiter,
  memoryStore,
} from '../../src/index.ts'
import { type Operation, type Reply, wrappers } from '../../src/extend.ts'
import { virtualClock } from '../../src/testing.ts'

const LIMIT = gcra({ quota: 1000, window: '1h' })
const clock = virtualClock()
const memory = memoryStore({ clock })

/** A store that answers later, as one on a server does. */
function serverStore(): AsyncStore {
  const run = (operation: Operation, reply: Reply): undefined => void memory.run(operation, reply)
  return { ...memory, sync: false, answersAlways: false, wrappers, run, close: async () => memory.close() }
}

let names = 0

function limiterOn(store: AsyncStore, name = `recall ${names++}`): Limiter<string, Promise<Decision>> {
  return createLimiter<string>({ name, keyer: (key) => key, limits: LIMIT, store, shared: true })
}

/** Counts the operations on the store inside, and how often it is asked for units that were charged before. */
function counted(inner: AsyncStore, without?: 'recall') {
  const count = { runs: 0, recalls: 0 }
  const store: AsyncStore = {
    ...inner,
    run: (operation, reply) => {
      count.runs++
      return inner.run(operation, reply)
    },
    recall:
      without === undefined
        ? (charges) => {
            count.recalls++
            return inner.recall!(charges)
          }
        : undefined,
  }
  return { store, count }
}

describe('a limiter on a store with leases', () => {
  it('takes leased units without a request to the store', async () => {
    const { store, count } = counted(lease(serverStore()))
    const limiter = limiterOn(store)
    for (let i = 0; i < 100; i++) await limiter.consume('k')
    expect(count.recalls).toBe(100)
    expect(count.runs).toBeLessThan(50)
  })

  it('does not take them for a peek', async () => {
    const { store, count } = counted(lease(serverStore()))
    const limiter = limiterOn(store)
    for (let i = 0; i < 100; i++) await limiter.consume('k')
    const before = { ...count }
    const remaining = (await limiter.peek('k')).remaining
    expect((await limiter.peek('k')).remaining).toBe(remaining)
    expect(count).toEqual({ runs: before.runs + 2, recalls: before.recalls })
  })

  it('takes them before a remembered denial, also behind a wrapper that cannot be asked', async () => {
    const inner = lease(serverStore(), { from: 2 })
    const { store } = counted(denyCache(inner), 'recall')
    const [limiter, direct] = [limiterOn(store, 'behind'), limiterOn(inner, 'behind')]
    const exact = limiterOn(serverStore(), 'behind')
    for (let i = 0; i < 20; i++) await direct.consume('k')
    const last = await direct.consume('k')
    await exact.consume('k', { cost: (await exact.peek('k', { cost: 0 })).limits[0]!.remaining })
    const verdicts: boolean[] = []
    for (let i = 0; i < 60; i++) verdicts.push((await limiter.consume('k')).allowed)
    expect(verdicts).toContain(true)
    expect(verdicts.at(-1)).toBe(false)
    await direct.refund(last)
    expect((await limiter.consume('k')).allowed).toBe(true)
  })

  it('forgets keys that nobody uses, so that others have room', async () => {
    const inner = lease(serverStore(), { maxLeases: 20 })
    const { store, count } = counted(inner)
    const limiter = limiterOn(store)
    const heat = async (key: string): Promise<number> => {
      const before = count.runs
      for (let i = 0; i < 40; i++) await limiter.consume(key)
      return count.runs - before
    }
    for (let turn = 0; turn < 10; turn++) {
      for (let i = 0; i < 5; i++) await heat(`${turn} ${i}`)
      clock.advance(1000)
    }
    expect(await heat('last')).toBeLessThan(20)
  })
})
