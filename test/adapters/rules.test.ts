import { describe, expect, it, test } from 'vitest'
import { createLimiter, type Decision } from '../../src/index.ts'
import { createRules, type PolicyRule } from '../../src/rules/index.ts'
import { rateLimit as limitFetch } from '../../adapters/fetch/index.ts'
import { createRequestLimiter, type HttpAdapter } from '../../src/http/index.ts'

const policy: PolicyRule = { name: 'address', key: 'ip', limits: [{ quota: 5, window: '1m' }] }

describe('the key ip of rules', () => {
  it('is what `address` returns for the arguments of a web-standard handler', async () => {
    const rules = createRules(
      { policies: [policy] },
      { address: (_request: Request, server: { peer: string }) => server.peer },
    )
    const decisions: Decision[] = []
    const limit = limitFetch({ rules, onDecision: (each) => decisions.push(each) })
    const handle = limit((_request: Request, _server: { peer: string }) => new Response('ok'))
    await handle(new Request('http://localhost/'), { peer: '192.0.2.7' })
    expect(decisions[0]!.limits[0]!.key).toBe('192.0.2.7')
  })
})

test('attributes of rules that are no object are refused', () => {
  const byTenant: PolicyRule = { ...policy, key: 'attribute:tenant' }
  const rules = createRules({ policies: [byTenant] }, { attributes: () => undefined as never })
  expect(() => createLimiter({ rules }).consume({})).toThrow(/^attributes: expected an object/)
})

describe('an adapter that cannot return the path of a request', () => {
  it('refuses rules when the limit is created', () => {
    const adapter = { getMethod: () => 'GET', getRequestHeader: () => undefined } as unknown as HttpAdapter<
      object,
      object,
      undefined,
      never
    >
    const rules = createRules({ policies: [policy] })
    expect(() => createRequestLimiter({ rules }, adapter)).toThrow(expect.objectContaining({ code: 'NOT_APPLICABLE' }))
  })
})
