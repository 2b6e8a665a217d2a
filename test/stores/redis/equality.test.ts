import fc from 'fast-check'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  createLimiter,
  type Decision,
  type Limit,
  limit,
  type Limiter,
  type LimitInput,
  memoryStore,
  type RowDatabase,
  rowStore,
  stack,
  type Store,
} from '../../../src/index.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { type VirtualClock, virtualClock } from '../../../src/testing.ts'
import { limits, names } from '../../support/harness.ts'
import { anyRedis } from '../../support/redis.ts'

/** Decisions compared in a normal run; as many as wanted with SLUICE_EQUALITY. */
const DECISIONS = Number(process.env['SLUICE_EQUALITY'] ?? 50_000)
const STEPS = 40

/** A limit in two configurations under one name: a limit that changes, in its numbers or in its algorithm. */
type Versions = readonly [Limit, Limit]

interface Setup {
  /** Limits of two limiters that are stacked; the second may have none. */
  readonly members: readonly (readonly Versions[])[]
}

interface Step {
  readonly kind:
    'consume' | 'peek' | 'refund' | 'settle' | 'release' | 'renew' | 'reset' | 'block' | 'pause' | 'penalize'
  /** Milliseconds that pass before; whole microseconds. */
  readonly after: number
  readonly key: string
  readonly version: 0 | 1
  readonly cost: number
  /** Which of the decisions so far is refunded or settled. */
  readonly which: number
  /** Milliseconds of a lock-out. */
  readonly lasting: number
}

interface Input {
  readonly key: string
  readonly version: 0 | 1
}

const growing = fc.record({
  after: fc.integer({ min: 1, max: 3 }),
  for: fc.constantFrom('10ms', '250ms', '3s'),
  factor: fc.constantFrom(1, 1.3, 2, 1000 / 3),
  upTo: fc.constantFrom('3s', '7s', '1m'),
})
const blocks = fc.option(fc.oneof(fc.constantFrom(1, 250, 5000), growing), { nil: undefined })
const flags = fc.record({ strict: fc.boolean(), shadow: fc.boolean(), block: blocks })

/** Small quotas and windows, so that edges are met often. */
const quota = fc.oneof(
  { weight: 5, arbitrary: fc.integer({ min: 1, max: 9 }) },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 200 }) },
  { weight: 1, arbitrary: fc.constant(0) },
)
const window = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(100, 1000, 1001, 7000) },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 31_536_000_000 }) },
)

function canBeStrict(base: Limit): boolean {
  return base['anchor'] !== 'clock' && base['anchor'] !== 'calendar' && base['refill'] !== 'interval'
}

function written(
  name: string,
  base: Limit,
  { strict, shadow, block }: { strict: boolean; shadow: boolean; block: LimitInput['block'] | undefined },
): Limit {
  const common = {
    name,
    ...(block !== undefined && { block }),
    ...(shadow ? { shadow } : strict && canBeStrict(base) && { strict }),
  }
  return limit({ ...base, strict: false, ...common })
}

function versions(name: string, algorithm: string): fc.Arbitrary<Versions> {
  const one = limits(algorithm, { quota, window })
  const other = fc.oneof(
    { weight: 3, arbitrary: one },
    { weight: 1, arbitrary: fc.constantFrom(...names()).chain((any) => limits(any, { quota, window })) },
  )
  return fc
    .tuple(fc.tuple(one, flags), fc.tuple(other, flags))
    .map(([a, b]) => [written(name, ...a), written(name, ...b)] as const)
}

function setups(algorithm: string): fc.Arbitrary<Setup> {
  const any = fc.constantFrom(...names())
  const second = any.chain((name) => versions('two', name))
  const first = fc.tuple(versions('one', algorithm), fc.option(second, { nil: undefined }))
  const other = fc.option(
    any.chain((name) => versions('three', name)),
    { nil: undefined },
  )
  return fc.tuple(first, other).map(([[one, two], three]) => ({
    members: [two === undefined ? [one] : [one, two], three === undefined ? [] : [three]],
  }))
}

const passing = fc.oneof(
  { weight: 5, arbitrary: fc.constant(0) },
  { weight: 5, arbitrary: fc.integer({ min: 0, max: 2_000_000 }).map((micros) => micros / 1000) },
  { weight: 1, arbitrary: fc.integer({ min: 0, max: 40_000 }) },
  { weight: 1, arbitrary: fc.integer({ min: -900_000, max: 0 }).map((micros) => micros / 1000) },
)

const step: fc.Arbitrary<Step> = fc.record({
  kind: fc.oneof(
    { weight: 12, arbitrary: fc.constant('consume' as const) },
    { weight: 2, arbitrary: fc.constantFrom('peek', 'refund', 'settle', 'release', 'renew') },
    { weight: 1, arbitrary: fc.constantFrom('reset', 'block', 'pause', 'penalize') },
  ) as fc.Arbitrary<Step['kind']>,
  after: passing,
  key: fc.constantFrom('a', 'a', 'a', 'b', '\ud800"'),
  version: fc.oneof(
    { weight: 6, arbitrary: fc.constant(0 as const) },
    { weight: 1, arbitrary: fc.constant(1 as const) },
  ),
  cost: fc.oneof({ weight: 4, arbitrary: fc.constant(1) }, { weight: 2, arbitrary: fc.nat({ max: 12 }) }),
  which: fc.nat({ max: 6 }),
  lasting: fc.constantFrom(0, 1, 250, 3000, 60_000),
})

