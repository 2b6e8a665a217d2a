import { describe, expect, it } from 'vitest'
import {
  concurrent,
  createLimiter,
  fixedWindow,
  gcra,
  type Limit,
  memoryStore,
  stack,
  type Store,
} from '../../../src/index.ts'
import { type Algorithm, defineAlgorithm } from '../../../src/extend.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { type VirtualClock, virtualClock } from '../../../src/testing.ts'
import { redisForAll } from '../../support/redis-tests.ts'

const slow = gcra({ quota: 10, window: '10s', name: 'changing' })
const fast = gcra({ quota: 10, window: '1s', name: 'changing' })

/** Reports as `remaining` the millisecond of the charge that was last settled. Many units make it count in ticks of a millisecond. */
const chargeTime: Algorithm<'quota'> = {
  name: 'charge time',
  options: [],
  parameters: ['quota'],
  cells: [{ name: 'charged at', ticks: 1 }],
  initialState: [0],
  deriveParameters: ({ quota }) => ({ quota }),
  maxValue: ({ quota, perMs }) => quota * perMs,
  step(params, cells, offset, now, cost, out) {
    const charged = cells[offset]!
    const remaining = Math.floor(charged / params.perMs)
    Object.assign(out, { allowed: true, at: now, retry: 0, remaining, reset: 1000 * params.perMs, delay: 0 })
    Object.assign(out, { charged: cost, persist: false, next: Float64Array.of(charged) })
  },
  adjust(_params, _cells, _offset, _now, chargedAt, _units, out) {
    out.persist = true
    out.next[0] = chargedAt
  },
  convert(_params, _from, cells, offset, _now, out) {
    out.next[0] = cells[offset]!
  },
  lua: `return {
    step = function(params, cells, offset, now, cost)
      return true, now, 0, floor(cells[offset + 1] / params.perMs), 1000 * params.perMs, 0, cost, false, cells[offset + 1]
    end,
    adjust = function(params, cells, offset, now, chargedAt) return true, chargedAt end,
    convert = function(params, from, cells, offset) return cells[offset + 1] end,
  }`,
}

describe('settled later', () => {
  const redis = redisForAll()

  it('slots are free again, although another key of the decision cannot be read any more', async () => {
    const store = redisStore(redis.client)
    const slots = createLimiter({ name: 'slots', keyer: () => 'key', limits: concurrent(1), store })
    const other = createLimiter({ name: 'unreadable', keyer: () => 'key', limits: slow, store })
    const both = stack(other, slots)
    const decision = await both.consume({})
    await redis.client.set('sluice:unreadable:key', 'text')
    await both.release(decision)
    expect((await slots.consume({})).allowed).toBe(true)
    await redis.client.del('sluice:unreadable:key')
  })

  type Kind = 'memory' | 'memory beyond maxKeys' | 'Redis'
  const limiterIn = (kind: Kind, clock: VirtualClock, name?: string, keyer = (): string => 'key') => {
    const memory = { clock, ...(kind === 'memory' ? {} : { maxKeys: 1, onFull: () => undefined }) }
    const store: Store = kind === 'Redis' ? redisStore(redis.client, { clock }) : memoryStore(memory)
    return createLimiter({ ...(name !== undefined && { name }), store, keyer, limits: (limit: Limit) => limit })
  }

  it.each(['memory', 'Redis'] as const)(
    'a charge on what is fresh by then falls under its own limit: %s',
    async (kind) => {
      const clock = virtualClock()
      const limiter = limiterIn(kind, clock)
      const decision = await limiter.consume(slow)
      await limiter.consume(fast)
      clock.advance(900)
      await limiter.settle(decision, 5)
      clock.advance(500)
      // Four units more, of which half a one has drained: ten a second would have left nothing.
      const { limits } = await limiter.peek(slow, { cost: 0 })
      expect(limits[0]!.remaining).toBe(6)
    },
  )
  const there = gcra({ quota: 10, window: '60s', name: 'changing' })
  const back = [
    ['memory', fast],
    ['memory beyond maxKeys', fast],
    ['Redis', fast],
    ['memory', fixedWindow({ quota: 10, window: '1s', name: 'changing' })],
    ['Redis', fixedWindow({ quota: 10, window: '1s', name: 'changing' })],
  ] as const
  it.each(back)('charges are not refunded when their limit was another one in between: %s', async (kind, between) => {
    const clock = virtualClock()
    let key = 'another'
    const limiter = limiterIn(kind, clock, `back ${between.algorithm}`, () => key)
    const others = async (): Promise<void> => {
      key = 'another'
      for (let i = 0; i < 40; i++) await limiter.consume(there)
      key = 'key'
    }
    await others()
    const before = await limiter.consume(there, { cost: 10 })
    await limiter.consume(between)
    clock.advance(2000)
    await limiter.consume(between)
    // The usage of the other limit has expired, and its memory could be freed.
    clock.advance(10_000)
    await others()
    expect((await limiter.consume(there, { cost: 10 })).allowed).toBe(true)
    await limiter.refund(before)
    clock.advance(1)
    expect((await limiter.peek(there)).allowed).toBe(false)
    // What is charged after the change is given back as ever.
    clock.advance(7000)
    const after = await limiter.consume(there)
    await limiter.refund(after)
    expect((await limiter.peek(there)).allowed).toBe(true)
  })
  it.each(['memory', 'memory beyond maxKeys', 'Redis'] as const)(
    'a charge is given back when nothing was left of the limit before it: %s',
    async (kind) => {
      const clock = virtualClock()
      let key = 'another'
      const limiter = limiterIn(kind, clock, 'nothing left', () => key)
      await limiter.consume(there)
      key = 'key'
      const slower = gcra({ quota: 1, window: '120s', name: 'changing' })
      // From the second request on, it is known for two minutes that the limit has changed.
      await limiter.consume(slower)
      await limiter.consume(fast)
      clock.advance(10_000)
      const decision = await limiter.consume(there, { cost: 10 })
      await limiter.refund(decision)
      expect((await limiter.peek(there, { cost: 0 })).limits[0]!.remaining).toBe(10)
    },
  )
  const charged = defineAlgorithm(chargeTime)
  it.each(['memory', 'Redis'] as const)(
    'a charge comes with its time in the ticks of the limit by then: %s',
    async (kind) => {
      const [few, many] = [10, 2 ** 45].map((quota) => charged({ quota, window: '1d', name: 'changing' }))
      for (const [one, other] of [
        [few!, many!],
        [many!, few!],
      ] as const) {
        const clock = virtualClock()
        const limiter = limiterIn(kind, clock, `time ${one.quota}`)
        const [at, decision] = [clock.now(), await limiter.consume(one)]
        clock.advance(100)
        await limiter.consume(other)
        await limiter.settle(decision, 5)
        expect((await limiter.peek(other)).limits[0]!.remaining).toBe(at)
      }
    },
  )
})
