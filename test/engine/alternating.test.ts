import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  createLimiter,
  type Decision,
  type Limit,
  limit,
  type Limiter,
  type LimitInput,
  memoryStore,
  type Store,
  type SyncStore,
} from '../../src/index.ts'
import { type RowDatabase, rowStore } from '../../src/extend.ts'
import { redisStore } from '../../src/stores/redis/index.ts'
import { type VirtualClock, virtualClock } from '../../src/testing.ts'
import { warningsOfEachTest } from '../support/guarded.ts'
import { forAll, names } from '../support/harness.ts'
import { mapRows } from '../support/map-rows.ts'
import { redisForAll } from '../support/redis-tests.ts'

/** Options of a limit. */
type Options = Readonly<Record<string, unknown>>

/** Two definitions of one name, the smaller one first. */
type Pair = readonly [Limit, Limit]

/** Options of each algorithm to try, besides those without options. Absent: none. */
const VARIANTS: Readonly<Record<string, readonly Options[]>> = {
  tokenBucket: [{ refill: 'interval' }, { initial: 3 }, { refill: 'interval', initial: 3 }],
  fixedWindow: [{ anchor: 'clock' }, { anchor: 'calendar', window: '1d' }],
  slidingWindowBuckets: [{ buckets: 4 }],
}

/** Algorithms that have one quota only. */
const SINGLE = ['spacing']

const cases = names()
  .filter((name) => !SINGLE.includes(name))
  .flatMap((algorithm) => [{}, ...(VARIANTS[algorithm] ?? [])].map((own): Options => Object.assign({ algorithm }, own)))
  .map((json) => [Object.values(json).join(' '), json] as const)

function made(json: Options, quota: number): Limit {
  return limit({ name: 'calls', window: 60_000, quota, ...json } as LimitInput)
}

interface Input {
  readonly limit: Limit
}

type StoreOn = (clock: VirtualClock) => Store

const stores: [string, StoreOn][] = [
  ['memory', (clock) => memoryStore({ clock })],
  ['rows', (clock) => rowStore(mapRows(clock), { clock })],
  ['redis', (clock) => redisStore(redis.client, { clock, prefix: `${runs++}:` })],
]
const redis = redisForAll()
let runs = 0
warningsOfEachTest()

function limiterOn(store: SyncStore): Limiter<Input, Decision>
function limiterOn(store: Store): Limiter<Input>
function limiterOn(store: Store): Limiter<Input> {
  return createLimiter<Input>({ name: 'alternating', store, keyer: () => 'ann', limits: ({ limit }) => limit })
}

/** Returns how many of 600 requests are admitted, one in each `every` milliseconds, by limits in turn. */
async function admitted(storeOn: StoreOn, limits: readonly Limit[], every: number): Promise<number> {
  const clock = virtualClock()
  const limiter = limiterOn(storeOn(clock))
  let count = 0
  for (let i = 0; i < 600; i++) {
    const { allowed } = await limiter.consume({ limit: limits[i % limits.length]! })
    if (allowed) count++
    clock.advance(every)
  }
  return count
}

/** What the larger limit admits: where requests that come too early cost more than they take, its quota and what comes back. */
async function mostAdmitted(storeOn: StoreOn, json: Options, every: number): Promise<number> {
  if (json['algorithm'] === 'quotaLinear') return 20 + Math.floor((20 * 600 * every) / 60_000)
  // A new key starts with as many tokens as the limit that it meets first says.
  const { initial: _, ...full } = json
  return admitted(storeOn, [made(full, 20)], every)
}

const [memory, , redisPlace] = stores

// Rows are decided by the same code, and Redis takes a hundred times as long. The equality tests compare both with memory, for limits that alternate, too.
describe.each([
  [...memory!, cases, [0, 0.05, 101, 1000]],
  [...redisPlace!, cases.filter(([title]) => title === 'gcra'), [0.05, 101]],
] as const)('600 requests under 10 or 20 by turns, in %s', (_name, storeOn, cases, pauses) => {
  it.each(cases)('are admitted no more often than under 20 alone: %s', async (_, json) => {
    const [small, large] = [made(json, 10), made(json, 20)]
    const least = Number(json['initial'] ?? 10)
    const turns = [
      [large, small],
      [small, large],
      [large, large, large, small],
    ]
    const rates = pauses.map(async (every) => {
      const counts = turns.map((limits) => admitted(storeOn, limits, every))
      const most = await mostAdmitted(storeOn, json, every)
      for (const count of await Promise.all(counts)) {
        expect(count).toBeLessThanOrEqual(most)
        expect(count).toBeGreaterThanOrEqual(least)
      }
    })
    await Promise.all(rates)
  })
})

/** A step of a random history: a pause as a part of the window, a cost, which definition decides, and which earlier decision is refunded, if any. */
const step = fc.record({
  after: fc.oneof(
    { weight: 4, arbitrary: fc.constant(0) },
    { weight: 4, arbitrary: fc.double({ min: 0, max: 0.2, noNaN: true }) },
    { weight: 1, arbitrary: fc.double({ min: 0, max: 1.5, noNaN: true }) },
  ),
  cost: fc.oneof({ weight: 3, arbitrary: fc.constant(1) }, { weight: 1, arbitrary: fc.integer({ min: 1, max: 20 }) }),
  isLarge: fc.boolean(),
  refund: fc.constantFrom(undefined, undefined, undefined, undefined, -1, -2),
})

