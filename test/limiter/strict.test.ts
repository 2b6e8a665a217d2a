// A client of a strict limit that pauses for the reported retryAfter is admitted.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createLimiter, memoryStore, spacing } from '../../src/index.ts'
import { limit } from '../../src/engine/limit.ts'
import { virtualClock } from '../../src/testing.ts'
import { limits as limitsOf, exactNames } from '../support/harness.ts'

const quota = fc.integer({ min: 1, max: 6 })
const window = fc.constantFrom(10, 100, 1000, 7001, 60_000)
const steps = fc.array(fc.record({ after: fc.nat({ max: 400 }), cost: fc.integer({ min: 1, max: 3 }) }), {
  maxLength: 20,
})

let runs = 0
it.each(exactNames())('reports a wait that holds where another limit has denied: %s', async (name) => {
  const strict = limitsOf(name, { quota, window, strict: true }).filter((each) => each['initial'] === undefined)
  const property = fc.asyncProperty(strict, steps, async (each, trace) => {
    const clock = virtualClock()
    const limiter = createLimiter({
      name: `run${runs++}`,
      keyer: () => 'k',
      limits: [limit({ ...each, name: 'strict' }), spacing('300ms', { name: 'gap' })],
      cost: (cost: number, { name }) => (name === 'gap' ? 1 : cost),
      store: memoryStore({ clock }),
    })
    for (const { after, cost } of trace) {
      clock.advance(after)
      const { allowed, retryAfter } = await limiter.consume(cost)
      if (allowed || retryAfter === Infinity) continue
      clock.advance(retryAfter)
      expect((await limiter.consume(cost)).allowed).toBe(true)
    }
  })
  await fc.assert(property, { numRuns: 300 })
})
