import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  createLimiter,
  type Decision,
  fixedWindow,
  gcra,
  type Limit,
  memoryStore,
  perSecond,
} from '../../../src/index.ts'
import { virtualClock } from '../../../src/testing.ts'
import { limits as limitsOf, names } from '../../support/harness.ts'
import { keyed } from '../../support/limiters.ts'

function setup(...limits: readonly Limit[]) {
  const clock = virtualClock()
  return { clock, limiter: keyed(memoryStore({ clock }), limits) }
}

describe('a block', () => {
  it('does not affect requests without a cost, and other keys', () => {
    const { limiter } = setup(perSecond(1, { block: '5s' }))
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
    const property = fc.property(limitsOf(name, small), fc.boolean(), steps, (limit, shadow, list) => {
      const clock = virtualClock()
      const limits = [limit, fixedWindow({ quota: 4, window: limit.window, name: 'beside', shadow })]
      const [inPlace, inRow] = [keyed(memoryStore({ clock }), limits), keyed(memoryStore({ clock }), limits)]
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
        const [placed, rowed] = [inPlace.peek('a'), inRow.peek('a')]
        if (!isDeepStrictEqual(placed, rowed)) expect(placed).toEqual(rowed)
      }
    })
    fc.assert(property, { numRuns: Number(process.env['RUNS'] ?? 60) })
  })
})
