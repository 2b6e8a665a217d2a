// A clock that ran ahead and is then corrected locks no client out, and gives none more than a capacity. In memory and in Redis.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Decision, type Limiter, memoryStore } from '../../../src/index.ts'
import { countsSlots, type Limit, limit, type LimitInput } from '../../../src/engine/limit.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import type { Store } from '../../../src/stores/store.ts'
import { type VirtualClock, virtualClock } from '../../../src/testing.ts'
import { limits, exactNames, names } from '../../support/harness.ts'
import { warningsOfEachTest } from '../../support/guarded.ts'
import { keyed, left } from '../../support/limiters.ts'
import { redisForAll } from '../../support/redis-tests.ts'
import { mostInWindow } from '../../support/worst-case.ts'

// A limit that changes at random warns.
warningsOfEachTest()

const HOUR = 3_600_000
/** A smaller difference of clocks is no fault: the time of a key does not move for that long. */
const TOLERANCE = 1000

const quota = fc.integer({ min: 1, max: 9 })
const window = fc.constantFrom(10, 100, 1000, 7001, 60_000, HOUR, 24 * HOUR)
const block = fc.constantFrom(undefined, undefined, 5000, HOUR)

interface Step {
  readonly kind: 'consume' | 'peek' | 'refund' | 'settle'
  readonly jump: number
  readonly after: number
  readonly version: number
  readonly cost: number
  readonly which: number
}

/** Limits of an algorithm with all their options, some with a lock-out. */
function blocking(name: string): fc.Arbitrary<Limit> {
  return (
    fc
      .tuple(limits(name, { quota, window }), block)
      .map(([each, time]) =>
        limit({ ...each, name: 'limit', ...(time !== undefined && { block: time }) } as LimitInput),
      )
      .filter((each) => Number(each['burst'] ?? each['capacity'] ?? 0) < 100)
      // A key that is new again when its lock-out ends has fewer tokens than it waited for.
      .filter((each) => each['initial'] === undefined || each.block === undefined)
  )
}

function isOnClock(each: Limit): boolean {
  return each.algorithm === 'slidingWindowCounter' || each['anchor'] === 'clock' || each['anchor'] === 'calendar'
}

/** Returns the units that a new key can use at once. */
function capacity(each: Limit): number {
  const { burst, capacity: given, initial } = each as { burst?: number; capacity?: number; initial?: number }
  return Math.max(burst ?? given ?? each.quota, initial ?? 0)
}

function unblocked(each: Limit): Limit {
  return limit(
    Object.fromEntries(Object.entries(each).filter(([option]) => option !== 'block')) as unknown as LimitInput,
  )
}

/** Returns the milliseconds after which a key that has used up everything is like a new one, at most. */
function fullReset(each: Limit): number {
  // On a calendar it depends on the time; a day can have 25 hours.
  if (each['anchor'] === 'calendar') return each.window + HOUR
  // At the start of a window on the clock, all of it is left.
  const store = memoryStore({ clock: virtualClock(Number(each['offset'] ?? 0)) })
  const limiter = keyed(store, unblocked(each), 'reset')
  let resetAfter = 0
  for (let i = 0; i <= capacity(each); i++) resetAfter = Math.max(resetAfter, limiter.consume('k').resetAfter)
  return resetAfter
}

/** Consumes until a denial. Returns how many were admitted. */
async function drain(limiter: Limiter<string>): Promise<number> {
  let admitted = 0
  while ((await limiter.consume('k')).allowed) admitted++
  return admitted
}

