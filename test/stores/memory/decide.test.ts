import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type CommonOptions,
  createLimiter,
  type Decision,
  fixedWindow,
  gcra,
  type Limit,
  type Limiter,
  memoryStore,
  perSecond,
  slidingWindowLog,
} from '../../../src/index.ts'
import type { Charge, SyncStore } from '../../../src/stores/store.ts'
import { type VirtualClock, virtualClock } from '../../../src/testing.ts'
import { limits as limitsOf, names } from '../../support/harness.ts'

interface Setup {
  readonly clock: VirtualClock
  readonly limiter: Limiter<string, Decision>
}

function setup(...limits: readonly Limit[]): Setup {
  const clock = virtualClock()
  return { clock, limiter: createLimiter({ keyer: (key: string) => key, limits, store: memoryStore({ clock }) }) }
}

const onePerSecond = (common: CommonOptions): Limit => perSecond(1, common)

describe('a block', () => {
  it('locks a key out after a denial, to the microsecond', () => {
    const { clock, limiter } = setup(onePerSecond({ block: '5s' }))
    limiter.consume('a')
    expect(limiter.consume('a')).toMatchObject({ allowed: false, retryAfter: 5000, resetAfter: 5000, remaining: 0 })
    clock.advance(4999.999)
    expect(limiter.consume('a')).toMatchObject({ allowed: false, retryAfter: 0.001 })
    clock.advance(0.001)
    expect(limiter.consume('a').allowed).toBe(true)
  })

  it('is not made longer by asking again', () => {
    const { clock, limiter } = setup(onePerSecond({ block: '5s' }))
    limiter.consume('a')
    for (let i = 0; i < 5; i++) {
      expect(limiter.consume('a').retryAfter).toBe(5000 - i * 1000)
      clock.advance(1000)
    }
    expect(limiter.consume('a').allowed).toBe(true)
  })

  it('that is shorter than the wait reports the wait', () => {
    const { clock, limiter } = setup(onePerSecond({ block: 400 }))
    limiter.consume('a')
    expect(limiter.consume('a').retryAfter).toBe(1000)
    clock.advance(100)
    expect(limiter.consume('a').retryAfter).toBe(900)
  })

  it('does not affect requests without a cost, and other keys', () => {
    const { limiter } = setup(onePerSecond({ block: '5s' }))
    limiter.consume('a')
    limiter.consume('a')
    const free = limiter.consume('a', { cost: 0 })
    expect(free).toMatchObject({ allowed: true, retryAfter: 0 })
    expect(free.limits[0]!.remaining).toBe(0)
    expect(limiter.consume('b').allowed).toBe(true)
  })

  it('lasts when the limit no longer blocks', () => {
    const clock = virtualClock()
    const limiter = createLimiter({ keyer: () => 'a', limits: (limit: Limit) => limit, store: memoryStore({ clock }) })
    const [blocking, mild] = [perSecond(1, { name: 'x', block: '5s' }), perSecond(1, { name: 'x' })]
    for (const limit of [mild, blocking]) limiter.consume(limit)
    clock.advance(1000)
    expect(limiter.consume(mild)).toMatchObject({ allowed: false, retryAfter: 4000 })
  })

  it('is not started by a peek', () => {
    const { clock, limiter } = setup(onePerSecond({ block: '5s' }))
    limiter.consume('a')
    expect(limiter.peek('a').retryAfter).toBe(5000)
    clock.advance(1000)
    expect(limiter.peek('a').allowed).toBe(true)
  })
})

describe('strict', () => {
  it('charges what it would admit, when another limit denies', () => {
    const strict = fixedWindow({ quota: 10, window: '1m', name: 'strict', strict: true })
    const { limiter } = setup(strict, onePerSecond({ name: 'other' }))
    for (let i = 0; i < 4; i++) limiter.consume('a')
    expect(limiter.peek('a', { cost: 0 }).limits[0]!.remaining).toBe(6)
  })

  it('charges nothing while a key is locked out', () => {
    const { clock, limiter } = setup(fixedWindow({ quota: 1, window: '1s', strict: true, block: '5s' }))
    limiter.consume('a')
    for (let i = 0; i < 10; i++) limiter.consume('a')
    clock.advance(5000)
    expect(limiter.consume('a').allowed).toBe(true)
  })
})

