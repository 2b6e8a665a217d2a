import { fixedWindow, gcra } from '../../engine/factories.ts'
import { equal } from '../behaviour.ts'
import { ask, statuses } from './client.ts'
import { answered, bothStores, type Cases, fault, one, statusHandler, three } from './world.ts'
import { warningsOf } from '../warnings.ts'

const bad = answered(401)
const good = answered(200)

export const settlementCases: Cases = {
  'refunds or counts failures, or successes': async (world) => {
    for (const [options, free, counted] of [
      [{ refundWhen: 'failure' }, 401, 200],
      [{ refundWhen: 'success' }, 200, 401],
      [{ count: 'failures' }, 307, 400],
      [{ count: 'successes' }, 400, 307],
    ] as const) {
      const server = await world.serve({ limits: [world.limit(one, options)], handler: statusHandler(world) })
      equal(await statuses(server, 3, answered(free)), [free, free, free])
      equal(await statuses(server, 2, answered(counted)), [counted, 429])
    }
  },
  'counts a handler that throws as a failure': async ({ limit, serve }) => {
    const server = await serve({ limits: [limit(one, { refundWhen: 'failure' })], handler: fault })
    equal(await statuses(server, 3), [500, 500, 500])
  },
  'also applies to HEAD requests': async ({ limit, serve }) => {
    const refunded = await serve({ limits: [limit(one, { refundWhen: 'success' })] })
    equal(await statuses(refunded, 3, { method: 'HEAD' }), [200, 200, 200])
    const settled = await serve({ limits: [limit(three, { settleWith: () => 3 })] })
    equal(await statuses(settled, 2, { method: 'HEAD' }), [200, 429])
  },
  'can depend on a function': async ({ limit, serve, by }) => {
    const refundWhen = (request: unknown): boolean => by('x-free')(request) === 'yes'
    const server = await serve({ limits: [limit(one, { refundWhen })] })
    equal(await statuses(server, 3, { headers: { 'x-free': 'yes' } }), [200, 200, 200])
    equal(await statuses(server, 2), [200, 429])
  },
  'charges the actual cost': async ({ limit, serve, harness }) => {
    const ten = fixedWindow({ name: 'ten', quota: 10, window: '1m' })
    const settleWith = (request: unknown): number | undefined => {
      const cost = harness.header(request, 'x-cost')
      return cost === undefined ? undefined : Number(cost)
    }
    const server = await serve({ limits: [limit(ten, { cost: () => 5, settleWith })] })
    const header = async (headers = {}): Promise<unknown> => (await ask(server, '/', { headers })).headers['ratelimit']
    equal(await header({ 'x-cost': '1' }), '"ten";r=5;t=60')
    equal(await header({ 'x-cost': '0' }), '"ten";r=4;t=60')
    equal(await header(), '"ten";r=4;t=60')
    equal(await statuses(server, 1), [429])
  },
  'uses one listener of a response, however many limits it passes': async ({ limit, serve }) => {
    // Checks are off, so that only the warning of Node about listeners could be emitted.
    const limits = Array.from({ length: 12 }, () => limit(one, { refundWhen: 'success', checks: false }))
    const server = await serve({ limits })
    equal(await warningsOf(async () => equal(await statuses(server, 3), [200, 200, 200])), [])
  },
  'does not apply to a denial, and neither does a reset': async ({ limit, serve }) => {
    const options = { cost: () => 2, refundWhen: fault, settleWith: fault, resetWhen: fault }
    const server = await serve({ limits: [limit(gcra({ quota: 1, window: '1m' }), options)] })
    equal(await warningsOf(async () => equal(await statuses(server, 2), [429, 429])), [])
  },
  'causes one warning when its function fails, and nothing else': async ({ limit, serve }) => {
    const server = await serve({ limits: [limit(three, { settleWith: fault })] })
    const codes = await warningsOf(async () => equal(await statuses(server, 4), [200, 200, 200, 429]))
    equal(codes, ['SLUICE_OUTCOME'])
    const nonsense = await serve({ limits: [limit(three, { settleWith: () => Number.NaN })] })
    equal(await warningsOf(async () => equal(await statuses(nonsense, 2), [200, 200])), ['SLUICE_OUTCOME'])
  },
}

export const resetCases: Cases = {
  'forgets what was charged to the key after a success, or after a failure': async (world) => {
    const handler = statusHandler(world)
    for (const store of bothStores(world)) {
      const keyer = world.by('x-user')
      const options = { store, keyer, resetWhen: 'success', name: 'logins' }
      const server = await world.serve({ limits: [world.limit(three, options)], handler })
      const [ann, bob] = ['ann', 'bob'].map((user) => answered(401, { 'x-user': user }))
      equal(await statuses(server, 2, ann), [401, 401])
      equal(await statuses(server, 3, bob), [401, 401, 401])
      equal(await statuses(server, 1, answered(200, { 'x-user': 'ann' })), [200])
      equal(await statuses(server, 4, ann), [401, 401, 401, 429])
      equal(await statuses(server, 1, bob), [429])
    }
    const failures = await world.serve({ limits: [world.limit(one, { resetWhen: 'failure' })], handler })
    equal(await statuses(failures, 2, bad), [401, 401])
    equal(await statuses(failures, 2, good), [200, 429])
  },
  'can depend on a function, also with a promise': async ({ limit, serve, by }) => {
    const isGood = (request: unknown): boolean => by('x-status')(request) === '200'
    for (const resetWhen of [isGood, async (request: unknown) => isGood(request)]) {
      const server = await serve({ limits: [limit(one, { resetWhen })] })
      equal(await statuses(server, 2, good), [200, 200])
      equal(await statuses(server, 2, bad), [200, 429])
    }
  },
  'causes one warning when its function fails, and the charge stays': async ({ serve, limit }) => {
    const server = await serve({ limits: [limit(one, { resetWhen: async () => fault() })] })
    equal(await warningsOf(async () => equal(await statuses(server, 2), [200, 429])), ['SLUICE_OUTCOME'])
  },
}
