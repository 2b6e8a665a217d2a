// Two processes, each with a cache, on one store. Every answer of a cache is compared with what the store says at that moment.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { type Counts, traces, verify } from '../../support/two-processes.ts'

/** Decisions in a normal run; as many as wanted with SLUICE_DENIALS. */
const DECISIONS = Number(process.env['SLUICE_DENIALS'] ?? 50_000)

it(
  'denies nothing that the store would admit, but for changes by another process within maxAge',
  { timeout: 60_000 + DECISIONS },
  async () => {
    const counts: Counts = { decisions: 0, answered: 0, stale: 0 }
    while (counts.decisions < DECISIONS) {
      await fc.assert(
        fc.asyncProperty(traces(60), (trace) => verify(trace, counts)),
        { numRuns: 100 },
      )
    }
    // The search would prove nothing if the caches answered nothing, or if the processes did not interfere.
    expect(counts.answered).toBeGreaterThan(counts.decisions / 20)
    expect(counts.stale).toBeGreaterThan(0)
  },
)