describe('a limit in ticks of a millisecond counts a millisecond when it has passed', () => {
  const coarse = gcra({ quota: 1, window: 1, burst: 5e12, name: 'coarse' })
  const generous = fixedWindow({ quota: 9e12, window: '1m', name: 'generous' })

  it.each([
    ['alone', [coarse]],
    ['beside another', [coarse, generous]],
  ])('%s', (_, limits) => {
    const { clock, limiter } = setup(...limits)
    limiter.consume('a', { cost: 5e12 })
    clock.advance(0.999)
    expect(limiter.consume('a').allowed).toBe(false)
    clock.advance(0.001)
    expect(limiter.consume('a').allowed).toBe(true)
  })
})

describe('a limit alone', () => {
  it('reports waits in milliseconds, whatever its ticks are', () => {
    const { clock, limiter } = setup(onePerSecond({}))
    limiter.consume('a')
    clock.advance(250)
    expect(limiter.consume('a')).toMatchObject({ allowed: false, retryAfter: 750, resetAfter: 750 })
  })

  it('keeps a denial that is charged, and no other', () => {
    const { clock, limiter } = setup(fixedWindow({ quota: 2, window: '1s' }))
    const strict = setup(gcra({ quota: 1, window: '1s', strict: true }))
    for (const each of [limiter, strict.limiter]) {
      each.consume('a')
      for (let i = 0; i < 3; i++) each.consume('a', { cost: 2 })
    }
    expect(limiter.peek('a').allowed).toBe(true)
    clock.advance(999)
    strict.clock.advance(999)
    expect(strict.limiter.consume('a').allowed).toBe(false)
    strict.clock.advance(999)
    expect(strict.limiter.consume('a').allowed).toBe(false)
  })

  it('is converted when another limit reads it', () => {
    const [one, other] = [
      fixedWindow({ quota: 5, window: '1s', name: 'x' }),
      gcra({ quota: 9, window: '1s', name: 'x' }),
    ]
    const clock = virtualClock()
    const limiter = createLimiter({ keyer: () => 'a', limits: (limit: Limit) => limit, store: memoryStore({ clock }) })
    limiter.consume(one)
    expect(limiter.consume(other)).toMatchObject({ remaining: 8 })
  })
})

describe('several limits on a key that was seen before', () => {
  const [two, five] = [fixedWindow({ quota: 2, window: '1s' }), fixedWindow({ quota: 5, window: '1m' })]

  it('return what they would decide without a charge', () => {
    const { limiter } = setup(two, five)
    limiter.consume('a')
    for (let i = 0; i < 3; i++) expect(limiter.peek('a').limits.map(({ remaining }) => remaining)).toEqual([0, 3])
    expect(limiter.consume('a').allowed).toBe(true)
  })

  it('deny for one of them, unless it only watches', () => {
    const watching = fixedWindow({ quota: 2, window: '1s', shadow: true })
    const [enforced, shadowed] = [setup(two, five), setup(watching, five)]
    const verdicts = ({ limiter }: Setup): boolean[] => [1, 2, 3, 4, 5, 6].map(() => limiter.consume('a').allowed)
    expect(verdicts(enforced)).toEqual([true, true, false, false, false, false])
    expect(verdicts(shadowed)).toEqual([true, true, true, true, true, false])
  })

  it('are locked out together with the one that blocks', () => {
    const { clock, limiter } = setup(two, fixedWindow({ quota: 5, window: '1m', block: '2m' }))
    for (let i = 0; i < 5; i++) {
      limiter.consume('a')
      clock.advance(1000)
    }
    expect(limiter.consume('a').retryAfter).toBe(120_000)
    clock.advance(119_999)
    expect(limiter.consume('a').allowed).toBe(false)
    clock.advance(1)
    expect(limiter.consume('a').allowed).toBe(true)
  })
})

describe('a key never seen', () => {
  it('gets the state of a limit without the charge, when another limit denies', () => {
    const { limiter } = setup(
      fixedWindow({ quota: 9, window: '1h', name: 'wide' }),
      fixedWindow({ quota: 1, window: '1h', name: 'narrow' }),
    )
    const { allowed, limits } = limiter.consume('a', { cost: 2 })
    expect(allowed).toBe(false)
    expect(limits.map((each) => [each.allowed, each.remaining])).toEqual([
      [true, 9],
      [false, 1],
    ])
  })

  it('begins in the millisecond that it comes in, where ticks are milliseconds', () => {
    const longest = 5e12
    const { clock, limiter } = setup(fixedWindow({ quota: 1, window: longest }))
    const began = clock.now()
    clock.advance(0.5)
    limiter.consume('a')
    clock.advance(began + longest - clock.now())
    expect(limiter.consume('a').allowed).toBe(true)
  })
})

