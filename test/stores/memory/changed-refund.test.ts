// A refund across changed limits never lets a request pass that would be denied if the refunded one had never been made.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createLimiter, type Decision, type Limit, limit, type Limiter, memoryStore } from '../../../src/index.ts'
import { type VirtualClock, virtualClock } from '../../../src/testing.ts'
import { limits } from '../../support/harness.ts'

function limiterOn(clock: VirtualClock): Limiter<Limit, Decision> {
  return createLimiter<Limit>({ keyer: () => 'key', limits: (version) => version, store: memoryStore({ clock }) })
}

const moments = fc.array(
  fc.record({
    after: fc.oneof(fc.constant(0), fc.constantFrom(0.1, 0.5, 1), fc.double({ min: 0, max: 1.2, noNaN: true })),
    /** The limit of the request changes to the next one. */
    changes: fc.integer({ min: 0, max: 5 }).map((n) => n === 0),
    isRefunded: fc.boolean(),
    refunds: fc.nat({ max: 2 }),
    cost: fc.integer({ min: 1, max: 3 }),
  }),
  { minLength: 3, maxLength: 40 },
)

describe.each(['gcra', 'leakyBucket', 'spacing', 'slidingWindowLog', 'slidingWindowBuckets', 'slidingWindowCounter'])(
  'a refund under %s, when its limit has changed',
  (name) => {
    const versions = fc.uniqueArray(
      limits(name, { quota: fc.integer({ min: 1, max: 9 }), window: fc.constantFrom(10, 100, 1000), strict: false }),
      { minLength: 3, maxLength: 3, selector: ({ quota, window, ...own }) => JSON.stringify([quota, window, own]) },
    )

    it('admits no request that would not be admitted otherwise', () => {
      const property = fc.property(versions, moments, (versions, moments) => {
        const clock = virtualClock()
        const [refunding, without] = [limiterOn(clock), limiterOn(clock)]
        const open: Decision[] = []
        let version = 0
        for (const { after, changes, isRefunded, refunds, cost } of moments) {
          const next = changes ? Math.min(version + 1, 2) : version
          const named = limit({ ...versions[next]!, name: 'changing' })
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
      fc.assert(property, { numRuns: Number(process.env['RUNS'] ?? 400) })
    })
  },
)
