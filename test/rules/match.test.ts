import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { RulesInput } from '../../src/limiter/rule-source.ts'
import { compileRules } from '../../src/rules/compile.ts'
import type { MatchRule, PolicyRule } from '../../src/rules/index.ts'
import { applyingPolicies, explainRules } from '../../src/rules/match.ts'
import { plainFacts } from '../../src/rules/facts.ts'
import { matched, matches, policy } from './matching.ts'

describe('a policy', () => {
  it('without conditions matches every request', () => {
    expect(matched([policy('a', undefined), policy('b', {})], {})).toEqual(['a', 'b'])
  })

  it('that allows a request leaves no other policy to limit it', () => {
    const staff: PolicyRule = { name: 'staff', match: { ip: '192.0.2.1' }, allow: true }
    const rules = compileRules({ policies: [policy('all', undefined), staff] })
    const applying = (ip: string) => applyingPolicies(rules, plainFacts({ ip }), 0)
    expect(applying('192.0.2.1')).toEqual([])
    expect(applying('192.0.2.2').map(({ rule }) => rule.name)).toEqual(['all'])
  })

  it('matches only if every condition is met', () => {
    const match = { method: 'POST', path: '/login', attributes: { plan: 'free' } }
    const input = { method: 'POST', path: '/login', attributes: { plan: 'free' } }
    expect(matches(match, input)).toBe(true)
    expect(matches(match, { ...input, method: 'PUT' })).toBe(false)
    expect(matches(match, { ...input, path: '/logout' })).toBe(false)
    expect(matches(match, { ...input, attributes: {} })).toBe(false)
  })

  it('matches by method, in any letter case; GET is HEAD, too', () => {
    expect(matches({ method: 'get' }, { method: 'GET' })).toBe(true)
    expect(matches({ method: 'GET' }, { method: 'HEAD' })).toBe(true)
    expect(matches({ method: 'HEAD' }, { method: 'GET' })).toBe(false)
    expect(matches({ method: ['PUT', 'PATCH'] }, { method: 'patch' })).toBe(true)
    expect(matches({ method: 'POST' }, {})).toBe(false)
  })

  it('matches by header: a value, a list, or any', () => {
    const headers = { 'X-Device': 'a' }
    expect(matches({ header: { 'x-device': 'a' } }, { headers })).toBe(true)
    expect(matches({ header: { 'X-DEVICE': ['b', 'a'] } }, { headers })).toBe(true)
    expect(matches({ header: { 'x-device': 'A' } }, { headers })).toBe(false)
    expect(matches({ header: { 'x-device': true } }, { headers })).toBe(true)
    expect(matches({ header: { 'x-device': true } }, { headers: {} })).toBe(false)
    expect(matches({ header: { 'x-device': true, 'x-b': 'c' } }, { headers })).toBe(false)
  })

  it('matches by address and network', () => {
    const match = { ip: ['192.0.2.0/24', '2001:db8::/32', '198.51.100.7', '10.1.2.3/8'] }
    for (const ip of ['192.0.2.255', '::ffff:192.0.2.1', '2001:db8:1::1', '198.51.100.7', '10.9.9.9', '192.0.2.1:80'])
      expect([ip, matches(match, { ip })]).toEqual([ip, true])
    for (const ip of ['192.0.3.0', '2001:db9::1', '198.51.100.8', '11.0.0.0', 'nonsense', ''])
      expect([ip, matches(match, { ip })]).toEqual([ip, false])
    expect(matches({ ip: ['0.0.0.0/0'] }, { ip: '203.0.113.9' })).toBe(true)
    expect(matches({ ip: ['0.0.0.0/0'] }, { ip: '2001:db8::1' })).toBe(false)
  })

  it('matches by attributes, compared as text', () => {
    expect(matches({ attributes: { plan: ['free', 'trial'] } }, { attributes: { plan: 'trial' } })).toBe(true)
    expect(matches({ attributes: { tenant: 42 } }, { attributes: { tenant: '42' } })).toBe(true)
    expect(matches({ attributes: { tenant: '42' } }, { attributes: { tenant: 42n } })).toBe(true)
    expect(matches({ attributes: { internal: true } }, { attributes: { internal: true } })).toBe(true)
    expect(matches({ attributes: { internal: false } }, { attributes: {} })).toBe(false)
    expect(matches({ attributes: { plan: 'free' } }, { attributes: { plan: ['free'] } })).toBe(false)
    expect(matches({ attributes: { plan: 'null' } }, { attributes: { plan: null } })).toBe(false)
    expect(matches({ attributes: { toString: 'x' } }, { attributes: {} })).toBe(false)
  })

  it('does not match from its end on', () => {
    const policies = [policy('incident', undefined, { until: '2026-01-01T00:00:00Z' })]
    const end = Date.UTC(2026, 0, 1)
    expect(matched(policies, {}, end - 1)).toEqual(['incident'])
    expect(matched(policies, {}, end)).toEqual([])
  })

  it('is found once, although several of its paths or networks match', () => {
    expect(matched([policy('a', { path: ['/a', '/:b', '/*'] })], { path: '/a' })).toEqual(['a'])
    expect(matched([policy('a', { ip: ['10.0.0.0/8', '10.1.0.0/16'] })], { ip: '10.1.2.3' })).toEqual(['a'])
  })
})