describe('a clock that ran ahead and is then corrected', () => {
  const redis = redisForAll()
  let runs = 0
  const inMemory = (clock: VirtualClock): Store => memoryStore({ clock })
  const inRedis = (clock: VirtualClock): Store => redisStore(redis.client, { clock, prefix: 'fault:' })
  const stores: [string, number, (clock: VirtualClock) => Store][] = [
    ['memory', Number(process.env['RUNS'] ?? 50), inMemory],
    ['Redis', 5, inRedis],
  ]

  describe.each(stores)('in %s', (_, numRuns, storeOn) => {
    it.each(names())('keeps what was used and denies for no longer than a full reset: %s', async (name) => {
      const property = fc.asyncProperty(blocking(name), fc.nat({ max: 2000 }), async (each, phase) => {
        const clock = virtualClock(1_767_225_600_000 + phase * 77_777)
        const limiter = keyed(storeOn(clock), each, `run${runs++}`)
        clock.advance(3 * HOUR)
        await drain(limiter)
        clock.advance(-3 * HOUR)

        const longest = fullReset(each) + Number(each.block ?? 0) + TOLERANCE
        const first = await limiter.consume('k')
        // An estimate depends on the part of the window that has passed.
        if (name !== 'slidingWindowCounter') expect(first.allowed).toBe(false)
        let waited = 0
        for (let last = first; !last.allowed; last = await limiter.consume('k')) {
          expect(waited).toBe(0)
          // The wait for a slot is a hint. A slot that nobody releases is free after its lease.
          const wait = countsSlots(each) ? longest : last.retryAfter
          expect(wait).toBeLessThanOrEqual(longest)
          clock.advance(wait)
          waited += wait
        }
      })
      await fc.assert(property, { numRuns })
    })

    it.each(exactNames())('keeps its word when the clock jumps in both directions: %s', async (name) => {
      const property = fc.asyncProperty(blocking(name), traces, async (each, trace) => {
        const clock = virtualClock()
        const limiter = keyed(storeOn(clock), each, `run${runs++}`)
        const longest = fullReset(each) + Number(each.block ?? 0) + TOLERANCE
        const admitted: number[] = []
        const jumps: number[] = []
        let time = 0
        for (const { jump, after, asks, obeys } of trace) {
          if (jump !== 0) jumps.push(time)
          clock.advance(jump + Math.round(after * each.window))
          time += Math.round(after * each.window)
          let last: Decision | undefined
          for (let i = 0; i < asks; i++) {
            last = await limiter.consume('k')
            if (last.allowed) admitted.push(time)
            else expect(last.retryAfter).toBeLessThanOrEqual(longest)
          }
          if (!obeys || last === undefined || last.allowed) continue
          clock.advance(last.retryAfter)
          time += last.retryAfter
          expect((await limiter.consume('k')).allowed).toBe(true)
          admitted.push(time)
        }
        const most = mostInWindow(each, capacity(each))
        // Windows on the clock end sooner when it jumps.
        const more = isOnClock(each) ? most : capacity(each)
        // The window of a calendar limit is its longest one. A month is up to a tenth shorter.
        const length = each['anchor'] === 'calendar' ? 0.9 * each.window : each.window
        for (const [i, start] of admitted.entries()) {
          // Half a microsecond less: sums of milliseconds are not exact.
          const end = start + length - 0.0005
          const units = admitted.filter((at) => at < end).length - i
          const faults = jumps.filter((at) => at >= start - each.window && at < end).length
          expect(units).toBeLessThanOrEqual(most + faults * more)
        }
      })
      await fc.assert(property, { numRuns })
    })
  })

  it.each(stores)(
    'in %s, a charge is refunded when the clock is a second behind it, to the microsecond',
    async (...store) => {
      const clock = virtualClock(1_767_214_800_034.992)
      const limits = limit({ algorithm: 'slidingWindowLog', quota: 1, window: 10 })
      const limiter = keyed(store[2](clock), limits, `run${runs++}`)
      const charged = await limiter.consume('k')
      clock.advance(-1000)
      await limiter.refund(charged)
      expect((await limiter.consume('k')).allowed).toBe(true)
    },
  )

  it.each(stores)('in %s, a block holds for its own time, also if one of a clock ahead ends then', async (...store) => {
    const clock = virtualClock()
    const limiter = keyed(store[2](clock), limit({ algorithm: 'gcra', quota: 1, window: 10 }), `run${runs++}`)
    await limiter.block('k', 10_000)
    clock.advance(-5000)
    await limiter.block('k', 15_000)
    expect((await limiter.peek('k')).retryAfter).toBe(15_000)
  })

  it.each(stores)('in %s, neither a refund nor a renewal changes what a clock ahead has charged', async (...store) => {
    for (const [algorithm, duration] of [
      ['gcra', 'window'],
      ['concurrent', 'expiresAfter'],
    ] as const) {
      const clock = virtualClock()
      const each = limit({ algorithm, quota: 9, [duration]: HOUR } as unknown as LimitInput)
      const limiter = keyed(store[2](clock), each, `run${runs++}`)
      const first = await limiter.consume('k', { cost: 5 })
      clock.advance(2 * HOUR)
      const ahead = await limiter.consume('k', { cost: 4 })
      clock.advance(-2 * HOUR + 1)
      if (algorithm === 'concurrent') expect(await limiter.renew(first)).toBe(false)
      await limiter.refund(first)
      expect(await left(limiter)).toEqual([5])
      await limiter.consume('k')
      await limiter.refund(ahead)
      expect(await left(limiter)).toEqual([4])
    }
  })

  it.each(names())('memory and Redis decide the same: %s', async (name) => {
    const any = fc.constantFrom(...names()).chain(blocking)
    const versions = fc.tuple(blocking(name), blocking(name), any).map(([one, other, second]) => [
      [one, limit({ ...second, name: 'second' })],
      [other, limit({ ...second, name: 'second' })],
    ])
    const property = fc.asyncProperty(versions, fc.array(step, { maxLength: 14 }), async (pair, steps) => {
      const name = `run${runs++}`
      const said: unknown[][] = []
      for (const storeOn of [inMemory, inRedis]) {
        const clock = virtualClock()
        const store = storeOn(clock)
        const limiters = pair.map((each) => keyed(store, each, name))
        const decisions: Decision[] = []
        for (const { kind, jump, after, version, cost, which } of steps) {
          clock.advance(jump + after)
          const limiter = limiters[version]!
          const past = decisions.at(-1 - which)
          if (kind === 'consume' || kind === 'peek') decisions.push(await limiter[kind]('k', { cost }))
          else if (past !== undefined && kind === 'refund') await limiter.refund(past)
          else if (past !== undefined) await limiter.settle(past, cost)
        }
        said.push(decisions)
      }
      expect(said[1]).toEqual(said[0])
    })
    await fc.assert(property, { numRuns: Number(process.env['RUNS'] ?? 25) })
  })
})

