// A reset deletes what a key has used, also a reset by another process. Nothing of it is refunded later.
import { describe, expect, it } from 'vitest'
import { type Decision, gcra, type Limiter, slidingWindowLog } from '../../../src/index.ts'
import { heldOf } from '../../../src/stores/held.ts'
import { fetchStored } from '../../../src/stores/redis/stored.ts'
import { resetKey } from '../../../src/cli/sources.ts'
import { scriptClient } from '../../../src/stores/redis/clients.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { guardedOn } from '../../support/guarded.ts'
import { keyed } from '../../support/limiters.ts'
import { connect, limiterOn, redisForAll, server, until } from '../../support/redis-tests.ts'

const five = gcra({ name: 'five', quota: 5, window: '1h' })
const redis = redisForAll()

async function spend(limiter: Limiter<string>, count: number): Promise<Decision[]> {
  const decisions: Decision[] = []
  for (let i = 0; i < count; i++) decisions.push(await limiter.consume('k'))
  expect(decisions.every(({ allowed }) => allowed)).toBe(true)
  return decisions
}

/** Charges a key, resets it, charges it again, and refunds the first charges. The next request is denied. */
async function expectNoRefund(limiter: Limiter<string>, reset: () => Promise<unknown>): Promise<void> {
  const before = await spend(limiter, 5)
  await reset()
  await spend(limiter, 5)
  for (const decision of before) await limiter.refund(decision)
  expect((await limiter.consume('k')).allowed).toBe(false)
}

describe('nothing is refunded that was charged before a reset', () => {
  it('by a process that knows none of the algorithms', async () => {
    const limiter = keyed(redisStore(redis.client), five, 'unknown')
    await expectNoRefund(limiter, () => resetKey(scriptClient(redis.client, undefined), 'sluice:unknown:k'))
  })

  it('on a server that is full', async () => {
    const { port } = await server('--maxmemory-policy', 'noeviction')
    const client = connect(port)
    const limiter = keyed(redisStore(client), five, 'full')
    await expectNoRefund(limiter, async () => {
      await client.config('SET', 'maxmemory', '1')
      await limiter.reset('k')
      await client.config('SET', 'maxmemory', '0')
    })
  })
})

describe('after a reset', () => {
  it('a key has no state, and Redis deletes it when the state before would have expired', async () => {
    const limits = [250, 500].map((window) => slidingWindowLog({ quota: 5000, window }))
    const limiter = limiterOn(redis.client, limits)
    for (let i = 0; i < 300; i++) await limiter.consume('log')
    await limiter.reset('log')
    const name = 'sluice:test:log'
    expect((await redis.client.hkeys(name)).toSorted()).toEqual(['names', 'states'])
    const ttl = await redis.client.pttl(name)
    expect(ttl).toBeGreaterThan(0)
    expect(ttl).toBeLessThanOrEqual(2500)
    const stored = await fetchStored(scriptClient(redis.client, undefined), name)
    expect(heldOf(name, stored)).toEqual({ key: name, ttl: undefined, limits: [] })
    await until(async () => (await redis.client.exists(name)) === 0)
  })

  it('a key of which nothing counts any longer is deleted at once', async () => {
    const limiter = limiterOn(redis.client, gcra({ quota: 1, window: '1h', name: 'free' }))
    await limiter.refund(await limiter.consume('free'))
    await limiter.block('free', '1h')
    await limiter.reset('free')
    expect(await redis.client.exists('sluice:test:free')).toBe(0)
  })

  it('a key that could not be read is new', async () => {
    const limiter = limiterOn(redis.client, five)
    await redis.client.set('sluice:test:text', 'a string')
    await limiter.consume('damaged')
    await redis.client.hset('sluice:test:damaged', 'states', 'damaged')
    for (const [key, code] of [
      ['text', 'STORE_REJECTED'],
      ['damaged', 'DAMAGED_ROW'],
    ] as const) {
      await expect(Promise.resolve(limiter.consume(key))).rejects.toMatchObject({ code })
      await limiter.reset(key)
      expect(await limiter.consume(key)).toMatchObject({ allowed: true, remaining: 4 })
    }
  })
})

describe('a key that is damaged', () => {
  const log = slidingWindowLog({ name: 'five', quota: 20, window: '1h' })

  it.each([
    ['in its states', 'states', five, five],
    ['in a log', 'log:five', log, log],
    ['in its header, under a limit that has changed', 'names', five, gcra({ name: 'five', quota: 6, window: '1h' })],
  ])('%s fails alone, and a guard decides about it', async (_, field, before, after) => {
    const name = `cut-${field.replace(':', '-')}`
    const store = redisStore(redis.client)
    const [earlier, limiter] = [keyed(store, before, name), keyed(store, after, name)]
    for (let i = 0; i < 4; i++) await earlier.consume('k')
    const place = `sluice:${name}:k`
    const value = (await redis.client.hgetBuffer(place, field))!
    await redis.client.hset(place, field, value.subarray(0, 10))
    const results = await Promise.allSettled(['k', 'other'].map((key) => limiter.consume(key)))
    expect(results).toMatchObject([
      { reason: { code: 'DAMAGED_ROW', message: expect.stringContaining('`reset` deletes it') } },
      { value: { allowed: true } },
    ])
    const guarded = guardedOn(store, {}, after).guarded
    expect(await keyed(guarded, after, name).consume('k')).toMatchObject({ allowed: true, degraded: 'local' })
    await limiter.reset('k')
    expect((await limiter.consume('k')).degraded).toBeUndefined()
  })
})
