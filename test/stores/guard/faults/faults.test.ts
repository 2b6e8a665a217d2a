import { once } from 'node:events'
import { createServer } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { background } from '../../../../src/util/clock.ts'
import { verifyCounts, verifyTimes } from '../../../support/faults/expectations.ts'
import { experiment } from '../../../support/faults/experiment.ts'
import { type Fault, faults } from '../../../support/faults/faults.ts'
import { watch } from '../../../support/faults/leaks.ts'
import { recordWarnings } from '../../../support/guarded.ts'
import { defaultFamilies, type DefaultFamily } from '../../../support/redis-clients.ts'
import { until } from '../../../support/redis-tests.ts'

// `npm run faults` runs all faults with all clients, also in front of a cluster.

let warnings: ReturnType<typeof recordWarnings>
beforeEach(() => {
  warnings = recordWarnings()
})
afterEach(() => warnings.stop())

const [ioredis, ...others] = defaultFamilies
const TIME = { timeout: 60_000 }

function faultsNamed(names: RegExp): Fault[] {
  return faults.filter(({ name, places }) => names.test(name) && places.includes('single'))
}

async function verify(fault: Fault, family: DefaultFamily): Promise<void> {
  // A healthy server meets this deadline on a machine that does much else.
  const options = { fault, family, kind: 'single', deadline: 250, lasts: 900, around: 300 } as const
  const { figures } = await experiment(options)
  verifyCounts(options, figures)
  verifyTimes(options, figures)
  expect(
    warnings.codes.filter((code) => !['SLUICE_OUTAGE', 'SLUICE_SLOW_STORE', 'SLUICE_RECOVERY'].includes(code)),
  ).toEqual([])
}

describe('one Redis behind ioredis', () => {
  it.each(faultsNamed(/./))('$name', TIME, async (fault) => verify(fault, ioredis!))
})

describe.each(others)('one Redis behind $name', (family) => {
  it.each(faultsNamed(/^(killed|frozen)/))('$name', TIME, async (fault) => verify(fault, family))
})

it('finds a timer of the package and a socket that are left behind', async () => {
  const watched = watch()
  const cancel = background(60_000, () => undefined)
  const listener = createServer().listen(0, '127.0.0.1')
  await once(listener, 'listening')
  expect(watched.leaks()).toEqual(['timer of the package', 'TCPServerWrap'])
  cancel()
  listener.close()
  await once(listener, 'close')
  await until(async () => watched.leaks().length === 0)
  watched.stop()
})
