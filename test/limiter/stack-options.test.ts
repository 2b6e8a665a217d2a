// Limiters as the options of `stack`: their names, their one store, and what is refused.
import fc from 'fast-check'
import { describe, expect, expectTypeOf, it } from 'vitest'
import { rateLimit } from '../../adapters/express/index.ts'
import {
  createLimiter,
  type Decision,
  everyone,
  fixedWindow,
  type Limiter,
  memoryStore,
  perMinute,
  perSecond,
  stack,
} from '../../src/index.ts'
import { redisStore } from '../../src/stores/redis/index.ts'
import { virtualClock } from '../../src/testing.ts'
import { codeOf } from '../support/code-of.ts'

interface User {
  readonly user: string
}
interface Page {
  readonly page: string
}
const byUser = ({ user }: User): string => user
const byPage = ({ page }: Page): string => page
const ann = { user: 'ann' }
const all = { keyer: everyone, limits: perMinute(1) }
const users = { keyer: byUser, limits: perMinute(1) }
const pages = { keyer: byPage, limits: perMinute(1) }

describe('a stack of options', () => {
  it('decides as a stack of limiters that are created one by one', () => {
    const request = fc.record({ user: fc.constantFrom('a', 'b', 'c'), cost: fc.nat(3), after: fc.nat(40_000) })
    const quotas = fc.array(fc.tuple(fc.boolean(), fc.integer({ min: 1, max: 9 })), { minLength: 1, maxLength: 4 })
    fc.assert(
      fc.property(quotas, fc.array(request, { maxLength: 30 }), (given, requests) => {
        const clock = virtualClock()
        const parts = given.map(([isGlobal, quota]) => ({
          keyer: isGlobal ? everyone : byUser,
          limits: fixedWindow({ quota, window: '1m' }),
        }))
        const made = stack({ store: memoryStore({ clock }), limiters: parts })
        const store = memoryStore({ clock })
        const model = stack(...parts.map((each, i) => createLimiter<User>({ ...each, store, name: `part ${i}` })))
        for (const { user, cost, after } of requests) {
          clock.advance(after)
          const [decision, expected] = [made, model].map((each) => each.consume({ user }, { cost }) as Decision)
          expect(decision!.allowed).toBe(expected!.allowed)
          expect(decision!.limits.map(({ remaining }) => remaining)).toEqual(
            expected!.limits.map(({ remaining }) => remaining),
          )
        }
      }),
    )
  })

  it('names a limiter after the stack and its place, unless it has a name', () => {
    const store = memoryStore()
    stack({
      store,
      name: 'api',
      limiters: [
        { keyer: everyone, limits: perMinute(3) },
        { keyer: byUser, limits: perMinute(2), name: 'users' },
        { keyer: byUser, limits: perSecond(2) },
      ],
    }).consume(ann)
    stack({ store, limiters: [{ keyer: byUser, limits: perMinute(9) }] }).consume(ann)
    // Limiters of these names with equal definitions are the same limiters.
    const used = (name: string, keyer: typeof byUser, limits: ReturnType<typeof perMinute>): unknown =>
      createLimiter({ name, keyer, limits, store }).peek(ann, { cost: 0 }).limits[0]?.used
    expect(used('api-1', everyone, perMinute(3))).toBe(1)
    expect(used('users', byUser, perMinute(2))).toBe(1)
    expect(used('api-3', byUser, perSecond(2))).toBe(1)
    expect(used('stack-1', byUser, perMinute(9))).toBe(1)
    expect(used('stack-2', byUser, perMinute(9))).toBe(0)
  })

  it('calls the cost and the observer of each limiter', () => {
    const seen: unknown[] = []
    const limiter = stack({
      limiters: [
        { keyer: everyone, limits: perMinute(9), cost: () => 2, onDecision: ({ allowed }) => seen.push(allowed) },
        { keyer: byUser, limits: perMinute(9), cost: ({ user }) => user.length },
      ],
    })
    expect(limiter.consume(ann).limits.map(({ cost }) => cost)).toEqual([2, 3])
    expect(seen).toEqual([true])
  })

  it('refuses a second stack with the same names on the store, unless it is shared', () => {
    const store = memoryStore()
    const limiters = [{ keyer: everyone, limits: perMinute(3) }]
    const first = stack({ store, limiters })
    const other = { store, limiters: [{ keyer: everyone, limits: perMinute(4) }] }
    expect(codeOf(() => stack(other))).toBe('DUPLICATE_LIMITER')
    expect(() => stack(other)).toThrow(/^stack: limiters\[0\]: .*"stack-1".* named after the `name` of the stack/)
    expect(() => stack({ ...other, name: 'other' })).not.toThrow()
    const again = stack({ ...other, shared: true })
    first.consume({})
    expect(again.peek({}, { cost: 0 }).limits[0]).toMatchObject({ key: 'everyone' })
    expect(stack({ store, limiters }).peek({}, { cost: 0 }).limits[0]?.used).toBe(1)
  })

  it.each([
    ['stack: limiters: expected a list such as', {}],
    ['stack: limiters: expected a list such as', { limiters: [] }],
    ['stack: limiters: expected a list such as', { limiters: everyone }],
    ['stack: limiters[0]: expected options such as { keyer, limits }', { limiters: [undefined] }],
    ['write stack(one, other)', { limiters: [createLimiter(all)] }],
    ['stack: limiters[0]: limits: expected a limit', { limiters: [{ keyer: everyone }] }],
    ['Did you mean "limits"?', { limiters: [{ keyer: everyone, limit: 1 }] }],
    ['stack: limiters[1]: keyer: ', { limiters: [all, { limits: perMinute(1) }] }],
    ['beside `limiters`', { limiters: [{ ...all, store: memoryStore() }] }],
    ['beside `limiters`', { limiters: [{ ...all, shared: true }] }],
    ['beside `limiters`', { limiters: [{ ...all, receiptFor: '1h' }] }],
    ['stack: receiptFor: expected', { limiters: [all], receiptFor: 0 }],
    ['stack: receiptSecret: expected', { limiters: [all], receiptSecret: 5 }],
    ['limiters[0]: name: expected', { limiters: [{ ...all, name: 'naïve' }] }],
    ['stack: name: expected', { limiters: [all], name: 5 }],
    ['stack: name: expected', { limiters: [all], name: '' }],
    ['stack: store: expected', { limiters: [all], store: 5 }],
    ['stack: lease: expected', { limiters: [all], lease: 5 }],
    ['stack: lease: expected options such as { for, share, from }, got an array of 1', { limiters: [all], lease: [1] }],
    ['stack: lease.for: expected', { limiters: [all], lease: { for: '2h' } }],
    ['stack: shared: expected', { limiters: [all], shared: 1 }],
    ['Did you mean "store"?', { limiters: [all], stores: 5 }],
    ['write limiters: [{ keyer, limits }, { keyer, limits }]', all],
  ])('refuses wrong options, and says: %s', (message, options) => {
    expect(() => stack(options as never)).toThrow(message)
  })

  it('is what other functions suggest for a list of limiters', () => {
    const options = { limiters: [all] } as never
    expect(() => rateLimit(options)).toThrow('Instead of "limiters", write limiter: stack({ limiters: [')
    expect(() => createLimiter(options)).toThrow('Instead of "limiters", write stack({ limiters: [')
    expect(() => stack({ keyer: everyone } as never, { keyer: everyone } as never)).toThrow('or { limiters: [{ keyer')
  })
})

