// Two processes, each with a cache, on one store. Every answer of a cache is compared with what the store says at that moment.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { limit } from '../../../src/index.ts'
import { QUICK } from '../../parts.ts'
import { type Counts, type Step, traces, verify } from '../../support/two-processes.ts'

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
      // Weak references are released between two turns of the event loop.
      await new Promise((resolve) => setImmediate(resolve))
    }
    // The search would prove nothing if the caches answered nothing, or if the processes did not interfere.
    expect(counts.answered).toBeGreaterThan(counts.decisions / 20)
    expect(counts.stale).toBeGreaterThan(0)
  },
)

it.each(QUICK)(
  'denies until a lock-out is over, also if another process asks under a version with a shorter block',
  async () => {
    const version = (block: '5s' | '10ms') =>
      limit({ algorithm: 'spacing', name: 'one', quota: 1, window: '100ms', block })
    const ask = (process: 0 | 1, version: 0 | 1, after: number): Step => ({
      process,
      kind: 'consume',
      after,
      key: 'a',
      resource: 'all',
      version,
      cost: 1,
      which: 0,
      trips: [0, 0],
      isAwaited: true,
    })
    const counts: Counts = { decisions: 0, answered: 0, stale: 0 }
    const steps = [ask(0, 0, 0), ask(1, 0, 0), ask(0, 1, 0), ask(1, 0, 100_000)]
    await verify({ maxAge: 1000, keyed: [[version('5s'), version('10ms')]], shared: [], steps }, counts)
    expect(counts).toEqual({ decisions: 4, answered: 1, stale: 0 })
  },
)
