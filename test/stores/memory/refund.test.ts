// A refund across changed limits and resets never lets a request pass that would be denied if the refunded one had never been made.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createLimiter, type Decision, gcra, type Limit, limit, type Limiter, memoryStore } from '../../../src/index.ts'
import { type VirtualClock, virtualClock } from '../../../src/testing.ts'
import { limits } from '../../support/harness.ts'

function limiterOn(clock: VirtualClock): Limiter<Limit, Decision> {
  return createLimiter<Limit>({ keyer: () => 'key', limits: (version) => version, store: memoryStore({ clock }) })
}

const moments = fc.array(
  fc.record({
    after: fc.oneof(
      fc.constant(0),
      fc.constant(0),
      fc.constantFrom(0.1, 0.5, 1),
      fc.double({ min: 0, max: 1.2, noNaN: true }),
    ),
    /** The limit of the request changes to this version, or stays as it is. */
    version: fc.oneof(
      { weight: 3, arbitrary: fc.constant(undefined) },
      { weight: 1, arbitrary: fc.constantFrom(0, 1, 2) },
    ),
    isRefunded: fc.boolean(),
    isReset: fc.oneof({ weight: 8, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
    refunds: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat({ max: 30 }) }),
    cost: fc.integer({ min: 1, max: 3 }),
  }),
  { minLength: 3, maxLength: 40, size: 'max' },
)

const small = { quota: fc.integer({ min: 1, max: 9 }), window: fc.constantFrom(10, 100, 1000), strict: false }

describe.each(['gcra', 'leakyBucket', 'spacing', 'slidingWindowLog', 'slidingWindowBuckets', 'slidingWindowCounter'])(
  'a refund under %s, when its limit has changed or its key was reset',
  (name) => {
    const versions = fc.uniqueArray(limits(name, small), {
      minLength: 3,
      maxLength: 3,
      selector: ({ quota, window, ...own }) => JSON.stringify([quota, window, own]),
    })

    it('admits no request that would not be admitted otherwise', () => {
      const property = fc.property(versions, moments, (versions, moments) => {
        const clock = virtualClock()
        const [refunding, without] = [limiterOn(clock), limiterOn(clock)]
        const open: Decision[] = []
        let version = 0
        for (const { after, version: next = version, isReset, isRefunded, refunds, cost } of moments) {
          const named = limit({ ...versions[next]!, name: 'changing' })
          if (isReset) for (const each of [refunding, without]) each.reset(named)
          clock.advance(Math.round(after * named.window))
          for (let n = 0; n < refunds; n++) {
            const decision = open.pop()
            if (decision !== undefined) refunding.refund(decision)
          }
          // A denial would keep a converted state in one store and not in the other.
          if (!refunding.peek(named, { cost }).allowed) continue
          // So that both stores change the limit at the same time.
          const isOpen = isRefunded && next === version
          version = next
          const decision = refunding.consume(named, { cost })
          if (isOpen) open.push(decision)
          else expect(without.consume(named, { cost }).allowed).toBe(true)
        }
      })
      fc.assert(property, { numRuns: Number(process.env['RUNS'] ?? 100) })
    })
  },
)

it('a refund of a charge before two changes gives nothing back while its state would have counted', () => {
  const clock = virtualClock()
  const limiter = limiterOn(clock)
  const long = gcra({ quota: 10, window: '1h', name: 'changing' })
  const short = gcra({ quota: 10, window: '10s', name: 'changing' })
  const first = limiter.consume(long, { cost: 5 })
  for (const [each, cost] of [
    [short, 5],
    [long, 1],
  ] as const) {
    clock.advance(1000)
    limiter.consume(each, { cost })
  }
  clock.advance(60_000)
  limiter.refund(first)
  expect(limiter.peek(long, { cost: 0 }).limits[0]!.remaining).toBe(0)
})