const jump = fc.oneof(
  { weight: 3, arbitrary: fc.constant(0) },
  { weight: 1, arbitrary: fc.constantFrom(3 * HOUR, -3 * HOUR, 500, -500, 20_000, -20_000, 400 * 24 * HOUR) },
)

const traces = fc.array(
  fc.record({
    jump,
    after: fc.oneof(fc.constantFrom(0, 0.1, 0.5, 1), fc.double({ min: 0, max: 1.2, noNaN: true })),
    asks: fc.nat({ max: 8 }),
    obeys: fc.boolean(),
  }),
  { maxLength: 8 },
)

/**
 * Corrections only, and less than a second in all between them: stores may forget what is over by a clock that runs ahead, each at a
 * time of its own, but not within the first second.
 */
const correction = fc.oneof(
  { weight: 3, arbitrary: fc.constant(0) },
  { weight: 1, arbitrary: fc.constantFrom(-3 * HOUR, -20_000, -1000.001, -1000, -500, 500) },
)

const step: fc.Arbitrary<Step> = fc.record({
  kind: fc.constantFrom<Step['kind'][]>('consume', 'consume', 'consume', 'consume', 'peek', 'refund', 'settle'),
  jump: correction,
  after: fc.oneof(
    fc.constant(0),
    fc.nat({ max: 60_000 }).map((micros) => micros / 1000),
  ),
  version: fc.constantFrom(0, 0, 0, 1),
  cost: fc.oneof({ weight: 3, arbitrary: fc.constant(1) }, { weight: 1, arbitrary: fc.nat({ max: 12 }) }),
  which: fc.nat({ max: 4 }),
})
