// What was charged and never given back, replayed through an exact store: every step must be admitted, whatever was refunded or settled, and when.
import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Decision, type Limit, memoryStore, quotaLinear, type Store } from '../../src/index.ts'
import { redisStore } from '../../src/stores/redis/index.ts'
import { type VirtualClock, virtualClock } from '../../src/testing.ts'
import { connectedStore } from '../support/connected-store.ts'
import { warningsOfEachTest } from '../support/guarded.ts'
import { limits, names } from '../support/harness.ts'
import { keyed } from '../support/limiters.ts'
import { redisForAll } from '../support/redis-tests.ts'

const RUNS = Number(process.env['RUNS'] ?? 50)

interface Step {
  readonly kind: 'consume' | 'refund' | 'settle' | 'flood'
  /** Time before it, in windows. */
  readonly after: number
  readonly key: number
  readonly cost: number
  /** Which of the open charges is refunded or settled. */
  readonly which: number
}

/** What counts against a key for ever: a charge, less what is given back of it; or what was settled later, past the limit. */
interface Kept {
  readonly time: number
  readonly life: Life
  /** What was charged at first. */
  readonly charged: number
  units: number
  /** The charge that was settled. */
  readonly settles?: Kept
}

/** The time from a charge of a new key until the key is new again. */
interface Life {
  readonly start: number
}

interface Open {
  readonly decision: Decision
  readonly kept: Kept
  readonly key: string
}

const after = fc.oneof(
  { weight: 4, arbitrary: fc.constant(0) },
  { weight: 4, arbitrary: fc.double({ min: 0, max: 0.3, noNaN: true }) },
  { weight: 2, arbitrary: fc.constantFrom(0.01, 0.1, 0.5, 0.9, 1) },
  { weight: 1, arbitrary: fc.double({ min: 0, max: 2, noNaN: true }) },
)
const steps = (flood: boolean): fc.Arbitrary<Step[]> =>
  fc.array(
    fc.record({
      kind: fc.oneof(
        { weight: 10, arbitrary: fc.constant('consume' as const) },
        { weight: 3, arbitrary: fc.constant('refund' as const) },
        { weight: 2, arbitrary: fc.constant('settle' as const) },
        ...(flood ? [{ weight: 1, arbitrary: fc.constant('flood' as const) }] : []),
      ),
      after,
      key: fc.nat({ max: flood ? 5 : 1 }),
      cost: fc.oneof(
        { weight: 2, arbitrary: fc.constant(1) },
        { weight: 1, arbitrary: fc.integer({ min: 1, max: 12 }) },
      ),
      which: fc.nat({ max: 8 }),
    }),
    { maxLength: 60, size: 'max' },
  )

const small = {
  quota: fc.oneof(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 1, max: 40 })),
  window: fc.constantFrom(100, 1000, 7000),
}

/** Plays steps on a store, and returns what counts against each key. */
async function played(store: Store, clock: VirtualClock, limit: Limit, steps: readonly Step[]): Promise<Kept[][]> {
  const limiter = keyed(store, limit, randomUUID())
  const open: Open[] = []
  const keptOf = new Map<string, Kept[]>()
  let others = 0

  /** Continues the life of a key, or begins a new one. Call it before a charge. */
  async function lifeOf(key: string): Promise<Life> {
    const { resetAfter } = await limiter.peek(key, { cost: 0 })
    const latest = keptOf.get(key)?.at(-1)?.life
    // Beyond `maxKeys`, other keys can make the reset of a window later. quotaLinear has a window as long as a key has not used it up.
    const charged = (keptOf.get(key) ?? [])
      .filter(({ life }) => life === latest)
      .reduce((sum, each) => sum + each.charged, 0)
    const hasWindow = limit.algorithm === 'fixedWindow' || (limit.algorithm === 'quotaLinear' && charged < limit.quota)
    const isOver = hasWindow && clock.now() - (latest?.start ?? 0) >= limit.window
    return resetAfter === 0 || latest === undefined || isOver ? { start: clock.now() } : latest
  }
  function keep(key: string, kept: Kept): void {
    keptOf.set(key, [...(keptOf.get(key) ?? []), kept])
  }
  async function consume(key: string, cost: number): Promise<void> {
    const life = await lifeOf(key)
    const decision = await limiter.consume(key, { cost })
    if (!decision.allowed) return
    const kept = { time: clock.now(), life, units: cost, charged: cost }
    keep(key, kept)
    open.push({ decision, kept, key })
  }
  async function settle(which: number, cost: number): Promise<void> {
    const [charge] = open.splice(open.length - 1 - (which % Math.max(1, open.length)), 1)
    if (charge === undefined) return
    const { decision, kept, key } = charge
    const life = await lifeOf(key)
    // A measured rate weighs a charge by the time since the request before it, which may be refunded.
    const actual = limit.algorithm === 'exponential' ? Math.min(kept.units, cost) : cost
    const more = actual - kept.units
    await limiter.settle(decision, actual)
    if (more > 0) keep(key, { time: clock.now(), life, units: more, charged: more, settles: kept })
    else kept.units = actual
  }

  for (const { kind, after, key, cost, which } of steps) {
    clock.advance(Math.round(after * limit.window * 1000) / 1000)
    if (kind === 'consume') await consume(`key ${key}`, cost)
    else if (kind === 'flood') for (let i = 0; i < 40; i++) await limiter.consume(`other ${others++ % 400}`)
    else await settle(which, kind === 'refund' ? 0 : cost)
  }
  return [...keptOf.values()].map((all) => all.filter(({ units }) => units > 0))
}

