// Runs all faults with all clients, in front of one Redis and of a cluster, and writes the figures into docs/internals/outages.md. The figures of
// faults that were not run stay as they are: `npm run faults -- -t 'a cluster.*ioredis'` runs a part.
import { afterAll, afterEach, beforeEach, describe, it } from 'vitest'
import { verifyCounts } from '../support/faults/expectations.ts'
import { experiment, type Options } from '../support/faults/experiment.ts'
import { faults } from '../support/faults/faults.ts'
import { recordWarnings } from '../support/guarded.ts'
import { defaultFamilies } from '../support/redis-clients.ts'
import { add, PLACES, write } from './results.ts'

/** The shortest deadline that the guard has by default. */
const TIMES = { deadline: 50, lasts: 1500, around: 400 }

let warnings: ReturnType<typeof recordWarnings>
beforeEach(() => {
  warnings = recordWarnings()
})
afterEach(() => warnings.stop())
afterAll(write)

async function run(options: Options): Promise<void> {
  const { figures } = await experiment(options)
  add(options, figures)
  verifyCounts(options, figures)
}

describe.each(PLACES)('$title', ({ kind }) => {
  describe.each(defaultFamilies)('$name', (family) => {
    const here = faults.filter(({ places }) => places.includes(kind))
    it.each(here)('$name', async (fault) => run({ fault, family, kind, ...TIMES }))
  })
})
