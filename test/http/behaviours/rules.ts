import { statuses } from '../../../src/testing/adapter/client.ts'
import { policy, ruled } from '../../../src/testing/adapter/limit-cases.ts'
import { type Cases, fault } from '../../../src/testing/adapter/world.ts'
import { equal } from '../../../src/testing/behaviour.ts'
import { warningsOf } from '../../../src/testing/warnings.ts'

export const rulesCases: Cases = {
  'match networks and count addresses': async (world) => {
    const address = world.by('x-client')
    const { limit } = ruled(
      world,
      [policy('address', 1, { key: 'ip' }), { name: 'partners', match: { ip: '192.0.2.0/24' }, allow: true }],
      { address },
    )
    const server = await world.serve({ limits: [limit] })
    equal(await statuses(server, 2, { headers: { 'x-client': '198.51.100.1' } }), [200, 429])
    equal(await statuses(server, 1, { headers: { 'x-client': '198.51.100.2' } }), [200])
    equal(await statuses(server, 3, { headers: { 'x-client': '192.0.2.9' } }), [200, 200, 200])
  },
  'count a request once that passes them twice, with one warning': async (world) => {
    const { limit } = ruled(world, [policy('all', 2), policy('other', 2)])
    const server = await world.serve({ limits: [limit, limit] })
    const codes = await warningsOf(async () => equal(await statuses(server, 3), [200, 200, 429]))
    // There are two limiters, one for each use.
    equal([...new Set(codes)], ['SLUICE_MOUNTED_TWICE'])
  },
  'pass an error of their attributes to the error handling': async (world) => {
    const { limit } = ruled(world, [policy('all', 1, { key: 'attribute:tenant' })], { attributes: fault })
    equal(await statuses(await world.serve({ limits: [limit] }), 1), [500])
  },
}
