import { describe, expect, expectTypeOf, it, vi } from 'vitest'
import {
  createLimiter,
  type Decision,
  everyone,
  gcra,
  keyers,
  type Limit,
  type Limiter,
  type MaybePromise,
  memoryStore,
  perMinute,
  perSecond,
  stack,
  type SyncLimiterOptions,
} from '../../src/index.ts'
import { type RedisClient, redisStore } from '../../src/stores/redis/index.ts'
import { virtualClock } from '../../src/testing.ts'
import { afterTest } from '../support/after-test.ts'
import { codeOf } from '../support/code-of.ts'
import { recordWarnings } from '../support/guarded.ts'

interface Named {
  readonly name: string
}

const clock = virtualClock()
const byName = (input: Named): string => input.name
/** A Redis client that no test calls. */
const unusedClient = (): RedisClient => ({ evalsha: async () => [], eval: async () => [] })
const ada = { name: 'ada' }
const bob = { name: 'bob' }

/** Returns the state that a denial must not change. */
function held<Input>(limiter: Limiter<Input, Decision>, input: Input): unknown {
  return limiter.peek(input, { cost: 0 }).limits.map(({ remaining, resetAfter }) => [remaining, resetAfter])
}

function limiterOf<Input extends Named = Named>(
  limits: SyncLimiterOptions<Input>['limits'],
  options: Partial<SyncLimiterOptions<Input>> = {},
): Limiter<Input, Decision> {
  return createLimiter({ keyer: byName, limits, store: memoryStore({ clock }), ...options })
}

describe('consume', () => {
  it('admits the quota, then says when to retry', () => {
    const limiter = limiterOf(perSecond(2))
    const first = { allowed: true, remaining: 1, resetAfter: 500, retryAfter: 0, delay: 0 }
    expect(limiter.consume(ada)).toMatchObject(first)
    expect(limiter.consume(ada)).toMatchObject({ allowed: true, remaining: 0, resetAfter: 1000 })
    expect(limiter.consume(ada)).toMatchObject({ allowed: false, remaining: 0, retryAfter: 500 })
    clock.advance(500)
    expect(limiter.consume(ada).allowed).toBe(true)
  })

  it('reports every limit in the given order, and the binding one', () => {
    const limits = [perMinute(3), perSecond(2)]
    const limiter = limiterOf(limits)
    const decision = limiter.consume(ada)
    expect(decision.limits.map(({ limit }) => limit)).toEqual(limits)
    expect(decision.binding).toBe(decision.limits[1])
    const expected = {
      limit: limits[0],
      limiter: 'default',
      key: 'ada',
      cost: 1,
      allowed: true,
      remaining: 2,
      used: 1,
      retryAfter: 0,
      resetAfter: 20_000,
      delay: 0,
    }
    expect(decision.limits[0]).toEqual(expected)
    // A log shows no internals.
    expect(Object.keys(decision.limits[0]!)).toEqual(Object.keys(expected))
  })

  it('binds a denial to the limit with the longest wait', () => {
    const limiter = limiterOf([perSecond(1), perMinute(1)])
    limiter.consume(ada)
    const denied = limiter.consume(ada)
    expect(denied).toMatchObject({ allowed: false, retryAfter: 60_000 })
    expect(denied.binding?.limit.name).toBe('1-per-1m')
  })

  it('returns Infinity, and charges nothing, for a cost that never fits', () => {
    const limiter = limiterOf([perSecond(5), perMinute(100)])
    const before = held(limiter, ada)
    expect(limiter.consume(ada, { cost: 6 })).toMatchObject({ allowed: false, retryAfter: Infinity })
    expect(held(limiter, ada)).toEqual(before)
  })

  it('returns decisions that never change', () => {
    const limiter = limiterOf(perSecond(5))
    const first = limiter.consume(ada)
    const copy = structuredClone(first)
    for (let i = 0; i < 10; i++) limiter.consume(ada)
    expect(JSON.stringify(first)).toBe(JSON.stringify(copy))
  })
})

describe('several limits are one transaction', () => {
  it('charge nothing if one denies', () => {
    const limiter = limiterOf([perSecond(1), perMinute(10)])
    limiter.consume(ada)
    const before = held(limiter, ada)
    for (let i = 0; i < 20; i++) {
      const denied = limiter.consume(ada)
      expect(denied.allowed).toBe(false)
      expect(denied.limits.map(({ allowed }) => allowed)).toEqual([false, true])
      expect(denied.limits[1]).toMatchObject({ remaining: 9, resetAfter: 6000 })
    }
    expect(held(limiter, ada)).toEqual(before)
  })

  it('count the further requests of this cost that all of them allow', () => {
    const limiter = limiterOf([perSecond(10), perMinute(9)])
    expect(limiter.consume(ada, { cost: 2 }).remaining).toBe(3)
  })

  it('read the clock once', () => {
    const now = vi.fn(() => clock.now())
    const limiter = limiterOf([perSecond(1), perMinute(1)], { store: memoryStore({ clock: { now } }) })
    limiter.consume(ada)
    expect(now).toHaveBeenCalledTimes(1)
  })
})

