import { describe, expect, it } from 'vitest'
import {
  concurrent,
  createLimiter,
  fixedWindow,
  gcra,
  guard,
  lease,
  type Limit,
  limit,
  memoryStore,
  perMinute,
  slidingWindowLog,
  type ThresholdEvent,
} from '../../src/index.ts'
import { createRules, rulesSchema } from '../../src/rules/index.ts'
import { virtualClock } from '../../src/testing.ts'
import { faultyStore } from '../support/faulty-store.ts'
import { laterStore } from '../support/later.ts'
import { messagesOf } from '../support/messages.ts'

const events = (): ThresholdEvent[] => messagesOf('sluice:threshold')
const keyer = (key: string): string => key
const DAY = 86_400_000

function limiterOf(limits: Limit, start = 0) {
  const clock = virtualClock(start)
  return { clock, limiter: createLimiter({ name: 'api', keyer, limits, store: memoryStore({ clock }) }) }
}

/** Returns what the events say: key, part, and units. */
const crossed = (received: readonly ThresholdEvent[]): string[] =>
  received.map(({ key, threshold, used }) => `${key} ${threshold} ${used}`)

const monthly = fixedWindow({ quota: 10, window: '1mo', anchor: 'calendar', notifyAt: [0.8] })

describe('notifyAt', () => {
  it('is sorted, without repetitions, and frozen', () => {
    const { notifyAt } = perMinute(10, { notifyAt: [1, 0.5, 1] })
    expect(notifyAt).toEqual([0.5, 1])
    expect(Object.isFrozen(notifyAt)).toBe(true)
    expect(limit({ algorithm: 'gcra', quota: 1, window: '1m', notifyAt: [] }).notifyAt).toEqual([])
  })

  it.each([
    [0.8, 'notifyAt: expected a list of at most 10 numbers'],
    ['0.8', 'notifyAt: expected a list'],
    [[0], 'notifyAt[0]: expected a number above 0 and at most 1'],
    [[0.5, 1.01], 'notifyAt[1]: expected a number above 0 and at most 1, such as 0.8, got 1.01'],
    [[Number.NaN], 'notifyAt[0]'],
    [new Array<number>(2), 'notifyAt[0]'],
    [['1'], 'notifyAt[0]'],
    [[0.5, undefined], 'notifyAt[1]'],
    [Array.from({ length: 11 }, (_, i) => (i + 1) / 11), 'notifyAt: expected a list of at most 10'],
  ])('refuses %j', (notifyAt, message) => {
    expect(() => perMinute(10, { notifyAt: notifyAt as number[] })).toThrow(message)
  })
})