describe('the types of a stack', () => {
  it('take what all of its limiters take', () => {
    const both = stack({ limiters: [users, pages] })
    expectTypeOf(both).toEqualTypeOf<Limiter<User & Page, Decision>>()
    // @ts-expect-error without a page
    expect(() => both.consume(ann)).not.toThrow()
    const limits = stack({ limiters: [{ keyer: everyone, limits: ({ user }: User) => perMinute(user.length) }, pages] })
    expectTypeOf(limits).toEqualTypeOf<Limiter<User & Page, Decision>>()
    const later = stack({ limiters: [{ keyer: async ({ user }: User) => user, limits: perMinute(1) }, pages] })
    expectTypeOf(later).toEqualTypeOf<Limiter<User & Page>>()
    const store = redisStore({ evalsha: async () => [], eval: async () => [] })
    const stored = stack({ store, limiters: [users, pages] })
    expectTypeOf(stored).toEqualTypeOf<Limiter<User & Page, Promise<Decision>>>()
    const one = stack({ store, limiters: [users] })
    expectTypeOf(one).toEqualTypeOf<Limiter<User, Promise<Decision>>>()
  })

  it('know the request of an adapter', () => {
    rateLimit({ limiter: stack({ limiters: [all, { keyer: (request) => request.path, limits: perMinute(1) }] }) })
  })
})
