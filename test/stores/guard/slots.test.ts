// Renewals of slots: they are spread, and judge no store.
import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, describe, expect, it } from 'vitest'
import { concurrent, createLimiter, type Decision, guard, memoryStore, type StoreChange } from '../../../src/index.ts'
import { dropSlots, holdSlots } from '../../../src/limiter/slots.ts'
import { laterStore } from '../../support/later.ts'

const held: Decision[] = []
afterEach(() => {
  for (const decision of held.splice(0)) dropSlots(decision)
})

describe('slots that are taken at once', () => {
  it('are renewed in batches over a sixth of their lease, at least', { timeout: 30_000 }, async () => {
    const limits = concurrent({ quota: 5000, expiresAfter: '3s' })
    const limiter = createLimiter<string>({ keyer: () => 'all', limits, store: memoryStore() })
    const batches: number[] = []
    let last = -1
    for (let i = 0; i < 2000; i++) {
      const decision = limiter.consume('k')
      held.push(decision)
      holdSlots(decision, () => {
        const now = performance.now()
        if (now - last > 5) batches.push(0)
        last = now
        batches[batches.length - 1]!++
        return true
      })
    }
    await pause(1100)
    expect(batches.length).toBeGreaterThan(5)
    expect(Math.max(...batches)).toBeLessThanOrEqual(2 * 125)
    expect(batches.reduce((sum, count) => sum + count, 0)).toBeGreaterThan(1000)
  })
})

describe('a renewal that is not answered', () => {
  it('is no failure of the store', async () => {
    const inner = laterStore(memoryStore())
    const changes: StoreChange[] = []
    const store = guard(
      { ...inner, run: (operation, reply) => (operation.kind === 'renew' ? undefined : inner.run(operation, reply)) },
      { deadline: '20ms', onChange: (change) => void changes.push(change) },
    )
    const limiter = createLimiter<string>({
      keyer: (key) => key,
      limits: concurrent({ quota: 9, expiresAfter: '1m' }),
      store,
    })
    const decision = await limiter.consume('k')
    for (let i = 0; i < 5; i++) await limiter.renew(decision)
    expect(changes).toEqual([])
    expect((await limiter.consume('k')).degraded).toBeUndefined()
    await store.close()
  })
})