describe('stack', () => {
  const perUser = () => limiterOf(perSecond(2), { name: 'user' })
  const perResource = () => limiterOf(perSecond(3), { name: 'resource', keyer: everyone })

  it('admits if all limiters admit, and charges all', () => {
    const [user, resource] = [perUser(), perResource()]
    const both = stack(user, resource)
    expect(both.consume(ada)).toMatchObject({ allowed: true, remaining: 1 })
    expect(both.consume(ada).limits.map(({ key, remaining }) => [key, remaining])).toEqual([
      ['ada', 0],
      ['everyone', 1],
    ])
    expect(both.consume(ada).allowed).toBe(false)
    expect(held(resource, ada)).toEqual([[1, 666.667]])
    expect(both.consume(bob).allowed).toBe(true)
    expect(both.consume(bob)).toMatchObject({ allowed: false, binding: { key: 'everyone' } })
    expect(held(user, bob)).toEqual([[1, 500]])
  })

  it('returns a limiter that can be stacked again', () => {
    const nested = stack(stack(perUser()), perResource())
    expect(nested.consume(ada).limits).toHaveLength(2)
    nested.reset(ada)
    expect(nested.peek(ada, { cost: 0 }).limits.map(({ resetAfter }) => resetAfter)).toEqual([0, 0])
  })

  it('charges a shared limit once, with the larger cost', () => {
    const shared = { name: 'one', store: memoryStore({ clock }), shared: true }
    const [two, three] = [2, 3].map((cost) => limiterOf(perSecond(10), { ...shared, cost: () => cost }))
    const both = stack(two!, three!)
    expect(both.consume(ada).limits.map(({ cost, remaining }) => [cost, remaining])).toEqual([[3, 7]])
  })

  it('refuses limiters whose stores cannot decide together', () => {
    const other = limiterOf(perSecond(1), { store: memoryStore({ clock: virtualClock() }) })
    expect(codeOf(() => stack(perUser(), other))).toBe('STORE_MISMATCH')
  })

  it('refuses any other value', () => {
    expect(() => stack()).toThrow('stack: expected one limiter or more, got undefined')
    expect(() => stack([perUser()] as never)).toThrow(
      'stack: expected limiters of createLimiter or stack, as separate arguments, or { limiters: [{ keyer, limits }, { keyer, limits }] }, got an array of 1',
    )
  })
})

describe('refund and settle', () => {
  it.each([undefined, {}, { allowed: true, limits: [{ cost: 1 }] }, Promise.resolve()])(
    'refuse a value that is no decision: %o',
    (given) => {
      const limiter = limiterOf(perSecond(1))
      expect(codeOf(() => limiter.refund(given as never))).toBe('INVALID_OPTION')
      expect(codeOf(() => limiter.settle(given as never, 1))).toBe('INVALID_OPTION')
    },
  )

  it.each([
    ['a promise', Promise.resolve()],
    [
      'the JSON of a decision, as from a queue of jobs',
      JSON.parse(JSON.stringify(limiterOf(perSecond(1)).consume(ada))),
    ],
  ])('ask for a decision or its receipt when given %s', (_, given) => {
    expect(() => limiterOf(perSecond(1)).refund(given as never)).toThrow(
      'decision: expected a decision from consume or wait, or its receipt, not a promise or a copy of one',
    )
  })

  it.each([undefined, '3', null, NaN, -1])('refuse a cost of %o, and can still be called again', (cost) => {
    const limiter = limiterOf(perSecond(5))
    const decision = limiter.consume(ada)
    expect(codeOf(() => limiter.settle(decision, cost as number))).toBe('INVALID_COST')
    limiter.settle(decision, 3)
    expect(held(limiter, ada)).toEqual([[2, 600]])
    // A wrong cost is a mistake also where nothing would change.
    for (const each of [decision, limiter.peek(ada), limiter.consume(ada, { cost: 9 })])
      expect(codeOf(() => limiter.settle(each, cost as number))).toBe('INVALID_COST')
  })
})

