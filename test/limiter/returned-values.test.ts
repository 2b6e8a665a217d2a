// What a function of the user returns by mistake. It never leaves an input uncounted without an error.
import { describe, expect, test } from 'vitest'
import * as sluice from '../../src/index.ts'
import { remoteStore } from '../../src/testing/later-store.ts'
import { warningsOf } from '../support/http.ts'

const { createLimiter, keyers, memoryStore, perHour, perMinute, stack, unlimited } = sluice
type Limit = sluice.Limit

const LIMIT = perMinute(5, { name: 'five' })
const key = (): string => 'k'

/** Expects that a call throws, or rejects with, an error of this code. */
async function expectCode(code: string, call: () => unknown): Promise<void> {
  await expect((async () => call())()).rejects.toEqual(expect.objectContaining({ name: 'SluiceError', code }))
}

interface User {
  readonly plan: string
}
const plans: Readonly<Record<string, Limit>> = { free: LIMIT }
const byPlan = ({ plan }: User): Limit => plans[plan] as Limit

/** Functions of limits that return nothing for the plan of the user. */
const nothing: Readonly<Record<string, sluice.Limits<User>>> = {
  undefined: byPlan,
  null: (user) => byPlan(user) ?? (null as never),
  'undefined in a list': (user) => [LIMIT, byPlan(user)],
  'null in a list': (user) => [byPlan(user) ?? (null as never)],
  'a list with a gap': () => new Array<Limit>(1),
  'a promise of undefined': async (user) => byPlan(user),
  'a promise of null': async (user) => byPlan(user) ?? (null as never),
  'a promise of a list with undefined': async (user) => [byPlan(user)],
  'undefined beside another limit': [LIMIT, byPlan],
  'undefined beside a function that is pending': [async () => LIMIT, byPlan],
  'nothing, as a function without `return`': (() => {}) as never,
}

describe.each(Object.entries(nothing))('a LimitFunc that returns %s', (_, limits) => {
  test('is INVALID_LIMIT in every call, and charges nothing', async () => {
    for (const store of [memoryStore(), remoteStore(memoryStore())]) {
      const limiter = createLimiter<User>({ keyer: key, limits, store })
      const counts = createLimiter({ keyer: key, limits: [LIMIT, perHour(9)], shared: true, store })
      const both = stack(createLimiter<User>({ name: 'other', keyer: key, limits: perHour(9), store }), limiter)
      const user = { plan: 'enterprize' }
      for (let i = 0; i < 20; i++)
        for (const each of [limiter, both]) await expectCode('INVALID_LIMIT', () => each.consume(user))
      await expectCode('INVALID_LIMIT', () => limiter.peek(user))
      await expectCode('INVALID_LIMIT', () => limiter.wait(user))
      await expectCode('INVALID_LIMIT', () => limiter.block(user, '1m'))
      await expectCode('INVALID_LIMIT', () => limiter.penalize(user, 1))
      expect((await counts.peek({}, { cost: 0 })).limits.map(({ remaining }) => remaining)).toEqual([5, 9])
    }
  })
})

describe('a LimitFunc', () => {
  test('fails with a message that says what to return', () => {
    const limiter = createLimiter({ keyer: key, limits: byPlan })
    expect(limiter.consume({ plan: 'free' }).remaining).toBe(4)
    expect(() => limiter.consume({ plan: 'enterprize' })).toThrow(
      'limits: expected a limit such as perSecond(10), or a function that returns one, got undefined. A function returns a limit for every ' +
        'input, such as `plans[user.plan] ?? plans.free`, and `unlimited` for an input that is not limited (',
    )
  })

  test.each([
    ['unlimited', () => unlimited],
    ['an empty list', () => []],
    ['a promise of unlimited', async () => unlimited],
  ])('exempts an input with %s', async (_, limits) => {
    const limiter = createLimiter({ keyer: key, limits })
    for (let i = 0; i < 20; i++)
      expect(await limiter.consume({})).toMatchObject({ allowed: true, remaining: Infinity, limits: [] })
    const beside = createLimiter({ keyer: key, limits: [LIMIT, limits] })
    expect((await beside.consume({})).limits.map(({ remaining }) => remaining)).toEqual([4])
  })

  test('has a type without undefined, null and void', () => {
    const wrong: sluice.LimitFunc<User>[] = [
      // @ts-expect-error -- a plan may be missing
      ({ plan }) => new Map([['free', LIMIT]]).get(plan),
      // @ts-expect-error -- null
      ({ plan }) => (plan === 'free' ? LIMIT : null),
      // @ts-expect-error -- a promise of undefined
      async ({ plan }) => (plan === 'free' ? LIMIT : undefined),
      // @ts-expect-error -- a list with undefined
      ({ plan }) => [plan === 'free' ? LIMIT : undefined],
      // @ts-expect-error -- no return
      () => {},
    ]
    const right: sluice.SyncLimitFunc<User>[] = [
      ({ plan }) => (plan === 'free' ? LIMIT : unlimited),
      () => [],
      () => [LIMIT],
    ]
    // @ts-expect-error -- a plan may be missing
    createLimiter({ keyer: key, limits: (user: Partial<User>) => (user.plan === 'free' ? LIMIT : undefined) })
    expect([wrong.length, right.length, Object.isFrozen(unlimited), unlimited]).toEqual([5, 3, true, []])
  })
})

