import { channel as channelOf } from 'node:diagnostics_channel'
import { describe, expect, it } from 'vitest'
import {
  createLimiter,
  type DecisionEvent,
  fixedWindow,
  guard,
  memoryStore,
  perSecond,
  stack,
  type StoreEvent,
} from '../../src/index.ts'
import { createRules, type RulesEvent } from '../../src/rules/index.ts'
import { virtualClock } from '../../src/testing.ts'
import { laterStore } from '../support/later.ts'
import { messagesOf } from '../support/messages.ts'

const keyer = (key: string): string => key

describe('the channel sluice:decision', () => {
  it('has each decision of consume with its limiter and its input, and none of peek', () => {
    const received = messagesOf<DecisionEvent<string>>('sluice:decision')
    const limiter = createLimiter({ name: 'api', keyer, limits: fixedWindow({ quota: 1, window: '1m' }) })
    limiter.peek('ann')
    const decided = [limiter.consume('ann'), limiter.consume('ann')]
    const common = { limiter: 'api', input: 'ann', duration: 0, waited: 0 }
    expect(received).toEqual([
      { ...common, decision: decided[0] },
      { ...common, decision: decided[1] },
    ])
    expect(received[0]?.decision).toBe(decided[0])
    expect(received.map(({ decision }) => decision.allowed)).toEqual([true, false])
  })

  it('names a stack by its parts, and a limiter without a name default', () => {
    const received = messagesOf<DecisionEvent>('sluice:decision')
    const store = memoryStore()
    const limits = perSecond(5)
    stack(...['user', 'route'].map((name) => createLimiter({ name, keyer, limits, store }))).consume('ann')
    createLimiter({ keyer, limits }).consume('ann')
    expect(received.map(({ limiter }) => limiter)).toEqual(['user+route', 'default'])
  })

  it('measures a store that answers later', async () => {
    const received = messagesOf<DecisionEvent>('sluice:decision')
    const store = laterStore(memoryStore())
    await createLimiter({ name: 'later', keyer, limits: perSecond(5), store }).consume('ann')
    expect(received).toHaveLength(1)
    expect(received[0]?.duration).toBeGreaterThan(0)
  })

  it('has the last decision of a wait, and the denial of a wait that is refused', async () => {
    const received = messagesOf<DecisionEvent>('sluice:decision')
    const clock = virtualClock()
    const limiter = createLimiter({ name: 'w', keyer, limits: perSecond(1), store: memoryStore({ clock }) })
    await limiter.wait('ann')
    const waiting = limiter.wait('ann')
    clock.advance(1000)
    await waiting
    await expect(limiter.wait('ann', { maxWait: 10 })).rejects.toThrow()
    expect(received.map(({ decision }) => decision.allowed)).toEqual([true, true, false])
  })

  it('makes no message without a subscriber', () => {
    const limiter = createLimiter({ keyer, limits: perSecond(5) })
    const channel = channelOf('sluice:decision')
    expect(channel.hasSubscribers).toBe(false)
    expect(limiter.consume('ann').allowed).toBe(true)
  })
})

describe('the channel sluice:store', () => {
  it('has each change of a guarded store', async () => {
    const received = messagesOf<StoreEvent>('sluice:store')
    let isDown = true
    const inner = laterStore(memoryStore(), () => (isDown ? Promise.reject(new Error('down')) : Promise.resolve()))
    const limiter = createLimiter({ keyer, limits: perSecond(5), store: guard(inner) })
    for (let i = 0; i < 3; i++) await limiter.consume('ann')
    const reason = expect.stringContaining('down') as string
    expect(received).toEqual([{ store: inner, state: 'away', reason, name: 'A store of rate limits' }])
    isDown = false
    await expect.poll(() => received.length, { timeout: 5000 }).toBe(2)
    expect(received[1]).toMatchObject({ store: inner, state: 'healthy' })
  })

  it('has the end of an outage once for a guard that is closed twice', async () => {
    const received = messagesOf<StoreEvent>('sluice:store')
    const store = guard(laterStore(memoryStore(), () => Promise.reject(new Error('down'))))
    const limiter = createLimiter({ keyer, limits: perSecond(5), store })
    for (let i = 0; i < 3; i++) await limiter.consume('ann')
    await store.close()
    await store.close()
    expect(received.map(({ state }) => state)).toEqual(['away', 'healthy'])
  })
})

describe('the channel sluice:rules', () => {
  it('has the events of rules', () => {
    const received = messagesOf<RulesEvent>('sluice:rules')
    const document = (quota: number): object => ({
      policies: [{ name: 'api', key: 'everyone', limits: [{ quota, window: '1m' }] }],
    })
    const rules = createRules(document(1) as never)
    const before = rules.current
    rules.replace(document(2) as never)
    expect(received).toEqual([{ event: 'change', rules, before, after: rules.current }])
  })
})