describe('a key that one limit has seen before', () => {
  const chargeOf = ({ limits }: Decision): Charge => limits[0] as Charge

  it('is charged, and refunded', () => {
    const { limiter } = setup(perSecond(2))
    limiter.consume('a')
    const second = limiter.consume('a')
    expect(chargeOf(second).charged).toBe(1)
    limiter.refund(second)
    expect(limiter.peek('a').allowed).toBe(true)
  })

  it('is not charged by a denial, nor by a cost of 0', () => {
    const { limiter } = setup(perSecond(1))
    limiter.consume('a')
    const denied = limiter.consume('a')
    const free = limiter.consume('a', { cost: 0 })
    expect([denied, free].map(({ allowed }) => allowed)).toEqual([false, true])
    expect([denied, free].map((each) => [chargeOf(each).charged, chargeOf(each).at])).toEqual([
      [0, 0],
      [0, 0],
    ])
  })
  it('keeps the entries of a log', () => {
    const { clock, limiter } = setup(slidingWindowLog({ quota: 2, window: '1s' }))
    const admitted = [0, 600, 400, 100].map((ms) => {
      clock.advance(ms)
      return limiter.consume('a').allowed
    })
    expect(admitted).toEqual([true, true, true, false])
  })
})

const steps = fc.array(
  fc.record({
    kind: fc.constantFrom('consume', 'consume', 'refund', 'settle'),
    /** Windows before the step. */
    after: fc.oneof(fc.constant(0), fc.constant(0), fc.double({ min: 0, max: 1.2, noNaN: true })),
    cost: fc.nat({ max: 3 }),
    which: fc.nat({ max: 3 }),
  }),
  { minLength: 3, maxLength: 40, size: 'max' },
)
const small = { quota: fc.integer({ min: 1, max: 9 }), window: fc.constantFrom(10, 1000, 60_000), strict: false }

describe.each(names())('a state of %s in its place', (name) => {
  it('becomes what it would become in a row', () => {
    const property = fc.property(limitsOf(name, small), steps, (limit, list) => {
      const clock = virtualClock()
      const on = (): Limiter<string, Decision> =>
        createLimiter({ keyer: (key: string) => key, limits: limit, store: memoryStore({ clock }) })
      const [inPlace, inRow] = [on(), on()]
      // A key that was locked out has a rare part, so rows decide it.
      inRow.block('a', 1)
      clock.advance(1)
      const decisions: (readonly [Decision, Decision])[] = []
      for (const { kind, after, cost, which } of list) {
        clock.advance(Math.round(after * limit.window))
        const [one, other] = decisions.at(-1 - which) ?? []
        if (kind === 'consume') decisions.push([inPlace.consume('a', { cost }), inRow.consume('a', { cost })])
        else if (one?.allowed === true && other !== undefined) {
          for (const [limiter, decision] of [[inPlace, one] as const, [inRow, other] as const]) {
            if (kind === 'refund') limiter.refund(decision)
            else limiter.settle(decision, cost)
          }
        }
        expect(inPlace.peek('a')).toEqual(inRow.peek('a'))
      }
    })
    fc.assert(property, { numRuns: Number(process.env['RUNS'] ?? 200) })
  })
})

describe('a wrapper around a memory store', () => {
  const wrappers: Record<string, (store: SyncStore, run: SyncStore['run']) => SyncStore> = {
    'made by a spread': (store, run) => ({ ...store, run }),
    'that is a proxy': (store, run) =>
      new Proxy(store, {
        get: (target, name) => (name === 'run' ? run : (Reflect.get(target, name) as unknown)),
      }),
  }

  it.each(Object.entries(wrappers))('%s receives each decision', (_, wrap) => {
    const store = memoryStore()
    const kinds: string[] = []
    const wrapper = wrap(store, (operation, reply) => {
      kinds.push(operation.kind)
      return store.run(operation, reply)
    })
    const limiter = createLimiter({ keyer: (key: string) => key, limits: perSecond(1), store: wrapper })
    expect([limiter.consume('a').allowed, limiter.consume('a').allowed]).toEqual([true, false])
    limiter.peek('a')
    expect(kinds).toEqual(['consume', 'consume', 'peek'])
  })
})