describe('LimitFuncs', () => {
  interface Call extends Named {
    plan: 'free' | 'pro'
    write?: boolean
  }
  const free = gcra({ name: 'plan', quota: 2, window: '1m' })
  const pro = gcra({ name: 'plan', quota: 100, window: '1m' })
  const byPlan = ({ plan }: Call): Limit => (plan === 'pro' ? pro : free)
  const writes = ({ write }: Call): Limit[] => (write ? [gcra({ name: 'writes', quota: 1, window: '1m' })] : [])

  it('return one limit or several, together with fixed ones', () => {
    const limiter = limiterOf<Call>([perSecond(50), byPlan, writes])
    const names = (call: Call): string[] => limiter.consume(call).limits.map(({ limit }) => limit.name)
    expect(names({ name: 'ada', plan: 'free' })).toEqual(['50-per-1s', 'plan'])
    expect(names({ name: 'ada', plan: 'pro', write: true })).toEqual(['50-per-1s', 'plan', 'writes'])
    expect(limiter.consume({ name: 'ada', plan: 'pro', write: true })).toMatchObject({
      allowed: false,
      binding: { limit: { name: 'writes' } },
    })
  })

  it('charge a limit once that is returned twice', () => {
    const limiter = limiterOf([() => free, () => [free, free]])
    expect(limiter.consume(ada).limits.map(({ remaining }) => remaining)).toEqual([1])
  })

  it('throw for two different limits with one name, and admit nothing', () => {
    expect(codeOf(() => limiterOf([() => free, () => pro]).consume(ada))).toBe('DUPLICATE_LIMIT')
  })
})

describe('costs', () => {
  it('come from the cost function for each limit', () => {
    const requests = perMinute(10, { name: 'requests' })
    const tokens = perMinute(1000, { name: 'tokens' })
    const limiter = limiterOf([requests, tokens], { cost: (_, limit) => (limit === tokens ? 300 : 1) })
    expect(limiter.consume(ada).limits.map(({ cost, remaining }) => [cost, remaining])).toEqual([
      [1, 9],
      [300, 700],
    ])
    expect(limiter.consume(ada, { cost: 2 }).limits.map(({ cost }) => cost)).toEqual([2, 2])
  })

  it.each([-1, 0.5, NaN, Infinity, 2 ** 53, '1'])('of %s are an error, and charge nothing', (cost) => {
    const limiter = limiterOf(perSecond(1))
    expect(codeOf(() => limiter.consume(ada, { cost: cost as number }))).toBe('INVALID_COST')
    expect(limiter.consume(ada).allowed).toBe(true)
  })
})

describe('keys', () => {
  it('count as decimal strings when they are numbers', () => {
    const limiter = createLimiter({ keyer: (key: string | number | bigint) => key, limits: perMinute(1) })
    expect([7, '7', 7n, 8].map((key) => limiter.consume(key).allowed)).toEqual([true, false, false, true])
  })

  it('that are missing share one bucket, with a warning that names the keyer', () => {
    const warnings = recordWarnings()
    afterTest(warnings.stop)
    const accountOf = (body: { email?: string }): string | undefined => body.email
    createLimiter({ keyer: accountOf, limits: perSecond(1) }).consume({})
    expect(warnings.messages).toEqual([expect.stringContaining('The keyer accountOf of limiter "default" returned')])
  })

  it('made of different parts are different', () => {
    const pair = keyers(
      ([a]: string[]) => a,
      ([, b]: string[]) => b,
    )
    const texts = [
      ['a', 'b'],
      ['ab', ''],
      ['', 'ab'],
      ['1:a', 'b'],
      ['1', ':a1:b'],
      ['a1:b', ''],
    ].map((parts) => pair(parts))
    expect(new Set(texts).size).toBe(texts.length)
    expect(pair([])).toBe('')
  })

  it('cannot be made without keyers', () => {
    expect(() => keyers()).toThrow('keyers: expected one keyer or more, got undefined')
    expect(() => keyers([byName, everyone] as never)).toThrow(
      'keyers: expected keyers as separate arguments, got an array of 2',
    )
  })

  it('are named when a keyer is an array, or returns one', () => {
    const limits = perMinute(1)
    expect(() => createLimiter({ keyer: [byName] as never, limits })).toThrow(
      'keyer: expected a function, such as keyers(byIP, byMethod) for a key of several parts, got an array of 1',
    )
    const limiter = createLimiter({ keyer: () => ['ann', 'GET'] as never, limits })
    expect(() => limiter.consume({})).toThrow(/^keyer: expected a string, .* Write keyers\(one, other\) for a key of/)
  })

  it('made of promised parts are promised', async () => {
    expect(await keyers(everyone, async () => 5)(undefined)).toBe('8:everyone1:5')
  })
})

