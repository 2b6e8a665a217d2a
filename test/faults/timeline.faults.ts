// Freezes a Redis for some seconds and draws what happened, for docs/guides/redis-outages.md.
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { verifyCounts } from '../support/faults/expectations.ts'
import { experiment } from '../support/faults/experiment.ts'
import { faults } from '../support/faults/faults.ts'
import { recordWarnings } from '../support/guarded.ts'
import { defaultFamilies } from '../support/redis-clients.ts'
import { writeFormatted } from './results.ts'
import { drawn, type Timeline, timelineOf } from './timeline.ts'

const data = fileURLToPath(new URL('timeline.json', import.meta.url))
const picture = fileURLToPath(new URL('../../docs/img/outage.svg', import.meta.url))

it('the timeline of an outage', async () => {
  const warnings = recordWarnings()
  const fault = faults.find(({ name }) => name.startsWith('frozen'))!
  const times = { deadline: 50, lasts: 4000, around: 2000 }
  const options = { fault, family: defaultFamilies[0]!, kind: 'single', ...times } as const
  const result = await experiment(options)
  warnings.stop()
  verifyCounts(options, result.figures)
  await writeFormatted(data, JSON.stringify(timelineOf(times.deadline, result)))
  writeFileSync(picture, await drawn(JSON.parse(readFileSync(data, 'utf8')) as Timeline))
  expect(result.samples.length).toBeGreaterThan(1000)
})
