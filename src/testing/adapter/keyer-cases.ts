import type { Decision } from '../../limiter/decision.ts'
import { equal, fails } from '../expect.ts'
import { ask, fields, statuses, warningsOf } from './client.ts'
import { type Cases, fault, hundred, one } from './world.ts'

const forwarded = { headers: { 'x-forwarded-for': '203.0.113.9' } }

export const addressCases: Cases = {
  'makes the client, and nobody is trusted to write it': async ({ harness, limit, serve }) => {
    const server = await serve({ limits: [limit(one, { keyer: harness.keyers.byIP })] })
    equal(await statuses(server, 2), [200, 429])
    await warningsOf(async () => equal(await statuses(server, 1, forwarded), [429]))
  },
  'is the key as a plain IPv4 address': async ({ harness, limit, serve }) => {
    let decision: Decision | undefined
    const onDecision = (decided: Decision): void => void (decision = decided)
    await ask(await serve({ limits: [limit(one, { keyer: harness.keyers.byIP, onDecision })] }))
    equal(decision?.limits[0]?.key, '127.0.0.1')
  },
  'keyer refuses a prefix that is none': async ({ harness }) => {
    await fails(() => harness.keyers.ipKeyer({ ipv6Subnet: 24 }), { name: 'SluiceError', code: 'INVALID_OPTION' })
  },
}

/** For frameworks that know whether they trust a proxy. */
export const proxyCases: Cases = {
  'that nobody can trust is warned of, once': async ({ harness, limit, serve }) => {
    const server = await serve({ limits: [limit(hundred, { keyer: harness.keyers.ipKeyer() })] })
    equal(await warningsOf(() => ask(server)), [])
    equal(await warningsOf(() => statuses(server, 3, forwarded)), ['SLUICE_PROXY_UNTRUSTED'])
  },
}

export const keyerCases: Cases = {
  'take a field, whatever its case': async ({ harness, limit, serve }) => {
    const server = await serve({ limits: [limit(one, { keyer: harness.keyers.byHeader('X-Api-Key') })] })
    equal(await statuses(server, 2, { headers: { 'x-api-key': 'a' } }), [200, 429])
    equal(await statuses(server, 1, { headers: { 'X-API-KEY': 'b' } }), [200])
  },
  'share a bucket among those without the field, and say so': async ({ harness, limit, serve }) => {
    const server = await serve({ limits: [limit(one, { keyer: harness.keyers.byHeader('x-api-key') })] })
    const codes = await warningsOf(async () => equal(await statuses(server, 2), [200, 429]))
    equal(codes, ['SLUICE_UNIDENTIFIED'])
  },
  'take the method': async ({ harness, limit, serve }) => {
    const server = await serve({ limits: [limit(one, { keyer: harness.keyers.byMethod })] })
    equal(await statuses(server, 2), [200, 429])
    equal(await statuses(server, 1, { method: 'POST' }), [200])
  },
}

export const skipCases: Cases = {
  'leaves requests alone, decided at once or later': async ({ limit, serve, by }) => {
    const internal = (request: unknown): boolean => by('x-internal')(request) === 'yes'
    const inside = { headers: { 'x-internal': 'yes' } }
    for (const skip of [internal, async (request: unknown) => internal(request)]) {
      const server = await serve({ limits: [limit(one, { skip })] })
      equal(fields(await ask(server, '/', inside)), {})
      equal(await statuses(server, 3, inside), [200, 200, 200])
      equal(await statuses(server, 2), [200, 429])
    }
  },
  'is not asked of a CORS preflight, which passes always': async ({ limit, serve }) => {
    const headers = { origin: 'https://example.org', 'access-control-request-method': 'PUT' }
    for (const options of [{}, { skip: fault }]) {
      const server = await serve({ limits: [limit(one, options)], handler: () => ({ status: 204 }) })
      equal(await statuses(server, 3, { method: 'OPTIONS', headers }), [204, 204, 204])
      equal(fields(await ask(server, '/', { method: 'OPTIONS', headers })), {})
    }
  },
  'does not extend to an OPTIONS request that is no preflight': async ({ limit, serve }) => {
    const server = await serve({ limits: [limit(one)] })
    equal(await statuses(server, 2, { method: 'OPTIONS' }), [200, 429])
  },
}
