import { describe, expect, it } from 'vitest'
import { createLimiter, type Decision, everyone, memoryStore, perHour, stack } from '../../src/index.ts'
import { checkRules, createRules, type PolicyRule, rulesFrom, type RulesDocument } from '../../src/rules/index.ts'
import type { RulesInput } from '../../src/limiter/rule-source.ts'
import { virtualClock } from '../../src/testing.ts'
import { collected, lines } from '../metrics/metrics.ts'
import { warningsOf } from '../support/http.ts'

const clock = virtualClock(Date.UTC(2026, 0, 1))
const limits = [{ algorithm: 'fixedWindow', quota: 2, window: '1h' }]
const otherwise = { key: 'ip', limits }
const onPlan = (plan: string, more: Partial<PolicyRule> = {}): PolicyRule => ({
  name: plan,
  match: { attributes: { plan } },
  key: 'attribute:tenant',
  limits,
  ...more,
})
const pro = { ip: '192.0.2.1', attributes: { plan: 'pro', tenant: 'ann' } }

function limiterOf(document: RulesDocument): { readonly ask: (input: RulesInput) => Decision } {
  const limiter = createLimiter({ rules: createRules(document), store: memoryStore({ clock }) })
  return { ask: (input) => limiter.consume(input) as Decision }
}

/** The names under which a request counts. */
const countsUnder = ({ limits: found }: Decision): string[] => found.map(({ limiter }) => limiter)

describe('otherwise', () => {
  it.each<[string, PolicyRule[], string[]]>([
    ['no policy matches', [onPlan('free')], ['rules/otherwise']],
    ['a policy matches', [onPlan('pro')], ['rules/pro']],
    ['only a policy in shadow matches', [onPlan('pro', { shadow: true })], ['rules/pro', 'rules/otherwise']],
    [
      'all limits of the policy are in shadow',
      [onPlan('pro', { limits: [{ ...limits[0]!, shadow: true }] })],
      ['rules/pro', 'rules/otherwise'],
    ],
    ['the policy has ended', [onPlan('pro', { until: '2025-12-31T00:00:00Z' })], ['rules/otherwise']],
    ['a policy allows it', [{ name: 'staff', match: { ip: '192.0.2.1' }, allow: true }], []],
    ['there is no policy', [], ['rules/otherwise']],
  ])('decides which limits a request has, if %s', (_, policies, names) => {
    expect(countsUnder(limiterOf({ policies, otherwise }).ask(pro))).toEqual(names)
  })

  it('denies beyond its quota, by its key, its overrides and its cost', () => {
    const { ask } = limiterOf({
      policies: [onPlan('free')],
      otherwise: { ...otherwise, cost: 'units', overrides: [{ key: '192.0.2.9', limits: [{ quota: 1 }] }] },
    })
    expect([1, 2, 3].map(() => ask(pro).allowed)).toEqual([true, true, false])
    expect(ask({ ...pro, attributes: { units: 2 }, ip: '192.0.2.2' })).toMatchObject({ allowed: true, remaining: 0 })
    expect([1, 2].map(() => ask({ ...pro, ip: '192.0.2.9' }).allowed)).toEqual([true, false])
  })

  it('`allow` admits what no policy matches, uncounted', () => {
    const { ask } = limiterOf({ policies: [onPlan('free')], otherwise: 'allow' })
    expect(ask(pro)).toMatchObject({ allowed: true, limits: [], remaining: Infinity })
  })

  it('is reset with its request', () => {
    const limiter = createLimiter({ rules: createRules({ policies: [], otherwise }), store: memoryStore({ clock }) })
    void limiter.consume(pro)
    void limiter.reset(pro)
    expect((limiter.peek(pro) as Decision).remaining).toBe(1)
  })

  it('is in the version, frozen, and a change of it alone is a change', () => {
    const rules = createRules({ policies: [], otherwise })
    const changes: unknown[] = []
    rules.on('change', ({ after }) => changes.push(after.otherwise))
    expect(rules.current.otherwise).toEqual(otherwise)
    expect(Object.isFrozen(rules.current.otherwise)).toBe(true)
    expect(rules.replace({ policies: [], otherwise })).toBe(false)
    expect(rules.replace({ policies: [], otherwise: 'allow' })).toBe(true)
    expect(rules.replace({ policies: [] })).toBe(true)
    expect(changes).toEqual(['allow', undefined])
  })

  it.each<[string, unknown, string[]]>([
    ['a text', 'deny', ['otherwise: expected limits such as { key, limits }, or "allow", got "deny"']],
    ['no key', { limits }, ['otherwise.key: expected a value, got nothing']],
    ['allow as in a policy', { allow: true }, ['otherwise: expected "allow", got an object']],
    [
      'a condition',
      { ...otherwise, match: {} },
      [expect.stringMatching(/^otherwise\.match: is not known here; expected one of key, limits, /) as string],
    ],
    [
      'a wrong limit',
      { key: 'ip', limits: [{ quota: 1, window: 'x' }] },
      ['otherwise.limits[0].window: expected a duration such as "1m", got "x"'],
    ],
  ])('with %s is a mistake', (_, value, expected) => {
    const problems = checkRules({ policies: [], otherwise: value })
    expect(problems.map(({ path, message }) => `${path}: ${message}`)).toEqual(expected)
  })

  it('and a policy of this name are a mistake together', () => {
    const policies = [onPlan('otherwise')]
    expect(checkRules({ policies })).toEqual([])
    expect(checkRules({ policies, otherwise })).toEqual([
      { path: 'policies[0].name', message: 'expected another name, because otherwise has "otherwise"' },
    ])
  })
})

