import { Agent, request } from 'node:http'
import { json } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import { remoteStore, type StoreMessage } from '../../../../src/extend.ts'
import { verifyCounts, verifyTimes } from '../../../support/faults/expectations.ts'
import { experiment, type Family } from '../../../support/faults/experiment.ts'
import { type Fault, faults } from '../../../support/faults/faults.ts'
import type { PlaceKind } from '../../../support/faults/place.ts'
import { warningsOfEachTest } from '../../../support/guarded.ts'
import { defaultFamilies } from '../../../support/redis-clients.ts'

// `npm run faults` runs all faults with all clients, also in front of a cluster.

const warnings = warningsOfEachTest()

// iovalkey has the code of ioredis.
const [ioredis, , ...others] = defaultFamilies
const TIME = { timeout: 60_000 }

function faultsNamed(names: RegExp, kind: PlaceKind = 'single'): Fault[] {
  return faults.filter(({ name, places }) => names.test(name) && places.includes(kind))
}

async function verify(fault: Fault, family: Family, kind: PlaceKind = 'single'): Promise<void> {
  // A healthy server meets this deadline on a machine that does much else.
  // While this process is busy, the guard waits for a second without an answer. A client over HTTP makes it busier.
  const options = { fault, family, kind, deadline: 250, lasts: kind === 'remote' ? 1500 : 900, around: 300 }
  const { figures } = await experiment(options)
  verifyCounts(options, figures)
  verifyTimes(options, figures)
  expect(
    warnings.codes.filter(
      (code) => !['SLUICE_OUTAGE', 'SLUICE_SLOW_STORE', 'SLUICE_RECOVERY', 'SLUICE_LOCAL'].includes(code),
    ),
  ).toEqual([])
}

describe('one Redis behind ioredis', () => {
  it.each(faultsNamed(/./))('$name', TIME, async (fault) => verify(fault, ioredis!))
})

describe.each(others)('one Redis behind $name', (family) => {
  it.each(faultsNamed(/^(killed|frozen)/))('$name', TIME, async (fault) => verify(fault, family))
})

/** `remoteStore` over HTTP. */
const overHttp: Family = {
  name: 'remoteStore',
  async remote(port) {
    const agent = new Agent({ keepAlive: true })
    const send = (message: StoreMessage): Promise<unknown> =>
      new Promise((resolve, reject) => {
        const sent = request({ host: '127.0.0.1', port, method: 'POST', agent })
        sent.on('response', (response) => void json(response).then(resolve, reject))
        sent.on('error', reject).end(JSON.stringify(message))
      })
    return { client: agent, store: remoteStore(send), close: () => agent.destroy() }
  },
}

// To a guard, the other faults of the network are one of these: calls fail at once, fail late, or are answered late.
describe('a process that counts, behind remoteStore', () => {
  it.each(faultsNamed(/^(killed|frozen|network cuts|replies)/, 'remote'))('$name', TIME, async (fault) =>
    verify(fault, overHttp, 'remote'),
  )
})
