// Several processes with leases on one store, in virtual time: what they use, against what the store has charged and what the documents permit.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { memoryStore } from '../../src/index.ts'
import { names } from '../support/harness.ts'
import { type Counts, EVERYTHING, LEASED, LeaseWorld, traces, WHOLE } from '../support/lease-world.ts'

const RUNS = Number(process.env['SLUICE_LEASES'] ?? 300)

describe('a lease', () => {
  const counts: Counts = { decisions: 0, leased: 0, bounds: 0 }
  const search = (algorithm: string, kinds: typeof WHOLE, numRuns: number): Promise<void> =>
    fc.assert(
      fc.asyncProperty(traces({ algorithm, kinds, steps: 30 }), async (trace) => {
        await new LeaseWorld(trace, counts, (clock) => memoryStore({ clock })).run()
      }),
      { numRuns },
    )
  for (const algorithm of names()) {
    const runs = LEASED.includes(algorithm) ? RUNS : RUNS / 6
    it(`of ${algorithm} keeps the bounds in every interval`, () => search(algorithm, WHOLE, runs))
    it(`of ${algorithm} uses what was charged, in its time, whatever happens`, () =>
      search(algorithm, EVERYTHING, runs / 2))
  }
  it('was found in the search often', () => {
    console.log(counts)
    expect(counts.leased).toBeGreaterThan(counts.decisions / 10)
  })
})