describe('a document that leaves requests without a policy', () => {
  const everything = { name: 'all', key: 'ip', limits }
  it.each<[string, boolean, RulesDocument]>([
    ['policies with conditions', true, { policies: [onPlan('free')] }],
    ['no policies', true, { policies: [] }],
    ['a policy for every request that ends', true, { policies: [{ ...everything, until: '2999-01-01T00:00:00Z' }] }],
    ['a policy for every request in shadow', true, { policies: [{ ...everything, shadow: true }] }],
    ['a policy for every request', false, { policies: [onPlan('free'), everything] }],
    ['an allowance for every request', false, { policies: [{ name: 'all', allow: true }] }],
    ['otherwise', false, { policies: [onPlan('free')], otherwise }],
    ['otherwise: allow', false, { policies: [onPlan('free')], otherwise: 'allow' }],
  ])('is warned of at the start and when it replaces another: %s', async (_, isWarned, document) => {
    const expected = isWarned ? ['SLUICE_NO_OTHERWISE'] : []
    expect(await warningsOf(() => createRules(document))).toEqual(expected)
    expect(await warningsOf(async () => (await rulesFrom([document])).close())).toEqual(expected)
    const complete = createRules({ policies: [onPlan('other')], otherwise: 'allow' })
    expect(await warningsOf(() => complete.replace(document))).toEqual(expected)
    const { allow } = document.policies[0] ?? {}
    expect(await warningsOf(() => complete.replace({ policies: [...document.policies, onPlan('b')] }))).toEqual(
      allow ? ['SLUICE_ALL_ALLOWED'] : isWarned || document.otherwise === undefined ? [] : ['SLUICE_NO_OTHERWISE'],
    )
  })
})

describe('a document with a policy that allows', () => {
  it.each<[string, boolean, Partial<PolicyRule>]>([
    ['every request', true, {}],
    ['every request, with an empty match', true, { match: {} }],
    ['every address of IPv4', true, { match: { ip: '0.0.0.0/0' } }],
    ['every address', true, { match: { ip: ['10.0.0.0/8', '::/0', '::ffff:0:0/96'] } }],
    ['a path', false, { match: { path: '/health' } }],
    ['every address for a path', false, { match: { ip: '::/0', path: '/health' } }],
    ['a network', false, { match: { ip: ['10.0.0.0/8', '0.0.0.0/1'] } }],
    ['every request for some time', false, { until: '2999-01-01T00:00:00Z' }],
  ])('%s is warned of at the start and when it replaces another: %s', async (_, isWarned, policy) => {
    const open = { name: 'open', ...policy, allow: true } as PolicyRule
    const document = { policies: [open, onPlan('free')], otherwise } as RulesDocument
    const expected = isWarned ? ['SLUICE_ALL_ALLOWED'] : []
    expect(await warningsOf(() => createRules(document))).toEqual(expected)
    const rules = createRules({ policies: [onPlan('free')], otherwise })
    expect(await warningsOf(() => rules.replace(document))).toEqual(expected)
    expect(await warningsOf(() => rules.replace({ ...document, policies: [open] }))).toEqual([])
    expect(await warningsOf(() => createRules({ policies: [open], otherwise: 'allow' }))).toEqual([])
  })
})

describe('the metric of requests that no policy matches', () => {
  const counted = async (registry: ReturnType<typeof collected>): Promise<string[]> =>
    lines(registry, 'sluice_decisions_total{limiter="rules/none",limit="none",outcome="allowed"}')
  const staff = { name: 'staff', match: { attributes: { staff: true } }, allow: true } as const

  it.each<[string, RulesDocument, RulesInput, boolean]>([
    ['without otherwise', { policies: [onPlan('free'), staff] }, pro, true],
    ['with otherwise: allow', { policies: [onPlan('free'), staff], otherwise: 'allow' }, pro, true],
    ['that only a policy in shadow matches', { policies: [onPlan('pro', { shadow: true })] }, pro, true],
    ['with limits in otherwise', { policies: [onPlan('free')], otherwise }, pro, false],
    ['under a policy', { policies: [onPlan('pro')] }, pro, false],
    ['that a policy allows', { policies: [onPlan('free'), staff] }, { attributes: { staff: true } }, false],
  ])('counts each of them once: %s', async (_, document, input, isCounted) => {
    const registry = collected()
    const limiter = createLimiter({ rules: createRules(document), store: memoryStore({ clock }) })
    void limiter.peek(input)
    void limiter.consume(input)
    void limiter.consume(input)
    await limiter.wait(input, { maxWait: '1s' }).catch(() => undefined)
    const series = 'sluice_decisions_total{limiter="rules/none",limit="none",outcome="allowed"}'
    expect(await counted(registry)).toEqual(isCounted ? [`${series} 3`] : [])
  })

  it('takes inputs that are no objects', async () => {
    const registry = collected()
    const limiter = createLimiter({ rules: createRules({ policies: [] }), store: memoryStore({ clock }) })
    for (const input of [null, 'text', 7]) expect(limiter.consume(input as never)).toMatchObject({ allowed: true })
    expect(await counted(registry)).toEqual([])
  })

  it('counts them in a stack', async () => {
    const registry = collected()
    const store = memoryStore({ clock })
    const all = createLimiter<RulesInput>({ name: 'all', keyer: everyone, limits: perHour(5), store })
    const limiter = stack(all, createLimiter({ rules: createRules({ policies: [onPlan('free')] }), store }))
    void limiter.consume(pro)
    expect(await counted(registry)).toEqual([expect.stringMatching(/ 1$/)])
  })
})
