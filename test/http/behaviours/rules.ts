import { ask, limitHeaders, statuses } from '../../../src/testing/adapter/client.ts'
import { policy, ruled } from '../../../src/testing/adapter/limit-cases.ts'
import { type Cases, fault, laterStore, one, preflight } from '../../../src/testing/adapter/world.ts'
import { equal, fails } from '../../../src/testing/behaviour.ts'
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
  'of several policies are one transaction and one header': async (world) => {
    const { limit } = ruled(world, [policy('user', 3, { key: 'header:x-user' }), policy('all', 1)])
    const server = await world.serve({ limits: [limit] })
    const ann = { headers: { 'x-user': 'ann' } }
    equal(limitHeaders(await ask(server, '/', ann)), {
      'ratelimit-policy': '"user";q=3;w=60, "all";q=1;w=60',
      ratelimit: '"user";r=2;t=60, "all";r=0;t=60',
    })
    equal(limitHeaders(await ask(server, '/', ann))['ratelimit'], '"all";r=0;t=60')
  },
  'change while the server runs, and usage is kept': async (world) => {
    const { rules, limit } = ruled(world, [policy('all', 2)])
    const server = await world.serve({ limits: [limit] })
    equal(await statuses(server, 3), [200, 200, 429])
    rules.replace({ policies: [policy('all', 4)], otherwise: 'allow' })
    equal(await statuses(server, 3), [200, 200, 429])
    rules.replace({ policies: [], otherwise: 'allow' })
    equal(await statuses(server, 2), [200, 200])
  },
  'work with skip, refunds and preflights': async (world) => {
    const { limit } = ruled(world, [policy('all', 1)])
    const skip = (request: unknown): boolean => world.harness.header(request, 'x-skip') === '1'
    const skipped = await world.serve({ limits: [{ ...limit, skip }] })
    equal(await statuses(skipped, 2, { headers: { 'x-skip': '1' } }), [200, 200])
    equal(await statuses(skipped, 2), [200, 429])
    equal(await statuses(skipped, 2, preflight), [200, 429])
    const refunded = ruled(world, [policy('all', 1)]).limit
    equal(await statuses(await world.serve({ limits: [{ ...refunded, refundWhen: 'success' }] }), 3), [200, 200, 200])
  },
  'work in an asynchronous store': async (world) => {
    const { rules } = ruled(world, [policy('all', 1)])
    const server = await world.serve({ limits: [{ rules, store: laterStore(world) }] })
    equal(await statuses(server, 2), [200, 429])
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
  'are refused together with a keyer, limits or a limiter': async (world) => {
    const { limit } = ruled(world, [])
    for (const other of [{ limits: one }, { keyer: fault }, { cost: fault }, { limiter: {} }])
      await fails(() => world.harness.make({ ...limit, ...other }), { code: 'INVALID_OPTION' }, Object.keys(other)[0])
  },
}