describe('the channel sluice:threshold', () => {
  it('has one event for each part that a decision crosses', () => {
    const received = events()
    const limit = slidingWindowLog({ quota: 100, window: '1m', name: 'tokens', notifyAt: [1, 0.8, 0.07] })
    const { limiter } = limiterOf(limit)
    limiter.peek('ann', { cost: 90 })
    limiter.consume('ann', { cost: 6 })
    expect(received).toEqual([])
    limiter.consume('ann')
    expect(crossed(received)).toEqual(['ann 0.07 7'])
    limiter.consume('ann', { cost: 93 })
    const whole = { limiter: 'api', limit, key: 'ann', used: 100, capacity: 100 }
    const [first, second] = received.slice(1)
    expect(first).toEqual({ ...whole, threshold: 0.8 })
    expect(second).toEqual({ ...whole, threshold: 1 })
    limiter.consume('ann')
    expect(received).toHaveLength(3)
    limiter.consume('ben', { cost: 80 })
    expect(crossed(received).slice(3)).toEqual(['ben 0.07 80', 'ben 0.8 80'])
  })

  it('has at most one event for a part in each window, and the next one in the next window', () => {
    const received = events()
    const { clock, limiter } = limiterOf(gcra({ quota: 10, window: '10s', notifyAt: [0.5] }))
    for (let ms = 0; ms < 30_000; ms += 500) {
      limiter.consume('ann')
      clock.advance(500)
    }
    expect(received).toHaveLength(3)
  })

  it('follows the windows of the clock and of the calendar', () => {
    const received = events()
    const hourly = limiterOf(fixedWindow({ quota: 10, window: '1h', anchor: 'clock', notifyAt: [0.8] }), 50 * 60_000)
    hourly.limiter.consume('ann', { cost: 8 })
    hourly.clock.advance(15 * 60_000)
    hourly.limiter.consume('ann', { cost: 8 })
    expect(received).toHaveLength(2)
    const { clock, limiter } = limiterOf(monthly, 25 * DAY)
    for (let i = 0; i < 2; i++) {
      limiter.consume('ann', { cost: 8 })
      limiter.reset('ann')
      limiter.consume('ann', { cost: 8 })
      clock.advance(10 * DAY)
    }
    expect(received).toHaveLength(4)
  })

  it('begins again in the next month, also after a debt', () => {
    const received = events()
    const { clock, limiter } = limiterOf(monthly, 25 * DAY)
    limiter.settle(limiter.consume('ann'), 15)
    clock.advance(10 * DAY)
    expect(limiter.consume('ann', { cost: 8 }).limits[0]).toMatchObject({ allowed: true, used: 8 })
    expect(crossed(received)).toEqual(['ann 0.8 10', 'ann 0.8 8'])
  })

  it('has no event for a decision above a part that was crossed before', () => {
    const { limiter } = limiterOf(perMinute(100, { notifyAt: [0.5] }))
    limiter.consume('ann', { cost: 60 })
    const received = events()
    limiter.settle(limiter.consume('ann'), 5)
    expect(received).toEqual([])
  })

  it('has what a settlement and a penalty cross, also as a debt', () => {
    const received = events()
    const { limiter } = limiterOf(perMinute(100, { notifyAt: [0.5, 0.8, 1] }))
    limiter.settle(limiter.consume('ann', { cost: 40 }), 85)
    limiter.settle(limiter.consume('ann'), 500)
    limiter.penalize('ben', 60)
    limiter.settle(limiter.consume('cem', { cost: 40 }), 10)
    expect(crossed(received)).toEqual(['ann 0.5 85', 'ann 0.8 85', 'ann 1 100', 'ben 0.5 60'])
  })

  it('counts a denial of a key that has used up the capacity as a crossing', () => {
    const received = events()
    const { limiter } = limiterOf(fixedWindow({ quota: 100, window: '1m', block: '1m', notifyAt: [1] }))
    limiter.consume('ann', { cost: 98 })
    expect(limiter.consume('ann', { cost: 5 }).limits[0]).toMatchObject({ allowed: false, used: 100 })
    limiter.consume('ann', { cost: 5 })
    expect(crossed(received)).toEqual(['ann 1 100'])
  })

  it('has no event for a denied peek, a denial below the capacity, and a limit that admits nothing', () => {
    const received = events()
    const { limiter } = limiterOf(fixedWindow({ quota: 100, window: '1m', notifyAt: [0.5, 1] }))
    limiter.consume('ann', { cost: 40 })
    limiter.consume('ann', { cost: 90 })
    limiter.block('ben', '1m')
    expect(limiter.peek('ben').limits[0]).toMatchObject({ allowed: false, used: 100 })
    limiterOf(fixedWindow({ quota: 0, window: '1m', notifyAt: [0.5] })).limiter.consume('ann')
    expect(received).toEqual([])
  })

  it('has the slots of concurrent, also after they were released', () => {
    const received = events()
    const { limiter } = limiterOf(concurrent({ quota: 2, expiresAfter: '1m', notifyAt: [1] }))
    const first = limiter.consume('ann')
    limiter.consume('ann')
    limiter.release(first)
    limiter.consume('ann')
    expect(received.map(({ used, capacity }) => [used, capacity])).toEqual([[2, 2]])
  })

  it('works with wait and with a store that answers later', async () => {
    const received = events()
    const store = laterStore(memoryStore({ clock: virtualClock() }))
    const limiter = createLimiter({ name: 'api', keyer, limits: perMinute(10, { notifyAt: [0.5, 0.9] }), store })
    const decision = await limiter.wait('ann', { cost: 5 })
    expect(received).toHaveLength(1)
    await limiter.settle(decision, 9)
    expect(received).toHaveLength(2)
  })

  it('has what a request of the store crosses while this process holds units', async () => {
    const received = events()
    const clock = virtualClock()
    const store = lease(laterStore(memoryStore({ clock })))
    const limits = fixedWindow({ name: 'month', quota: 1000, window: '30d', notifyAt: [0.5] })
    const limiter = createLimiter<string>({ name: 'leased', keyer, limits, store })
    for (let i = 0; i < 471; i++) await limiter.consume('ann')
    for (let i = 0; i < 6; i++) {
      await limiter.consume('ann', { cost: 60 })
      clock.advance(300)
    }
    expect((await limiter.peek('ann', { cost: 0 })).limits[0]!.used).toBe(831)
    expect(crossed(received)).toEqual(['ann 0.5 531'])
  })

  it('never makes a settlement fail', async () => {
    const received = events()
    const store = faultyStore(({ kind }) => (kind === 'peek' ? new Error('away') : undefined))
    const limiter = createLimiter({ keyer, limits: perMinute(10, { notifyAt: [1] }), store })
    await limiter.settle(await limiter.consume('ann'), 20)
    expect(received).toEqual([])
    expect((await limiter.consume('ann')).allowed).toBe(false)
  })

  it('has no event while a process decides without its store', async () => {
    const received = events()
    const dead = laterStore(memoryStore({ clock: virtualClock() }), () => Promise.reject(new Error('away')))
    const store = guard(dead, { onOutage: 'closed' })
    const limiter = createLimiter({ keyer, limits: perMinute(10, { notifyAt: [0.1] }), store })
    expect((await limiter.consume('ann')).degraded).toBe('closed')
    expect(received).toEqual([])
  })

  it('forgets the oldest of more than 10,000 crossings', () => {
    const received = events()
    const { limiter } = limiterOf(fixedWindow({ quota: 1, window: '1d', notifyAt: [1] }))
    for (let i = 0; i <= 10_000; i++) limiter.consume(`key ${i}`)
    expect(received).toHaveLength(10_001)
    limiter.consume('key 10000')
    limiter.consume('key 2')
    expect(received).toHaveLength(10_001)
    limiter.consume('key 0')
    expect(received).toHaveLength(10_002)
  })

  it('counts limiters of one name on two stores separately', () => {
    const received = events()
    for (let i = 0; i < 2; i++) limiterOf(perMinute(1, { notifyAt: [1] })).limiter.consume('ann')
    expect(received).toHaveLength(2)
  })

  it('has the limits of rules, whose documents refuse wrong parts', () => {
    const received = events()
    const limit = { quota: 2, window: '1m', notifyAt: [0.5], capCost: true }
    const policy = { name: 'api', key: 'everyone', limits: [limit] }
    void createLimiter({ rules: createRules({ policies: [policy] }) }).consume({ method: 'GET', path: '/' })
    expect(received).toMatchObject([{ limiter: 'rules/api', limit: { name: 'api' }, threshold: 0.5 }])
    const wrong = { ...policy, limits: [{ ...limit, notifyAt: [0.5, 2], capCost: 1 }] }
    const both = /notifyAt\[1\][^]*capCost|capCost[^]*notifyAt\[1\]/
    expect(() => createRules({ policies: [wrong as never] })).toThrow(both)
    expect(JSON.stringify(rulesSchema())).toContain('"notifyAt"')
  })
})
