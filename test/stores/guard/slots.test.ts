// Many slots that are held for long, in a process with the default guard: their renewals are spread, and judge no store.
import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { concurrent, createLimiter, type Decision, memoryStore } from '../../../src/index.ts'
import { dropSlots, holdSlots } from '../../../src/limiter/slots.ts'
import { recoveries } from '../../../src/stores/recoveries.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { guardedOn, recordWarnings } from '../../support/guarded.ts'
import type { Place } from '../../../src/stores/store.ts'
import { faultyStore, SILENT } from '../../support/faulty-store.ts'
import { connect, server } from '../../support/redis-tests.ts'

const KEYS = 200
const QUOTA = 25
const LEASE = 6000

const held: Decision[] = []
afterEach(() => {
  for (const decision of held.splice(0)) dropSlots(decision)
})

describe('5,000 streams', () => {
  it('hold their slots on Redis without an outage', { timeout: 60_000 }, async () => {
    const warnings = recordWarnings()
    const limits = concurrent({ quota: QUOTA, expiresAfter: `${LEASE}ms` })
    const { limiter, changes } = guardedOn(redisStore(connect((await server()).port)), {}, limits)
    await limiter.peek('k')
    for (let i = 0; i < QUOTA; i++) {
      const taken = await Promise.all(Array.from({ length: KEYS }, async (_, key) => limiter.consume(String(key))))
      for (const decision of taken) holdSlots(decision, (own) => limiter.renew(own))
      held.push(...taken)
    }
    expect(held.filter(({ allowed, degraded }) => !allowed || degraded !== undefined)).toEqual([])
    // Longer than a lease: slots that were not renewed are free then.
    const began = performance.now()
    const admitted: string[] = []
    for (let i = 0; performance.now() - began < LEASE * 1.6; i++) {
      const decision = await limiter.consume(String(i % KEYS))
      if (decision.allowed && decision.degraded === undefined) admitted.push(String(i % KEYS))
      await pause(20)
    }
    warnings.stop()
    expect(admitted).toEqual([])
    expect(changes).toEqual([])
    expect(warnings.codes).toEqual([])
  })

  it(
    'that start at once are renewed in batches over a sixth of their lease, at least',
    { timeout: 30_000 },
    async () => {
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
    },
  )

  it('are renewed in batches within 0.2 seconds when their store answers again, and no others are', () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] })
    try {
      const renewed = new Map<Decision, number>()
      const hold = (count: number): Place => {
        const store = memoryStore()
        const limiter = createLimiter<string>({ keyer: () => 'all', limits: concurrent(count), store })
        for (let i = 0; i < count; i++) {
          const decision = limiter.consume('k')
          held.push(decision)
          holdSlots(decision, (own) => (renewed.set(own, (renewed.get(own) ?? 0) + 1), true))
        }
        return store.place
      }
      const place = hold(5000)
      hold(10)
      const batches: number[] = []
      for (const recovered of recoveries) recovered(place)
      for (let ms = 0; ms <= 200; ms++) {
        batches.push(renewed.size - batches.reduce((sum, count) => sum + count, 0))
        vi.advanceTimersByTime(1)
      }
      expect(renewed.size).toBe(5000)
      expect([...renewed.values()].every((count) => count === 1)).toBe(true)
      expect(batches[0]).toBeGreaterThan(0)
      expect(Math.max(...batches)).toBeLessThanOrEqual(Math.ceil(5010 / 16))
    } finally {
      for (const decision of held.splice(0)) dropSlots(decision)
      vi.useRealTimers()
    }
  })
})

describe('a renewal that is not answered', () => {
  it('is no failure of the store', async () => {
    const silent = faultyStore(({ kind }) => (kind === 'renew' ? SILENT : undefined))
    const limits = concurrent({ quota: 9, expiresAfter: '1m' })
    const { limiter, changes } = guardedOn(silent, { deadline: '20ms' }, limits)
    const decision = await limiter.consume('k')
    for (let i = 0; i < 5; i++) await limiter.renew(decision)
    expect(changes).toEqual([])
    expect((await limiter.consume('k')).degraded).toBeUndefined()
  })
})
