import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  createLimiter,
  fixedWindow,
  gcra,
  leakyBucket,
  type Limit,
  memoryStore,
  perMinute,
  slidingWindowBuckets,
  slidingWindowLog,
  spacing,
  tokenBucket,
} from '../../../src/index.ts'
import { shareOf } from '../../../src/stores/guard/share.ts'
import { virtualClock } from '../../../src/testing.ts'
import { recordWarnings } from '../../support/guarded.ts'

describe('the share of a limit', () => {
  it('is the limit itself when the share is 1', () => {
    const limit = perMinute(100)
    expect(shareOf(limit, 1)).toBe(limit)
  })

  it.each([
    [perMinute(100), 0.25, { quota: 25, window: 60_000 }],
    [perMinute(100), 0.29, { quota: 29 }],
    [perMinute(7), 0.5, { quota: 3 }],
    [gcra({ quota: 100, window: '1m', burst: 20 }), 0.1, { quota: 10, burst: 2 }],
    [gcra({ quota: 100, window: '1m', burst: 3 }), 0.1, { quota: 10, burst: 1 }],
    [tokenBucket({ quota: 10, window: '1s', capacity: 50, initial: 7 }), 0.5, { quota: 5, capacity: 25, initial: 3 }],
    [leakyBucket({ quota: 10, window: '1s', capacity: 5 }), 0.5, { quota: 5, capacity: 2 }],
    [perMinute(5), 0.1, { quota: 1, window: 120_000 }],
    [perMinute(1), 0.3, { quota: 1, window: 240_000 }],
    [spacing('2s'), 0.25, { quota: 1, window: 8000 }],
    [slidingWindowBuckets({ quota: 2, window: '10ms', buckets: 5 }), 0.2, { quota: 1, window: 30, buckets: 5 }],
    [fixedWindow({ quota: 4, window: '500ms', block: '900ms' }), 0.5, { quota: 2, window: 500, block: 900 }],
  ] as const)('scales %o by %d', (limit, share, expected) => {
    const warnings = recordWarnings()
    expect(shareOf(limit, share)).toMatchObject({ ...expected, name: limit.name, algorithm: limit.algorithm })
    warnings.stop()
  })

  it('exists for any limit and any share', () => {
    const shares = fc.oneof(
      fc.double({ min: 0.0001, max: 1, noNaN: true }),
      fc.double({ min: 0, max: 0.0001, minExcluded: true, noNaN: true }),
    )
    const windows = fc.constantFrom(10, 1000, 60_000, 86_400_000, 31_536_000_000)
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1000 }), windows, shares, (quota, window, share) => {
        for (const limit of [
          gcra({ quota, window: `${window}ms` }),
          slidingWindowBuckets({ quota, window: `${window}ms`, buckets: 10 }),
          fixedWindow({ quota, window: `${window}ms`, anchor: 'clock' }),
        ]) {
          const part = shareOf(limit, share)
          expect(part.quota).toBeLessThanOrEqual(quota)
          expect(part.quota / part.window).toBeLessThanOrEqual((quota / window) * Math.max(share, 0.0001) * 1.000001)
        }
      }),
    )
  })

  it('of all processes together admits the quota in each window, and no more', async () => {
    for (const [quota, processes] of [
      [100, 4],
      [5, 10],
      [7, 3],
    ] as const) {
      const clock = virtualClock()
      const limit = shareOf(slidingWindowLog({ quota, window: '1m' }), 1 / processes) as Limit
      const limiters = Array.from({ length: processes }, () =>
        createLimiter<string>({ keyer: (key) => key, limits: limit, store: memoryStore({ clock }) }),
      )
      let admitted = 0
      const minutes = 20
      for (let second = 0; second < 60 * minutes; second++) {
        for (const limiter of limiters) while (limiter.consume('k').allowed as boolean) admitted++
        clock.advance(1000)
      }
      expect(admitted).toBeLessThanOrEqual(quota * (minutes + 1))
      expect(admitted).toBeGreaterThan(quota * minutes * 0.7)
    }
  })
})