function pairs(json: Options): fc.Arbitrary<Pair> {
  const windows = fc.constantFrom(1, 100, 60_000, 86_400_000, 7001)
  const quota = fc.integer({ min: 1, max: 40 })
  const capacity = json['algorithm'] === 'gcra' ? 'burst' : 'capacity'
  const hasCapacity = ['gcra', 'tokenBucket', 'leakyBucket'].includes(json['algorithm'] as string)
  const own = fc.tuple(quota, quota, fc.boolean())
  const window = json['window'] === undefined ? windows : fc.constant(json['window'])
  return fc.tuple(own, own, window).map(([[a, b, isOwn], [c, d], window]) => {
    const limit = (quota: number, most: number): Limit =>
      made({ ...json, window, ...(hasCapacity && isOwn && { [capacity]: most }) }, quota)
    return [limit(Math.min(a, c), Math.min(b, d)), limit(Math.max(a, c), Math.max(b, d))]
  })
}

describe.each(cases.filter(([, json]) => json['initial'] === undefined && json['algorithm'] !== 'quotaLinear'))(
  'a random history under two definitions by turns: %s',
  (_, json) => {
    it('admits nothing that the larger one alone would deny, refunds included', () => {
      forAll(pairs(json), fc.array(step, { maxLength: 60 }), ([small, large], steps) => {
        const clock = virtualClock()
        const [both, alone] = [limiterOn(memoryStore({ clock })), limiterOn(memoryStore({ clock }))]
        const decisions: (readonly [Decision, Decision])[] = []
        for (const { after, cost, isLarge, refund } of steps) {
          clock.advance(Math.round(after * large.window * 1000) / 1000)
          const past = refund && decisions.at(refund)
          if (past !== undefined) {
            both.refund(past[0])
            alone.refund(past[1])
          }
          const decision = both.consume({ limit: isLarge ? large : small }, { cost })
          if (!decision.allowed) continue
          const same = alone.consume({ limit: large }, { cost })
          if (!same.allowed) expect(same.allowed).toBe(true)
          decisions.push([decision, same])
        }
      })
    })
  },
)

it('a debt that changes its limit each second drains all the same', async () => {
  const storeOn: StoreOn = (clock) => memoryStore({ clock })
  const [small, large] = [made({ algorithm: 'gcra' }, 10), made({ algorithm: 'gcra' }, 20)]
  const least = await admitted(storeOn, [small], 1000)
  expect(least).toBe(109)
  expect(await admitted(storeOn, [large, small], 1000)).toBeGreaterThanOrEqual(least)
})

/** Returns the units that are left of a limit. */
async function left(limiter: Limiter<Input>, limit: Limit): Promise<number> {
  return (await limiter.peek({ limit }, { cost: 0 })).limits[0]!.remaining
}

describe.each(stores)('a limit that becomes smaller, in %s', (_, storeOn) => {
  const linear = (quota: number, burst = quota): Limit => made({ algorithm: 'gcra', burst }, quota)

  /** Returns a limiter whose key has used up a limit. */
  async function full(limit: Limit) {
    const clock = virtualClock()
    const limiter = limiterOn(storeOn(clock))
    await limiter.consume({ limit }, { cost: limit['burst'] as number })
    return { clock, limiter }
  }

  it('admits the first request as soon as a full smaller one would', async () => {
    const { clock, limiter } = await full(linear(20))
    expect((await limiter.consume({ limit: linear(10) })).retryAfter).toBe(6000)
    clock.advance(6000)
    expect((await limiter.consume({ limit: linear(10) })).allowed).toBe(true)
  })

  it('and larger again knows all that was used before, as long as it would count', async () => {
    const { clock, limiter } = await full(linear(20))
    await limiter.consume({ limit: linear(10) })
    clock.advance(30_000)
    // A peek changes nothing.
    for (let i = 0; i < 2; i++) expect(await left(limiter, linear(20))).toBe(5)
    clock.advance(30_000)
    expect(await left(limiter, linear(20))).toBe(20)
  })

  it('keeps what was cut off for longer when more is charged, also of a burst', async () => {
    const [small, large] = [linear(60, 10), linear(60, 100)]
    const { clock, limiter } = await full(large)
    await limiter.consume({ limit: small })
    // The larger limit alone would be full all the time.
    for (let i = 0; i < 150; i++) {
      clock.advance(1000)
      expect((await limiter.consume({ limit: small })).allowed).toBe(true)
    }
    expect((await limiter.consume({ limit: large })).allowed).toBe(false)
    clock.advance(100_000)
    expect((await limiter.consume({ limit: large }, { cost: 100 })).allowed).toBe(true)
  })

  it('forgets as before what another window or another algorithm has cut off', async () => {
    const clock = virtualClock()
    const limiter = limiterOn(storeOn(clock))
    const window = (quota: number, window: number): Limit => made({ algorithm: 'fixedWindow', window }, quota)
    await limiter.consume({ limit: window(20, 60_000) }, { cost: 20 })
    await limiter.consume({ limit: window(10, 30_000) })
    expect(await left(limiter, window(20, 60_000))).toBe(10)
    expect(await left(limiter, linear(20))).toBe(20)
  })
})

it('a row is kept no longer for what was cut off than the larger limit would count it', async () => {
  const clock = virtualClock()
  const database = mapRows(clock)
  const ends: number[] = []
  const transact: RowDatabase['transact'] = (keys, change, info) => {
    const noted: typeof change = (rows, now) => {
      const changes = change(rows, now)
      for (const { expiresAt } of changes.writes) ends.push(expiresAt - clock.now())
      return changes
    }
    return database.transact(keys, noted, info)
  }
  const limiter = limiterOn(rowStore({ transact }, { clock }))
  const [small, large] = [1, 10_000].map((quota) => made({ algorithm: 'gcra' }, quota))
  await limiter.consume({ limit: large! }, { cost: 10_000 })
  await limiter.consume({ limit: small! })
  expect(ends).toHaveLength(2)
  expect(Math.max(...ends)).toBeLessThanOrEqual(62_000)
})
