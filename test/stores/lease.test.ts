// A store with leases charges before it spends, and gives back what is unused.
import { describe, expect, it } from 'vitest'
import {
  type AsyncStore,
  createLimiter,
  fixedWindow,
  lease,
  type LeaseStoreOptions,
  type Limit,
  memoryStore,
  type Operation,
  perSecond,
} from '../../src/index.ts'
import { type VirtualClock, virtualClock } from '../../src/testing.ts'

/** A store that answers later, on the same clock, and the operations that it was asked for. */
function laterStore(clock: VirtualClock): { store: AsyncStore; asked: Operation[] } {
  const inner = memoryStore({ clock })
  const asked: Operation[] = []
  const store: AsyncStore = {
    ...inner,
    sync: false,
    answersAlways: false,
    run(operation, reply) {
      asked.push(operation)
      inner.run(operation, reply)
      return undefined
    },
    close: async () => inner.close(),
  }
  return { store, asked }
}

let names = 0

function world(limits: Limit | Limit[], options: LeaseStoreOptions = {}) {
  const clock = virtualClock()
  const { store: inner, asked } = laterStore(clock)
  const store = lease(inner, options)
  const name = `lease ${names++}`
  const limiter = createLimiter<string>({ name, keyer: (key) => key, limits, store })
  const exact = createLimiter<string>({ name, keyer: (key) => key, limits, store: inner, shared: true })
  const consumed = (): number => asked.filter(({ kind }) => kind === 'consume').length
  const adjusted = (): Operation[] => asked.filter(({ kind }) => kind === 'adjust')
  return { clock, inner, asked, store, limiter, exact, consumed, adjusted, name }
}

describe('lease', () => {
  it('asks the store for few of many decisions of a hot key', async () => {
    const { limiter, consumed, clock } = world(perSecond(10_000))
    for (let i = 0; i < 1000; i++) {
      expect((await limiter.consume('hot')).allowed).toBe(true)
      clock.advance(1)
    }
    expect(consumed()).toBeLessThan(60)
  })
  it('gives back what is unused, so that another process has it', async () => {
    const { limiter, exact, clock } = world(fixedWindow({ quota: 1000, window: '1h' }))
    for (let i = 0; i < 100; i++) await limiter.consume('k')
    clock.advance(300)
    expect((await exact.peek('k', { cost: 0 })).limits[0]).toMatchObject({ remaining: 900 })
  })
})
