// Requests that overlap. Each waits on its way to the store, and on its way back, until the test lets it continue.
import { describe, expect, it } from 'vitest'
import {
  createLimiter,
  type Decision,
  denyCache,
  gcra,
  type Limit,
  memoryStore,
  stack,
  type Store,
} from '../../../src/index.ts'
import { virtualClock } from '../../../src/testing.ts'
import { type HeldRequest, heldStore, settled } from '../../support/held-store.ts'
import { methodsOf } from '../../support/method-store.ts'

const two = gcra({ name: 'changing', quota: 2, window: '1h' })
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

/** A key whose quota is used up, and the decision that did it. */
async function full() {
  const made = world()
  const charging = await made.send(ten, () => made.limiter.consume('a', { cost: 10 }))
  await goOn(charging)
  return { ...made, decision: (await charging.done) as Decision }
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

describe('a reply is not kept', () => {
  it.each(['refund', 'reset'] as const)('when it was decided before a change that is over: %s', async (kind) => {
    const { limiter, send, decision, isAnswered } = await full()
    const asking = await send(ten)
    await asking.apply()
    await goOn(await send(ten, () => (kind === 'refund' ? limiter.refund(decision) : limiter.reset('a'))))
    await asking.reply()
    expect(await isAnswered()).toBe(false)
  })

  it.each(['refund', 'reset'] as const)('while a change is under way: %s', async (kind) => {
    const { limiter, send, decision, isAnswered } = await full()
    const changing = await send(ten, () => (kind === 'refund' ? limiter.refund(decision) : limiter.reset('a')))
    await goOn(await send(ten))
    await changing.apply()
    expect(await isAnswered()).toBe(false)
    await changing.reply()
    expect(await isAnswered()).toBe(false)
  })

  it('while the second of two changes is under way', async () => {
    const { limiter, send, decision, isAnswered } = await full()
    const first = await send(ten, () => limiter.reset('a'))
    const second = await send(ten, () => limiter.refund(decision))
    await goOn(second)
    await goOn(await send(ten, () => limiter.consume('a', { cost: 10 })))
    await goOn(await send(ten))
    await first.apply()
    expect(await isAnswered()).toBe(false)
  })

  it('after a change that failed, which may have happened', async () => {
    const { limiter, send, decision, isAnswered } = await full()
    const asking = await send(ten)
    await asking.apply()
    const changing = await send(ten, () => Promise.resolve(limiter.settle(decision, 2)))
    await goOn(changing)
    await asking.reply()
    expect(await isAnswered()).toBe(false)
    await goOn(await send(ten))
    expect(await isAnswered()).toBe(false)
  })
})

describe('a limit that changes while requests are under way', () => {
  it('ends denials that were decided before the request for another version', async () => {
    const { send, elsewhere, isAnswered } = world()
    await elsewhere(ten, 10)
    const [old, changed] = [await send(ten), await send(two)]
    await goOn(old)
    expect(await isAnswered()).toBe(false)
    await goOn(changed)
    expect(await isAnswered()).toBe(false)
  })

  it('ends denials that come after the reply to it', async () => {
    const { send, elsewhere, isAnswered } = world()
    await elsewhere(ten, 10)
    const [old, changed] = [await send(ten), await send(two)]
    await old.apply()
    await goOn(changed)
    await old.reply()
    expect(await isAnswered()).toBe(false)
  })

  it.each(['before', 'after'] as const)(
    'ends denials of the new version %s the reply to the old one within maxAge',
    async (order) => {
      const { clock, send, elsewhere, isAnswered } = world('1s')
      await elsewhere(ten, 10)
      // The first version that is seen is `two`, and the request for it is decided last.
      const [old, changed] = [await send(two), await send(ten)]
      await changed.apply()
      await old.apply()
      if (order === 'before') await goOn(changed, old)
      else await goOn(old, changed)
      clock.advance(999)
      expect(await isAnswered()).toBe(true)
      clock.advance(1)
      expect(await isAnswered()).toBe(false)
    },
  )

  it('keeps denials again once no request for the other version is under way', async () => {
    const { send, elsewhere, isAnswered } = world()
    await elsewhere(ten, 10)
    await goOn(await send(two), await send(ten))
    await elsewhere(ten, 7)
    await goOn(await send(ten))
    await goOn(await send(ten))
    expect(await isAnswered()).toBe(true)
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
    methodsOf(memory).forget('user', 'a')
    await goOn(both)
    await alone.reply()
    void user.consume('a')
    expect(held.requests).toHaveLength(4)
  })
})
