import { describe, expect, it } from 'vitest'
import { compiled, limit } from '../../src/engine/limit.ts'

describe('a wrong option is refused with its name', () => {
  it.each<[string, object, RegExp]>([
    ['fixedWindow', { anchor: 'last' }, /^anchor: expected 'first' or 'clock' or 'calendar', got "last"/],
    ['fixedWindow', { offset: 0 }, /^offset: expected none, unless anchor is 'clock', got 0/],
    ['fixedWindow', { anchor: 'clock', offset: 1000 }, /^offset: expected less than the window, 1000 ms, got 1000/],
    ['fixedWindow', { anchor: 'clock', offset: -1 }, /^offset: expected whole milliseconds/],
    ['fixedWindow', { anchor: 'clock', offset: 0.5 }, /^offset: /],
    [
      'fixedWindow',
      { anchor: 'clock', strict: true },
      /^strict: expected no strict with anchor: 'clock', as a window on the clock ends anyway, got true/,
    ],
    [
      'slidingWindowBuckets',
      { buckets: 3 },
      /^buckets: expected a divisor of the window, 1000 ms, in whole microseconds, got 3/,
    ],
    ['slidingWindowBuckets', { buckets: 0 }, /^buckets: expected a whole number from 1/],
    ['tokenBucket', { refill: 'lazy' }, /^refill: expected 'greedy' or 'interval', got "lazy"/],
    ['tokenBucket', { refill: 'interval', initial: 11 }, /^initial: expected at most the capacity, 10, got 11/],
    ['tokenBucket', { refill: 'interval', capacity: -1 }, /^capacity: /],
    [
      'tokenBucket',
      { refill: 'interval', strict: true },
      /^strict: expected no strict with refill: 'interval', as tokens return at their time anyway, got true/,
    ],
    [
      'tokenBucket',
      { refill: 'interval', initial: 0, strict: true },
      /^strict: expected no strict with refill: 'interval'/,
    ],
    ['slidingWindowLog', { burst: 5 }, /slidingWindowLog has no option "burst"/],
    ['gcra', { burst: null }, /^burst: expected a value, or no such option, got null/],
    ['fixedWindow', { anchor: null }, /^anchor: expected a value, or no such option, got null/],
    ['concurrent', { expiresAfter: null }, /^expiresAfter: expected a value, or no such option, got null/],
  ])('%s: %j', (algorithm, own, message) => {
    expect(() => limit({ quota: 10, window: 1000, algorithm, ...own })).toThrow(message)
  })
})

describe('a limit too large to be counted exactly', () => {
  const year = '365d'

  it.each(['slidingWindowCounter', 'quotaLinear'])('counts in milliseconds, then is refused: %s', (algorithm) => {
    const perMs = (quota: number): number => compiled(limit({ algorithm, quota, window: year })).parameters.perMs
    expect(perMs(101)).toBe(1000)
    expect(perMs(10_007)).toBe(1)
    expect(() => perMs(1_000_003)).toThrow(/cannot be counted exactly/)
  })

  it.each(['fixedWindow', 'slidingWindowBuckets', 'exponential'])('is not a year of 1e9: %s', (algorithm) => {
    expect(compiled(limit({ algorithm, quota: 1e9, window: year })).parameters.perMs).toBe(1000)
  })

  it('refuses a log that would be too long, and too many buckets', () => {
    expect(limit({ algorithm: 'slidingWindowLog', quota: 100_000, window: year }).quota).toBe(100_000)
    expect(() => limit({ algorithm: 'slidingWindowLog', quota: 100_001, window: 1000 })).toThrow(
      'quota: expected at most 100000 for slidingWindowLog (slidingWindowBuckets and slidingWindowCounter take more), got 100001',
    )
    const buckets = { algorithm: 'slidingWindowBuckets', quota: 10, window: 1_000_000 }
    expect(limit({ ...buckets, buckets: 100_000 })['buckets']).toBe(100_000)
    expect(() => limit({ ...buckets, buckets: 1_000_000 })).toThrow('buckets: expected at most 100000, got 1000000')
  })

  it('requires buckets that divide milliseconds when it counts in them', () => {
    const json = { algorithm: 'slidingWindowBuckets', quota: 10, window: 4_503_599_628_000 }
    expect(compiled(limit({ ...json, buckets: 10 })).parameters.perMs).toBe(1)
    expect(() => limit({ ...json, buckets: 10_000 })).toThrow(
      /^buckets: expected a divisor of the window, 4503599628000 ms, in whole milliseconds, got 10000/,
    )
  })

  it('refuses an exponential limit whose calculation would take too long', () => {
    expect(compiled(limit({ algorithm: 'exponential', quota: 10, window: 110_000_000_000 })).parameters.perMs).toBe(
      1000,
    )
    expect(compiled(limit({ algorithm: 'exponential', quota: 10, window: 113_000_000_000 })).parameters.perMs).toBe(1)
  })
})