/** Values of which few differ, so that policies and requests meet. */
const values = {
  method: fc.constantFrom('GET', 'POST', 'PUT'),
  path: fc.constantFrom('/a', '/a/b', '/b/a', '/a/b/c', '/'),
  pattern: fc.constantFrom('/a', '/a/*', '/:x', '/a/:x', '/*', '/:x/b/*', '/b/a'),
  ip: fc.constantFrom('10.0.0.1', '10.1.0.1', '192.0.2.7', '2001:db8::1'),
  network: fc.constantFrom('10.0.0.0/8', '10.1.0.0/16', '192.0.2.7', '2001:db8::/32', '::/0'),
  word: fc.constantFrom('x', 'y', 'z'),
}

function some<Value>(each: fc.Arbitrary<Value>): fc.Arbitrary<Value | Value[]> {
  return fc.oneof(each, fc.array(each, { minLength: 1, maxLength: 3 }))
}

const conditions = fc.record(
  {
    method: some(values.method),
    path: some(values.pattern),
    ip: some(values.network),
    attributes: fc.record({ plan: some(values.word), tenant: some(values.word) }, { requiredKeys: [] }),
    header: fc.dictionary(fc.constantFrom('x-a', 'x-b'), fc.oneof(some(values.word), fc.constant(true as const)), {
      maxKeys: 2,
    }),
  },
  { requiredKeys: [] },
)

const inputs = fc.record(
  {
    method: values.method,
    path: values.path,
    ip: values.ip,
    headers: fc.dictionary(fc.constantFrom('x-a', 'x-b'), values.word),
    attributes: fc.record({ plan: values.word, tenant: values.word }, { requiredKeys: [] }),
  },
  { requiredKeys: [] },
)

describe('the index', () => {
  it('finds the same as a comparison with every policy, in the order of the document', () => {
    fc.assert(
      fc.property(fc.array(conditions, { maxLength: 30 }), inputs, (matches, input) => {
        const policies = matches.map((match, i) => policy(`${i}`, match as MatchRule))
        const one = policies.filter((each) => matched([each], input as RulesInput).length > 0)
        expect(matched(policies, input as RulesInput)).toEqual(one.map(({ name }) => name))
      }),
      { numRuns: Number(process.env['RUNS'] ?? 1000) },
    )
  })

  it('agrees with the explanation of every condition', () => {
    fc.assert(
      fc.property(fc.array(conditions, { maxLength: 8 }), inputs, (matches, input) => {
        const policies = matches.map((match, i) => policy(`${i}`, match as MatchRule))
        const explained = explainRules(compileRules({ policies }), input as RulesInput, 0).policies
        expect(explained.filter(({ applies }) => applies).map(({ rule }) => rule.name)).toEqual(
          matched(policies, input as RulesInput),
        )
      }),
      { numRuns: Number(process.env['RUNS'] ?? 300) },
    )
  })

  it('examines few of a thousand policies, whatever their conditions are', () => {
    const kinds: ((i: number) => MatchRule)[] = [
      (i) => ({ path: `/service-${i}/*`, attributes: { plan: 'free' } }),
      (i) => ({ path: '/api/*', attributes: { tenant: `tenant-${i}` } }),
      (i) => ({ method: 'POST', header: { 'x-api-key': `key-${i}` } }),
      (i) => ({ path: '/*', ip: `10.${i >> 8}.${i & 255}.0/24` }),
      (i) => ({ attributes: { plan: ['free', 'trial'], region: [`r-${i}`, `s-${i}`] } }),
    ]
    const policies = Array.from({ length: 1000 }, (_, i) => policy(`${i}`, kinds[i % kinds.length]!(i)))
    const compiled = compileRules({ policies })
    expect(compiled.always).toEqual([])
    let most = 0
    for (const dimension of compiled.indexed) {
      const attributes = { tenant: 'tenant-1', region: 'r-4', plan: 'free' }
      const headers = { 'x-api-key': 'key-2' }
      const facts = plainFacts({ method: 'POST', path: '/service-0/x', ip: '10.0.3.9', headers, attributes })
      for (const cell of dimension.find(facts)) most = Math.max(most, cell.policies.length)
    }
    expect(most).toBe(1)
  })
})
