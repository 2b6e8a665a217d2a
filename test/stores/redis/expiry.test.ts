import { describe, expect, it } from 'vitest'
import { createLimiter, fixedWindow, gcra, type Limit, type Limiter, slidingWindowLog } from '../../../src/index.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { type VirtualClock, virtualClock } from '../../../src/testing.ts'
import { connect, limiterOn, server, until } from '../../support/redis-tests.ts'

const YEAR = 31_536_000_000

describe('no key is left without an expiry', () => {
  const cases: readonly (readonly [string, Limit[], (limiter: Limiter<string>, clock: VirtualClock) => unknown])[] = [
    ['in a window of a millisecond', [gcra({ quota: 1, window: 1 })], (limiter) => limiter.consume('k')],
    ['in a window of a year', [fixedWindow({ quota: 9, window: YEAR })], (limiter) => limiter.consume('k')],
    [
      'for as long as the longest of several limits',
      [
        gcra({ quota: 9, window: 1 }),
        fixedWindow({ quota: 9, window: YEAR }),
        gcra({ quota: 9, window: '1s', name: 's' }),
      ],
      (limiter) => limiter.consume('k'),
    ],
    [
      'after a refund',
      [gcra({ quota: 9, window: '1m' }), slidingWindowLog({ quota: 9, window: '1m', name: 'l' })],
      async (limiter) => limiter.refund(await limiter.consume('k')),
    ],
    [
      'after a debt',
      [gcra({ quota: 9, window: '1m' })],
      async (limiter) => limiter.settle(await limiter.consume('k'), 1e6),
    ],
    [
      'after a debt on a key that was free',
      [gcra({ quota: 9, window: '1m' })],
      async (limiter, clock) => {
        const decision = await limiter.consume('k')
        clock.advance(YEAR)
        await limiter.reset('k')
        await limiter.settle(decision, 5)
      },
    ],
    ['after a lock', [gcra({ quota: 1, window: '1m', block: '1h' })], (limiter) => limiter.consume('k', { cost: 2 })],
    [
      'in a log that shrinks',
      [slidingWindowLog({ quota: 500, window: 1000 })],
      async (limiter, clock) => {
        for (let i = 0; i < 200; i++) {
          clock.advance(3)
          await limiter.consume('k')
        }
        clock.advance(950)
        await limiter.consume('k')
      },
    ],
  ]
  it.each(cases)('%s', async (_, limits, act) => {
    const { port } = await server()
    const client = connect(port)
    const clock = virtualClock()
    const limiter = limiterOn(client, limits, { clock })
    await act(limiter, clock)
    const keys = await client.keys('*')
    expect(keys).toEqual(['sluice:test:k'])
    const { resetAfter } = await limiter.peek('k', { cost: 0 })
    expect(await client.pttl(keys[0]!)).toBeGreaterThan(resetAfter)
  })

  it('and it goes when it is not needed any more, at the time of the server', async () => {
    const { port } = await server()
    const client = connect(port)
    await limiterOn(client, gcra({ quota: 5, window: 50 })).consume('k')
    await until(async () => (await client.dbsize()) === 0)
  })

  it('a log that has shrunk keeps no block it does not need', async () => {
    const { port } = await server()
    const client = connect(port)
    const clock = virtualClock()
    const limiter = limiterOn(client, slidingWindowLog({ quota: 500, window: 1000, name: 'l' }), { clock })
    for (let i = 0; i < 300; i++) {
      clock.advance(3)
      await limiter.consume('k')
    }
    expect(await client.hlen('sluice:test:k')).toBeGreaterThan(4)
    clock.advance(5000)
    await limiter.consume('k')
    // The names, the states and the log.
    expect(await client.hlen('sluice:test:k')).toBe(3)
  })

  it('and a large one is forgotten and carried over whole', { timeout: 60_000 }, async () => {
    const { port } = await server()
    const client = connect(port)
    const clock = virtualClock()
    const store = redisStore(client, { clock })
    let limit = slidingWindowLog({ quota: 100_000, window: '1h', name: 'l' })
    const limiter = createLimiter<string>({ name: 'large', keyer: (key) => key, limits: () => limit, store })
    for (let i = 0; i < 95_000 / 250; i++) {
      const asked: unknown[] = []
      for (let j = 0; j < 250; j++) {
        clock.advance(0.001)
        asked.push(limiter.consume('k'))
      }
      await Promise.all(asked)
      clock.advance(0.001)
    }
    limit = slidingWindowLog({ quota: 90_000, window: '2h', name: 'l' })
    expect((await limiter.consume('k')).allowed).toBe(false)
    clock.advance(YEAR)
    expect((await limiter.consume('k')).remaining).toBe(89_999)
    expect(await client.hlen('sluice:large:k')).toBe(3)
  })
})
