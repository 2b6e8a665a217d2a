import type { Decision } from '../../limiter/decision.ts'
import { equal, fails } from '../behaviour.ts'
import { ask, type Ask, limitHeaders, statuses } from './client.ts'
import { bothStores, type Cases, hundred, one, preflight, three } from './world.ts'
import { warningsOf } from '../warnings.ts'

const forwarded = { headers: { 'x-forwarded-for': '203.0.113.9' } }

export const addressCases: Cases = {
  'identifies the client, which cannot choose it with a header': async ({ harness, limit, serve }) => {
    const server = await serve({ limits: [limit(one, { keyer: harness.keyers.byIP })] })
    equal(await statuses(server, 2), [200, 429])
    await warningsOf(async () => equal(await statuses(server, 1, forwarded), [429]))
  },
  'is the key, written as IPv4': async ({ harness, limit, serve }) => {
    let decision: Decision | undefined
    const onDecision = (decided: Decision): void => void (decision = decided)
    await ask(await serve({ limits: [limit(one, { keyer: harness.keyers.byIP, onDecision })] }))
    equal(decision?.limits[0]?.key, '127.0.0.1')
  },
  'is refused with an invalid prefix': async ({ harness }) => {
    await fails(() => harness.keyers.ipKeyer({ ipv6Subnet: 24 }), { name: 'SluiceError', code: 'INVALID_OPTION' })
  },
}

/** The cases for frameworks that show whether they trust a proxy. */
export const proxyCases: Cases = {
  'causes one warning when no proxy is trusted': async ({ harness, limit, serve }) => {
    for (const sent of [forwarded, { headers: { forwarded: 'for=203.0.113.9' } }]) {
      const server = await serve({ limits: [limit(hundred, { keyer: harness.keyers.ipKeyer() })] })
      equal(await warningsOf(() => ask(server)), [])
      equal(await warningsOf(() => statuses(server, 3, sent)), ['SLUICE_PROXY_UNTRUSTED'])
    }
  },
  'causes the warning also where a keyer reads it later, but not with checks: false': async (world) => {
    const { harness, limit, serve } = world
    for (const checks of [true, false]) {
      const byIP = harness.keyers.ipKeyer() as (request: unknown) => string | undefined
      const keyer = async (request: unknown): Promise<string | undefined> => {
        await Promise.resolve()
        return byIP(request)
      }
      const server = await serve({ limits: [limit(hundred, { keyer, checks })] })
      equal(await warningsOf(() => statuses(server, 3, forwarded)), checks ? ['SLUICE_PROXY_UNTRUSTED'] : [])
    }
  },
}

export const keyerCases: Cases = {
  'read a header in any case': async ({ harness, limit, serve }) => {
    const server = await serve({ limits: [limit(one, { keyer: harness.keyers.byHeader('X-Api-Key') })] })
    equal(await statuses(server, 2, { headers: { 'x-api-key': 'a' } }), [200, 429])
    equal(await statuses(server, 1, { headers: { 'X-API-KEY': 'b' } }), [200])
  },
  'share a bucket among requests without the header, with one warning': async ({ harness, limit, serve }) => {
    const server = await serve({ limits: [limit(one, { keyer: harness.keyers.byHeader('x-api-key') })] })
    const codes = await warningsOf(async () => equal(await statuses(server, 2), [200, 429]))
    equal(codes, ['SLUICE_UNIDENTIFIED'])
  },
  'read the method': async ({ harness, limit, serve }) => {
    const server = await serve({ limits: [limit(one, { keyer: harness.keyers.byMethod })] })
    equal(await statuses(server, 2), [200, 429])
    equal(await statuses(server, 1, { method: 'POST' }), [200])
  },
}

export const skipCases: Cases = {
  'excludes requests, also with a promise': async ({ limit, serve, by }) => {
    const internal = (request: unknown): boolean => by('x-internal')(request) === 'yes'
    const inside = { headers: { 'x-internal': 'yes' } }
    for (const skip of [internal, async (request: unknown) => internal(request)]) {
      const server = await serve({ limits: [limit(one, { skip })] })
      equal(limitHeaders(await ask(server, '/', inside)), {})
      equal(await statuses(server, 3, inside), [200, 200, 200])
      equal(await statuses(server, 2), [200, 429])
    }
  },
  'also excludes CORS preflights': async ({ limit, serve }) => {
    const server = await serve({ limits: [limit(one, { skip: () => true })] })
    equal(await statuses(server, 3, preflight), [200, 200, 200])
  },
}

const from = (user: string, ask: Ask = {}): Ask => ({ ...ask, headers: { ...ask.headers, 'x-user': user } })

export const preflightCases: Cases = {
  'count in a separate bucket for each key, under the same limits': async (world) => {
    const keyer = world.by('x-user')
    for (const store of bothStores(world)) {
      const server = await world.serve({ limits: [world.limit(three, { keyer, store })] })
      equal(await statuses(server, 4, from('a', preflight)), [200, 200, 200, 429])
      equal(await statuses(server, 4, from('a')), [200, 200, 200, 429])
      equal(await statuses(server, 1, from('b', preflight)), [200])
    }
  },
  'have no rate-limit headers': async ({ limit, serve }) => {
    const server = await serve({ limits: [limit(one)] })
    equal(limitHeaders(await ask(server, '/', preflight)), {})
    const denied = await ask(server, '/', preflight)
    equal([denied.status, limitHeaders(denied)], [429, { 'retry-after': '60' }])
  },
  'can be skipped': async ({ limit, serve }) => {
    const server = await serve({ limits: [limit(one, { preflights: 'skip' })] })
    equal(await statuses(server, 3, preflight), [200, 200, 200])
    equal(limitHeaders(await ask(server, '/', preflight)), {})
  },
}
