import fc from 'fast-check'
import { describe, it } from 'vitest'
import { algorithmBehaviours } from '../../src/testing.ts'
import { limits, names, RUNS } from '../support/harness.ts'

/** It measures a rate instead of counting, so a cost that is split over ticks may fit although it does not at once. */
const MEASURED = ['exponential']

describe.each(names())('%s', (name) => {
  // A bucket that does not start full begins its refill with the first request, also with one that is denied.
  const full = limits(name).filter((each) => each['initial'] === undefined)
  const behaviours = algorithmBehaviours(fc.sample(full, RUNS.numRuns), {
    runs: RUNS.numRuns,
    measured: MEASURED.includes(name),
  })
  for (const { name: behaviour, run } of behaviours) it(behaviour, run)
})