/** Replays what counts against a key. Throws when a step is denied. */
function replay(limit: Limit, kept: readonly Kept[], start: number): void {
  const clock = virtualClock(start)
  const limiter = keyed(memoryStore({ clock }), limit)
  const decisions = new Map<Kept, Decision>()
  for (const each of kept) {
    const { time, units, settles } = each
    clock.advance(time - clock.now())
    if (settles !== undefined) limiter.settle(decisions.get(settles)!, settles.units + units)
    else {
      const decision = limiter.consume('key', { cost: units })
      expect(decision.allowed, `the charge of ${units} at ${time - start}`).toBe(true)
      decisions.set(each, decision)
    }
  }
}

/**
 * The most that can be admitted within a life by `elapsed` milliseconds after its start, for limits whose windows begin with a request: it
 * may be refunded, and without it the windows would be others. `undefined` for all other limits.
 */
function mostWithin({ algorithm, quota, window, ...own }: Limit): ((elapsed: number) => number) | undefined {
  if (algorithm === 'fixedWindow' && (own['anchor'] ?? 'first') === 'first') return () => quota
  if (algorithm === 'tokenBucket' && own['refill'] === 'interval')
    return (elapsed) => Number(own['capacity'] ?? quota) + Math.floor(elapsed / window) * quota
  if (algorithm === 'quotaLinear')
    return (elapsed) => (elapsed < window ? quota : quota + 1 + Math.floor(((elapsed - window) * quota) / window))
  return undefined
}

/** Throws when more counts within a life than it can admit. */
function checkLives(kept: readonly Kept[], most: (elapsed: number) => number): void {
  const sums = new Map<Life, number>()
  for (const { time, life, units, settles } of kept) {
    const sum = (sums.get(life) ?? 0) + units
    sums.set(life, sum)
    if (settles === undefined)
      expect(sum, `${time - life.start} ms after the start`).toBeLessThanOrEqual(most(time - life.start))
  }
}

// Beyond `maxKeys` a refund can give nothing back, and says so.
warningsOfEachTest()

const redis = redisForAll()
const places = {
  'in memory': (clock: VirtualClock): Store => memoryStore({ clock }),
  'beyond maxKeys': (clock: VirtualClock): Store => memoryStore({ clock, maxKeys: 1, onFull: () => undefined }),
  'in another process': (clock: VirtualClock): Store => connectedStore(memoryStore({ clock }), { clock }),
  'on Redis': (clock: VirtualClock): Store => redisStore(redis.client, { clock }),
}

it.each(['in memory', 'beyond maxKeys', 'in another process', 'on Redis'] as const)(
  'quotaLinear gives nothing back of a window that is over: %s',
  async (place) => {
    const clock = virtualClock()
    const limiter = keyed(places[place](clock), quotaLinear({ quota: 100, window: '1s' }), randomUUID())
    await limiter.consume('first')
    await limiter.consume('key')
    clock.advance(900)
    const early = await limiter.consume('key', { cost: 50 })
    clock.advance(100)
    expect((await limiter.consume('key', { cost: 100 })).allowed).toBe(true)
    clock.advance(10)
    await limiter.refund(early)
    clock.advance(989)
    expect((await limiter.peek('key')).allowed).toBe(false)
    clock.advance(1)
    expect((await limiter.peek('key')).allowed).toBe(true)
  },
)

describe.each(names())('what is charged under %s and never given back is admitted by an exact store', (name) => {
  // A key that starts with fewer tokens has fewer without the requests that were refunded: they started its refill.
  // Under `strict`, a denied request can begin a window, and only admitted ones are recorded here.
  const limit = limits(name, small).filter(
    (each) => each['initial'] === undefined && (each.strict !== true || mostWithin(each) === undefined),
  )

  it.each([
    ['in memory', 1],
    ['beyond maxKeys', 2],
    ['in another process', 20],
    ['on Redis', 20],
  ] as const)(
    '%s',
    async (place, fewer) => {
      const property = fc.asyncProperty(limit, steps(place === 'beyond maxKeys'), async (limit, steps) => {
        const clock = virtualClock()
        const start = clock.now()
        const most = mostWithin(limit)
        for (const kept of await played(places[place](clock), clock, limit, steps)) {
          if (most === undefined) replay(limit, kept, start)
          else checkLives(kept, most)
        }
      })
      await fc.assert(property, { numRuns: Math.ceil(RUNS / fewer) })
    },
    120_000,
  )
})
