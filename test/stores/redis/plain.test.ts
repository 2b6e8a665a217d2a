import { describe, expect, it } from 'vitest'
import { type Clock, gcra, type Limiter, type Limits } from '../../../src/index.ts'
import { defineAlgorithm } from '../../../src/extend.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { virtualClock } from '../../../src/testing.ts'
import { keyed, left } from '../../support/limiters.ts'
import { redisForAll } from '../../support/redis-tests.ts'

/** As many cells as a state may have, and what is used in the last. */
const wide = defineAlgorithm({
  name: 'wide',
  options: [],
  parameters: ['quota', 'window'],
  cells: [{ name: 'a' }, { name: 'b' }],
  initialState: [0, 0, 0, 0, 0, 0, 0, 0],
  deriveParameters: ({ quota, window }) => ({ quota, window }),
  maxValue: ({ quota }) => quota,
  step: (p, s, at, now, cost, out) => {
    const used = s[at + 7]!
    out.allowed = used + cost <= p.quota
    out.at = now
    out.retry = out.allowed ? 0 : p.window
    out.remaining = p.quota - used - (out.allowed ? cost : 0)
    out.reset = p.window
    out.delay = 0
    out.charged = cost
    out.persist = false
    out.next.fill(0)
    out.next[7] = used + cost
  },
  adjust: (_p, _s, _at, _now, _then, _units, out) => {
    out.persist = false
  },
  convert: (_p, _from, s, at, _now, out) => out.next.set(s.subarray(at, at + 8)),
  lua: `
    local function step(params, cells, offset, now, cost)
      local used = cells[offset + 8]
      local allowed = used + cost <= params.quota
      local remaining = params.quota - used - (allowed and cost or 0)
      return allowed, now, allowed and 0 or params.window, remaining, params.window, 0, cost, false,
        0, 0, 0, 0, 0, 0, 0, used + cost
    end
    return {
      step = step,
      adjust = function() return false end,
      convert = function(params, from, cells, offset) return unpack(cells, offset + 1, offset + 8) end,
    }`,
})

describe('what Redis decides in the shortest way', () => {
  const redis = redisForAll()

  const clock = virtualClock()
  const limiterOf = (name: string, limits: Limits<string>, options: { clock?: Clock } = { clock }): Limiter<string> =>
    keyed(redisStore(redis.client, options), limits, name)

  it('decides all simultaneous requests, also one whose limit has changed', async () => {
    let limit = gcra({ name: 'one', quota: 5, window: '1d' })
    const limiter = limiterOf('changed', () => limit)
    await limiter.consume('b', { cost: 2 })
    limit = gcra({ name: 'one', quota: 9, window: '1d' })
    const decisions = await Promise.all(['a', 'b', 'c'].map((key) => limiter.consume(key)))
    expect(decisions.map(({ remaining }) => remaining)).toEqual([8, 6, 8])
  })

  it('decides by states of any width', async () => {
    const limits = ['left', 'right'].map((name) => wide({ name, quota: 8, window: '1d' }))
    for (const [name, some] of Object.entries({ alone: limits.slice(1), together: limits })) {
      const limiter = limiterOf(name, some)
      for (let i = 0; i < 8; i++) expect((await limiter.consume('k')).allowed).toBe(true)
      expect((await limiter.consume('k')).allowed).toBe(false)
      expect(await left(limiter)).toEqual(some.map(() => 0))
    }
  })

  it('looks at an expiry seldom, also when windows are short', async () => {
    const limiter = limiterOf('seldom', gcra({ quota: 10, window: '1s' }), {})
    await redis.client.config('RESETSTAT')
    for (let i = 0; i < 300; i++) await limiter.consume('k')
    const stats = await redis.client.info('commandstats')
    expect(Number(/cmdstat_pexpire:calls=(\d+)/.exec(stats)![1])).toBeLessThan(10)
  })
})
