import { describe, expect, it } from 'vitest'
import { createLimiter, type Decision, type Degraded, guard, type GuardOptions } from '../../src/index.ts'
import { createRules, type PolicyRule } from '../../src/rules/index.ts'
import { redisStore } from '../../src/stores/redis/index.ts'
import { connect, server } from '../support/redis-tests.ts'

function policy(name: string, quota: number, onOutage?: Degraded): PolicyRule {
  const limits = [{ algorithm: 'fixedWindow', quota, window: '1h' }]
  return { name, key: 'attribute:tenant', limits, ...(onOutage && { onOutage }) }
}

/** Returns a function that asks policies of which the Redis has stopped. */
async function stopped(
  policies: readonly PolicyRule[],
  options: GuardOptions = {},
): Promise<{ ask(): Promise<Decision>; replace(policies: readonly PolicyRule[]): void }> {
  const redis = await server()
  const rules = createRules({ policies })
  const store = guard(redisStore(connect(redis.port)), { deadline: 300, onChange: () => undefined, ...options })
  const limiter = createLimiter({ rules, store })
  const ask = (): Promise<Decision> => limiter.consume({ attributes: { tenant: 'a' } })
  await ask()
  await redis.stop()
  return { ask, replace: (policies) => void rules.replace({ policies }) }
}

describe('while the store does not answer', { timeout: 30_000 }, () => {
  it('a request is decided as its policy says', async () => {
    for (const [way, allowed] of [
      ['local', [true, false]],
      ['open', [true, true]],
      ['closed', [false, false]],
    ] as const) {
      const { ask } = await stopped([policy('p', 1, way)], { onOutage: way === 'open' ? 'closed' : 'open' })
      const decisions = [await ask(), await ask()]
      expect(decisions.map(({ allowed, degraded }) => [allowed, degraded])).toEqual(allowed.map((each) => [each, way]))
    }
  })

  it('a request without one is decided as the guard says', async () => {
    const { ask } = await stopped([policy('p', 1)], { onOutage: 'closed' })
    expect(await ask()).toMatchObject({ allowed: false, degraded: 'closed' })
  })

  it('one closed policy of several denies; local ones count next to open ones', async () => {
    const { ask, replace } = await stopped([policy('local', 1, 'local'), policy('open', 1, 'open')])
    expect(await ask()).toMatchObject({ allowed: true, degraded: 'local' })
    expect(await ask()).toMatchObject({ allowed: false, degraded: 'local', binding: { limit: { name: 'local' } } })
    replace([policy('local', 9, 'local'), policy('login', 9, 'closed')])
    expect(await ask()).toMatchObject({ allowed: false, degraded: 'closed', binding: { limit: { name: 'login' } } })
    replace([policy('local', 9, 'local'), { ...policy('login', 9, 'closed'), shadow: true }])
    expect((await ask()).limits.map(({ allowed, remaining }) => [allowed, remaining])).toEqual([
      [true, 7],
      [true, Infinity],
    ])
  })
})
