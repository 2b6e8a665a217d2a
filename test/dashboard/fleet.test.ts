// Processes that tell each other what they do, over a store that fails.
import { setTimeout as pause } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { dashboard } from '../../src/dashboard/index.ts'
import type { State } from '../../src/dashboard/state.ts'
import { createLimiter, guard, perMinute } from '../../src/index.ts'
import { redisStore } from '../../src/rules/redis/index.ts'
import { ask, serve } from '../support/http.ts'
import { startRedis } from '../support/redis.ts'
import { afterTest } from '../support/after-test.ts'

describe('a store that does not answer', { timeout: 60_000 }, () => {
  it('delays neither the page nor a request, gets one question at a time, and is said', async () => {
    const redis = await startRedis()
    const client = new Redis(redis.url, { maxRetriesPerRequest: 1, enableOfflineQueue: true })
    client.on('error', () => undefined)
    const store = guard(redisStore(client))
    const board = dashboard({ authorize: () => true, stores: { orders: store } })
    const served = await serve((request, response) => board(request, response))
    afterTest(redis.stop, () => client.disconnect(), store.close, served.close, board.close)
    const limiter = createLimiter({ name: 'api', keyer: (key: string) => key, limits: perMinute(100), store })
    const stateOf = async (): Promise<State> => JSON.parse((await ask(served, '/state')).body) as State

    await limiter.consume('ann')
    expect((await stateOf()).fleet.problem).toBe('')
    redis.process.kill('SIGSTOP')
    // Until the guard has given the store up.
    for (let i = 0; i < 5; i++) await limiter.consume('ann')
    const began = performance.now()
    let problem = ''
    for (let i = 0; i < 40 && problem === ''; i++) {
      const asked = performance.now()
      problem = (await stateOf()).fleet.problem
      expect(performance.now() - asked).toBeLessThan(1500)
      const decided = performance.now()
      expect((await limiter.consume('ann')).degraded).toBe('local')
      expect(performance.now() - decided).toBeLessThan(200)
      await pause(250)
    }
    expect(problem).toMatch(/^no answer for \d+ s$/)
    expect(performance.now() - began).toBeLessThan(10_000)
    // What was sent before the freeze, the probe of the guard, and one of the dashboard.
    const { commandQueue } = client as unknown as { commandQueue: { length: number } }
    expect(commandQueue.length).toBeLessThanOrEqual(8)
    redis.process.kill('SIGCONT')
    await expect.poll(async () => (await stateOf()).fleet.problem, { timeout: 10_000 }).toBe('')
    expect((await stateOf()).processes).toHaveLength(1)
  })
})