test.each([undefined, null, NaN, -1, 0.5, Infinity, '1', '', true, {}, 1n, async () => 1])(
  'a cost function that returns %o is INVALID_COST, also as a promise, and charges nothing',
  async (cost) => {
    for (const returned of [cost, Promise.resolve(cost)]) {
      for (const store of [memoryStore(), remoteStore(memoryStore())]) {
        const limiter = createLimiter<object>({ keyer: key, limits: LIMIT, cost: () => returned as never, store })
        await expectCode('INVALID_COST', () => limiter.consume({}))
        const counts = createLimiter({ keyer: key, limits: LIMIT, shared: true, store })
        expect((await counts.peek({}, { cost: 0 })).limits.map(({ remaining }) => remaining)).toEqual([5])
      }
    }
  },
)

test('a function of units or of actual costs that returns nothing is INVALID_COST', async () => {
  const limiter = createLimiter<object>({ keyer: key, limits: LIMIT })
  const decision = limiter.consume({})
  for (const wrong of [undefined, null, NaN, -1]) {
    await expectCode('INVALID_COST', () => limiter.settle(decision, () => wrong as never))
    await expectCode('INVALID_COST', () => limiter.penalize({}, () => wrong as never))
  }
  expect(limiter.peek({}, { cost: 0 }).limits.map(({ remaining }) => remaining)).toEqual([4])
})

test('a keyer may return null, as `headers.get` does', () => {
  const keyer: sluice.SyncKeyer<Request> = ({ headers }) => headers.get('x-api-key')
  const limiter = createLimiter({ keyer, limits: LIMIT })
  const tenants: sluice.Limiter<Request> = createLimiter({
    keyer: keyers(keyer, async ({ headers }: Request) => headers.get('x-tenant')),
    limits: LIMIT,
  })
  const request = new Request('http://localhost/', { headers: { 'x-api-key': 'ann' } })
  expect(limiter.consume(request).remaining).toBe(4)
  expect(limiter.key('ann').peek({ cost: 0 }).limits[0]!.remaining).toBe(4)
  expect(tenants.consume(request)).toBeInstanceOf(Promise)
})

test.each([undefined, null, ''])('inputs with the key %o share one bucket, with a warning', async (missing) => {
  for (const keyer of [() => missing, async () => missing, keyers(() => missing as never)]) {
    const limiter = createLimiter<object>({ keyer: keyer as never, limits: LIMIT })
    const codes = await warningsOf(async () => {
      for (let i = 0; i < 5; i++) expect((await limiter.consume({})).allowed).toBe(true)
      expect((await limiter.consume({})).allowed).toBe(false)
    })
    expect(codes).toEqual(['SLUICE_UNIDENTIFIED'])
  }
})

test.each([NaN, true, false, {}, Symbol('ann'), () => 'ann'])(
  'a keyer that returns %o is INVALID_KEY',
  async (wrong) => {
    for (const keyer of [() => wrong, async () => wrong, keyers(() => wrong as never)]) {
      const limiter = createLimiter<object>({ keyer: keyer as never, limits: LIMIT })
      await expectCode('INVALID_KEY', () => limiter.consume({}))
    }
  },
)
