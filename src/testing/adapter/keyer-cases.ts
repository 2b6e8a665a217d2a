import type { Decision } from '../../limiter/decision.ts'
import { equal, fails } from '../behaviour.ts'
import { ask, type Cases, hundred, limitHeaders, one, preflight, statuses, warningsOf } from './world.ts'

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

/** For frameworks that expose whether they trust a proxy. */
export const proxyCases: Cases = {
  'causes one warning when no proxy is trusted': async ({ harness, limit, serve }) => {
    const server = await serve({ limits: [limit(hundred, { keyer: harness.keyers.ipKeyer() })] })
    equal(await warningsOf(() => ask(server)), [])
    equal(await warningsOf(() => statuses(server, 3, forwarded)), ['SLUICE_PROXY_UNTRUSTED'])
  },
  'causes one warning when a proxy sends only the Forwarded header': async ({ harness, limit, serve }) => {
    const server = await serve({ limits: [limit(hundred, { keyer: harness.keyers.ipKeyer() })] })
    const sent = { headers: { forwarded: 'for=203.0.113.9' } }
    equal(await warningsOf(() => statuses(server, 3, sent)), ['SLUICE_PROXY_UNTRUSTED'])
  },
  'causes the warning also where a keyer reads it later, but not with checks: false': async (world) => {
    const { harness, limit, serve } = world
    for (const checks of [undefined, false]) {
      const byIP = harness.keyers.ipKeyer() as (request: unknown) => string | undefined
      const keyer = async (request: unknown): Promise<string | undefined> => {
        await Promise.resolve()
        return byIP(request)
      }
      const server = await serve({ limits: [limit(hundred, { keyer, ...(checks === false && { checks }) })] })
      const codes = await warningsOf(() => statuses(server, 3, forwarded))
      equal(codes, checks === false ? [] : ['SLUICE_PROXY_UNTRUSTED'])
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
