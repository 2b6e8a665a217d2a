// Requests that overlap. Each waits on its way to the store, and on its way back, until the test lets it continue.
import { describe, expect, it } from 'vitest'
import { createLimiter, denyCache, gcra, type Limit, memoryStore, stack, type Store } from '../../../src/index.ts'
import { perform } from '../../../src/stores/store.ts'
import { virtualClock } from '../../../src/testing.ts'
import { type HeldRequest, heldStore, settled } from '../../support/held-store.ts'

const ten = gcra({ name: 'changing', quota: 10, window: '1h' })

function world(maxAge: '1h' | '1s' = '1h') {
  const clock = virtualClock()
  const memory = memoryStore({ clock })
  const held = heldStore(memory)
  let limit: Limit = ten
  // One limiter in each of several processes: the functions are the same.
  const definition = { name: 'test', keyer: (key: string) => key, limits: () => limit }
  const limiterOn = (store: Store) => createLimiter<string>({ ...definition, store })
  const limiter = limiterOn(denyCache(held, { maxAge }))
  /** Sends a request and leaves it on its way. */
  const send = async (under: Limit, work: () => unknown = () => limiter.consume('a')) => {
    limit = under
    const done = Promise.resolve(work())
    await settled()
    return { ...held.requests.at(-1)!, done }
  }
  /** Decides at once, as another process. */
  const elsewhere = async (under: Limit, cost: number) => {
    limit = under
    return limiterOn(memory).consume('a', { cost })
  }
  /** Returns true if a request is denied without the store. */
  const isAnswered = async (under: Limit = ten): Promise<boolean> => {
    const before = held.requests.length
    limit = under
    void limiter.consume('a')
    await settled()
    return held.requests.length === before
  }
  return { clock, limiter, send, elsewhere, isAnswered }
}

async function goOn(...requests: readonly HeldRequest[]): Promise<void> {
  for (const request of requests) await request.apply()
  for (const request of requests) await request.reply()
}

describe('a denial is kept', () => {
  it('while the store denies, counted from the time of the request', async () => {
    const { clock, limiter, send, elsewhere, isAnswered } = world()
    await elsewhere(ten, 10)
    const asking = await send(ten)
    clock.advance(100)
    await asking.apply()
    clock.advance(100)
    await asking.reply()
    // An hour for ten: six minutes for one, of which a tenth of a second had passed. A client counts from the reply.
    expect(await limiter.consume('a')).toMatchObject({ allowed: false, retryAfter: 359_900 })
    clock.advance(359_699)
    expect(await isAnswered()).toBe(true)
    clock.advance(1)
    expect(await isAnswered()).toBe(false)
  })

  it('for maxAge, counted from when it was sent', async () => {
    const { clock, send, elsewhere, isAnswered } = world('1s')
    await elsewhere(ten, 10)
    const asking = await send(ten)
    clock.advance(600)
    await goOn(asking)
    clock.advance(399)
    expect(await isAnswered()).toBe(true)
    clock.advance(1)
    expect(await isAnswered()).toBe(false)
  })

  it('not at all when it comes too late', async () => {
    const { clock, send, elsewhere, isAnswered } = world('1s')
    await elsewhere(ten, 10)
    const asking = await send(ten)
    await asking.apply()
    clock.advance(1000)
    await asking.reply()
    expect(await isAnswered()).toBe(false)
  })
})

describe('a store that reserves keys one by one', () => {
  it('ends a denial when it refunds what it reserved', async () => {
    const memory = memoryStore({ clock: virtualClock() })
    const held = heldStore(memory)
    const store = denyCache(held)
    const once = gcra({ name: 'once', quota: 1, window: '1h' })
    const user = createLimiter<string>({ name: 'user', keyer: (key) => key, limits: once, store })
    const all = createLimiter<string>({ name: 'all', keyer: () => 'all', limits: once, store })
    void all.consume('')
    await goOn(held.requests.at(-1)!)
    void stack(user, all).consume('a')
    const both = held.requests.at(-1)!
    void user.consume('a')
    const alone = held.requests.at(-1)!
    // The first request reserves the user, and the second one is denied meanwhile.
    const reserving = createLimiter<string>({ name: 'user', keyer: (key) => key, limits: once, store: memory })
    reserving.consume('a')
    await alone.apply()
    perform(memory, { kind: 'forget', limiter: 'user', key: 'a' })
    await goOn(both)
    await alone.reply()
    void user.consume('a')
    expect(held.requests).toHaveLength(4)
  })
})