describe('wrong options', () => {
  it.each([
    [{}, 'INVALID_OPTION'],
    [{ keyer: 'ip', limits: perSecond(1) }, 'INVALID_OPTION'],
    [{ keyer: byName }, 'INVALID_OPTION'],
    [{ keyer: byName, limits: 5 }, 'INVALID_LIMIT'],
    [{ keyer: byName, limits: [perSecond(1), 'x'] }, 'INVALID_LIMIT'],
    [{ keyer: byName, limits: perSecond(1), cost: 5 }, 'INVALID_OPTION'],
    [{ keyer: byName, limits: perSecond(1), name: 'é' }, 'INVALID_OPTION'],
    [{ keyer: byName, limits: perSecond(1), name: '' }, 'INVALID_OPTION'],
    [{ keyer: byName, limits: perSecond(1), name: 5 }, 'INVALID_OPTION'],
    [{ keyer: byName, limits: perSecond(1), name: ['a'] }, 'INVALID_OPTION'],
    [{ keyer: byName, limits: perSecond(1), name: null }, 'INVALID_OPTION'],
    [{ keyer: byName, limits: perSecond(1), store: {} }, 'INVALID_OPTION'],
    [{ keyer: byName, limits: perSecond(1), shared: 'yes' }, 'INVALID_OPTION'],
    [{ keyer: byName, limits: perSecond(1), windowMs: 5 }, 'UNKNOWN_OPTION'],
    [{ keyer: byName, limits: [perSecond(5), perSecond(5)] }, 'DUPLICATE_LIMIT'],
    [{ keyer: byName, limits: [perMinute(5, { name: 'a' }), perSecond(5, { name: 'a' })] }, 'DUPLICATE_LIMIT'],
    [undefined, 'INVALID_OPTION'],
  ])('%o: %s', (options, code) => {
    expect(codeOf(() => createLimiter(options as never))).toBe(code)
  })

  it.each([
    [2, 'consume: expected options such as { cost }, got 2'],
    [null, 'consume: expected options such as { cost }, got null'],
    [{ costs: 2 }, 'consume has no option "costs"; it has cost'],
  ])('of a call are refused, and nothing is charged: %o', async (options, message) => {
    const limiter = limiterOf(perSecond(1))
    expect(() => limiter.consume(ada, options as object)).toThrow(message)
    expect(() => limiter.peek(ada, options as object)).toThrow(message.replace('consume', 'peek'))
    expect(limiter.consume(ada).allowed).toBe(true)
    const later = createLimiter({ keyer: byName, limits: perSecond(1), store: redisStore(unusedClient()) })
    await expect(later.consume(ada, options as object)).rejects.toThrow(message)
  })

  it('are refused if they are no object', () => {
    const refused = /^(createLimiter|memoryStore|redisStore): expected options such as \{ .+ \}, got 1000 \(/
    for (const make of [createLimiter, memoryStore, (given: never) => redisStore(unusedClient(), given)])
      expect(() => make(1000 as never)).toThrow(refused)
  })

  it('refuse a clock without now()', () => {
    for (const clock of [() => 1, {}, null, 5]) {
      expect(codeOf(() => memoryStore({ clock: clock as never }))).toBe('INVALID_OPTION')
      expect(codeOf(() => redisStore(unusedClient(), { clock: clock as never }))).toBe('INVALID_OPTION')
    }
  })

  it('throw for a clock that returns no time', () => {
    for (const time of [NaN, -1, Infinity, 'now']) {
      const store = memoryStore({ clock: { now: () => time as number } })
      expect(codeOf(() => limiterOf(perSecond(1), { store }).consume(ada))).toBe('INVALID_CLOCK')
    }
  })
})

describe('the types', () => {
  it('say whether decisions are promises', () => {
    const limits = perSecond(1)
    const sync = createLimiter({ keyer: byName, limits })
    const later = createLimiter({ keyer: async (input: Named) => input.name, limits })
    const mixed = createLimiter({ keyer: (input: Named): MaybePromise<string> => input.name, limits })
    expectTypeOf(sync.consume(ada)).toEqualTypeOf<Decision>()
    expectTypeOf(later.consume(ada)).toEqualTypeOf<Promise<Decision>>()
    expectTypeOf(mixed.consume(ada)).toEqualTypeOf<MaybePromise<Decision>>()
    expectTypeOf(sync.reset(ada)).toEqualTypeOf<void>()
    expectTypeOf(stack(sync, sync).consume(ada)).toEqualTypeOf<Decision>()
  })
})