/** The same limiters on one store. */
function limiterOn(store: Store, run: string, { members }: Setup): Limiter<Input> {
  const limiters = members.map((list, i) =>
    createLimiter<Input>({
      name: `${run}.${i}`,
      store,
      keyer: ({ key }) => (i === 0 ? key : 'everyone'),
      limits: list.map(
        (pair) =>
          ({ version }: Input) =>
            pair[version],
      ),
    }),
  )
  return stack(...limiters)
}

/** Runs a trace; what every step said. */
async function run(limiter: Limiter<Input>, clock: VirtualClock, steps: readonly Step[]): Promise<unknown[]> {
  const decisions: Decision[] = []
  const said: unknown[] = []
  let newest = clock.now()
  for (const { kind, after, key, version, cost, which, lasting } of steps) {
    // A clock may step back by less than the slack with which memory is freed.
    clock.advance(Math.max(after, newest - 900 - clock.now()))
    newest = Math.max(newest, clock.now())
    const past = decisions[decisions.length - 1 - which]
    if (kind === 'consume' || kind === 'peek') {
      const decision = await limiter[kind]({ key, version }, { cost })
      if (kind === 'consume') decisions.push(decision)
      said.push(decision)
    } else if (kind === 'reset') await limiter.reset({ key, version })
    else if (kind === 'block') await limiter.block({ key, version }, lasting === 0 ? 0 : `${lasting}ms`)
    else if (kind === 'pause') await limiter.pause({ key, version }, `${lasting + 1}ms`)
    else if (kind === 'penalize') await limiter.penalize({ key, version }, cost)
    else if (past === undefined) continue
    else if (kind === 'refund') await limiter.refund(past)
    else if (kind === 'settle') await limiter.settle(past, cost)
    else if (kind === 'release') await limiter.release(past)
    else said.push(await limiter.renew(past))
  }
  return said
}

/** A store of rows in a `Map`. Every third transaction is repeated, as after a conflict. */
function rowsIn(clock: VirtualClock): Store {
  const rows = new Map<string, Uint8Array>()
  let transactions = 0
  const database: RowDatabase = {
    transact(keys, change) {
      const stored = (): (Uint8Array | undefined)[] => keys.map((key) => rows.get(key)?.slice())
      const now = clock.now() * 1000
      if (transactions++ % 3 === 0) change(stored(), now)
      const { writes, result } = change(stored(), now)
      for (const { key, row } of writes) {
        if (row === undefined) rows.delete(key)
        else rows.set(key, row)
      }
      return result
    },
  }
  return rowStore(database, { clock })
}

async function forEach1000(keys: readonly string[], run: (some: string[]) => Promise<unknown>): Promise<void> {
  for (let i = 0; i < keys.length; i += 1000) await run(keys.slice(i, i + 1000))
}

describe('memory, Redis and rows decide the same', () => {
  let server: Awaited<ReturnType<typeof anyRedis>>
  let client: Redis
  let runs = 0
  let compared = 0
  beforeAll(async () => {
    server = await anyRedis()
    client = new Redis(server.url, { enableAutoPipelining: false })
  })
  afterAll(async () => {
    await forEach1000(await client.keys(`${server.prefix}*`), async (keys) => client.unlink(keys))
    client.disconnect()
    await server.stop()
  })

  const share = DECISIONS / names().length
  it.each(names())('under %s', { timeout: 60_000 + DECISIONS * 5 }, async (algorithm) => {
    const target = compared + share
    const property = fc.asyncProperty(
      setups(algorithm),
      fc.array(step, { minLength: STEPS / 2, maxLength: STEPS }),
      async (setup, steps) => {
        const name = `run${runs++}`
        const clocks = [virtualClock(), virtualClock(), virtualClock()] as const
        const memory = await run(limiterOn(memoryStore({ clock: clocks[0] }), name, setup), clocks[0], steps)
        const redis = await run(
          limiterOn(redisStore(client, { clock: clocks[1], prefix: server.prefix }), name, setup),
          clocks[1],
          steps,
        )
        const rows = await run(limiterOn(rowsIn(clocks[2]), name, setup), clocks[2], steps)
        compared += memory.length
        expect(redis).toEqual(memory)
        expect(rows).toEqual(memory)
      },
    )
    const assert = (): Promise<void> => fc.assert(property, { numRuns: 10 })
    // Several at once: a trace waits for Redis most of the time.
    while (compared < target) await Promise.all(Array.from({ length: 8 }, assert))
  })

  it('and no key is left without an expiry', async () => {
    expect(compared).toBeGreaterThanOrEqual(DECISIONS)
    const keys = await client.keys(`${server.prefix}*`)
    expect(keys.length).toBeGreaterThan(0)
    const left: string[] = []
    await forEach1000(keys, (some) =>
      Promise.all(some.map(async (key) => (await client.pttl(key)) > 0 || left.push(key))),
    )
    expect(left).toEqual([])
  })
})
