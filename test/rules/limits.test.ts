import { describe, expect, it } from 'vitest'
import { createLimiter, type Decision, everyone, type Limiter, memoryStore } from '../../src/index.ts'
import type { RulesInput } from '../../src/limiter/rule-source.ts'
import { createRules, type PolicyRule, type Rules, type RulesDocument } from '../../src/rules/index.ts'
import { virtualClock } from '../../src/testing.ts'
import { codeOf } from '../support/code-of.ts'
import { recordWarnings } from '../support/guarded.ts'
import { warningsOf } from '../support/http.ts'

const clock = virtualClock(Date.UTC(2026, 0, 1))
const HOUR = 3_600_000

function policy(more: Partial<PolicyRule> = {}): PolicyRule {
  const limits = [{ algorithm: 'fixedWindow', quota: 10, window: '1h' }]
  return { name: 'api', key: 'attribute:tenant', limits, ...more }
}

function document(...policies: readonly PolicyRule[]): RulesDocument {
  return { policies, otherwise: 'allow' }
}

/** A limiter with rules, and functions that ask it. */
function limiterFor(...policies: readonly PolicyRule[]): {
  readonly rules: Rules
  readonly limiter: Limiter<RulesInput>
  ask(attributes?: Record<string, unknown>, more?: RulesInput): Decision
  remaining(attributes?: Record<string, unknown>): number
} {
  const rules = createRules(document(...policies))
  const limiter = createLimiter({ rules, store: memoryStore({ clock }) })
  return {
    rules,
    limiter,
    ask: (attributes = {}, more = {}) => limiter.consume({ attributes, ...more }) as Decision,
    remaining: (attributes = {}) => (limiter.peek({ attributes }, { cost: 0 }) as Decision).limits[0]!.remaining,
  }
}

/** The limits of a decision: name, key and what remains. */
function shownLimits({ limits }: Decision): string[] {
  return limits.map(({ limit, key, remaining }) => `${limit.name} of ${key}: ${remaining}`)
}

describe('a limit of slots', () => {
  const slots = (quota: number): PolicyRule =>
    policy({ limits: [{ algorithm: 'concurrent', quota, expiresAfter: '1m' }] })

  it('keeps the slots that are taken when its quota changes, and denies until enough are released', () => {
    const { rules, limiter, ask } = limiterFor(slots(3))
    const take = (): Decision => ask({ tenant: 'a' })
    const taken = [take(), take(), take()]
    expect(take().allowed).toBe(false)
    rules.replace(document(slots(2)))
    expect(take()).toMatchObject({ allowed: false, retryAfter: 1000 })
    void limiter.release(taken[0]!)
    expect(take().allowed).toBe(false)
    void limiter.release(taken[1]!)
    expect(take().allowed).toBe(true)
    expect(take().allowed).toBe(false)
    rules.replace(document(slots(4)))
    expect([take(), take(), take()].map(({ allowed }) => allowed)).toEqual([true, true, false])
    expect(take().limits[0]).toMatchObject({ limit: { name: 'api', quota: 4, window: 60_000 }, remaining: 0, used: 4 })
  })
})

describe('the limits of a policy', () => {
  it('are named after the policy and their place, so that no name depends on a quota', () => {
    const limits = [
      { quota: 1, window: '1s' },
      { quota: 2, window: '1m', name: 'burst' },
      { quota: 3, window: '1h' },
    ]
    expect(shownLimits(limiterFor(policy({ limits })).ask({ tenant: 'a' }))).toEqual([
      'api of a: 0',
      'burst of a: 1',
      'api-3 of a: 2',
    ])
  })

  it('of all policies that match are one transaction: all or nothing', () => {
    const { ask, remaining } = limiterFor(
      policy({ name: 'user', key: 'attribute:user' }),
      policy({ name: 'all', key: 'everyone', limits: [{ algorithm: 'fixedWindow', quota: 1, window: '1h' }] }),
    )
    expect(shownLimits(ask({ user: 'a' }))).toEqual(['user of a: 9', 'all of everyone: 0'])
    expect(ask({ user: 'b' })).toMatchObject({ allowed: false, binding: { limit: { name: 'all' } } })
    expect(shownLimits(ask({ user: 'b' }))[0]).toBe('user of b: 10')
    expect(remaining({ user: 'a' })).toBe(9)
  })

  it('in shadow are reported and deny nothing', () => {
    const { ask } = limiterFor(policy({ shadow: true, limits: [{ quota: 1, window: '1h' }] }))
    expect(ask({ tenant: 'a' }).limits[0]).toMatchObject({ allowed: true })
    const second = ask({ tenant: 'a' })
    expect(second.allowed).toBe(true)
    expect(second.limits[0]).toMatchObject({ allowed: false, limit: { shadow: true } })
  })
})

describe('the key of a policy', () => {
  const keyOf = (key: string | readonly string[], input: RulesInput): string =>
    limiterFor(policy({ key })).ask({}, input).limits[0]!.key

  it('is a part of the request or an attribute', () => {
    const input = {
      method: 'HEAD',
      path: '/Users//42/?a',
      ip: '::ffff:192.0.2.1',
      headers: { 'X-Api-Key': 'k' },
      attributes: { tenant: 7, flag: true, big: 9n },
    }
    expect(keyOf('ip', input)).toBe('192.0.2.1')
    expect(keyOf('ip', { ip: '2001:db8:1:2:3::4' })).toBe('2001:db8:1::/56')
    expect(keyOf('everyone', input)).toBe('everyone')
    expect(keyOf('method', input)).toBe('GET')
    expect(keyOf('path', input)).toBe('/users/42')
    expect(keyOf('header:X-API-Key', input)).toBe('k')
    expect(keyOf('attribute:tenant', input)).toBe('7')
    expect(keyOf('attribute:flag', input)).toBe('true')
    expect(keyOf('attribute:big', input)).toBe('9')
    expect(keyOf(['ip', 'attribute:tenant'], input)).toBe('9:192.0.2.11:7')
  })

  it('is shared by all requests without one, with one warning for each policy', async () => {
    const { ask } = limiterFor(policy(), policy({ name: 'other', key: ['attribute:user', 'header:x-a'] }))
    const codes = await warningsOf(() => {
      for (const attributes of [{}, { tenant: '' }, { tenant: null }]) ask(attributes)
    })
    expect(codes).toEqual(['SLUICE_UNIDENTIFIED', 'SLUICE_UNIDENTIFIED'])
    expect(shownLimits(ask({}))).toEqual(['api of : 6', 'other of : 6'])
  })

  it('that is an object is an error of the application', () => {
    expect(codeOf(() => limiterFor(policy()).ask({ tenant: {} }))).toBe('INVALID_KEY')
  })
})

describe('an override', () => {
  const limits = [
    { algorithm: 'slidingWindowLog', quota: 2, window: '1h' },
    { algorithm: 'fixedWindow', quota: 100, window: '1d', name: 'daily' },
  ]

  it('changes the limits of one key and keeps its usage, the algorithm and all other limits', () => {
    const { rules, ask } = limiterFor(policy({ limits }))
    for (const tenant of ['a', 'b']) ask({ tenant })
    rules.replace(document(policy({ limits, overrides: [{ key: 'a', limits: [{ quota: 5 }] }] })))
    expect(shownLimits(ask({ tenant: 'a' }))).toEqual(['api of a: 3', 'daily of a: 98'])
    expect(shownLimits(ask({ tenant: 'b' }))).toEqual(['api of b: 0', 'daily of b: 98'])
    expect(ask({ tenant: 'a' }).limits[0]!.limit.algorithm).toBe('slidingWindowLog')
  })

  it('takes the options that it does not give from its limit', () => {
    const burst = [{ quota: 60, window: '1m', burst: 5 }]
    const { ask } = limiterFor(policy({ limits: burst, overrides: [{ key: 'a', limits: [{ quota: 600 }] }] }))
    expect(ask({ tenant: 'a' }).limits[0]!.limit).toMatchObject({ quota: 600, window: 60_000, burst: 5 })
  })

  it('finds its limit by name, too', () => {
    const { ask } = limiterFor(policy({ limits, overrides: [{ key: 'a', limits: [{ name: 'daily', quota: 7 }] }] }))
    expect(shownLimits(ask({ tenant: 'a' }))).toEqual(['api of a: 1', 'daily of a: 6'])
  })

  it('ends by the clock of the store, and usage survives to the unit', () => {
    const until = new Date(clock.now() + HOUR / 2).toISOString()
    const { ask, remaining } = limiterFor(policy({ overrides: [{ key: 'a', limits: [{ quota: 20 }], until }] }))
    for (let i = 0; i < 7; i++) ask({ tenant: 'a' })
    expect(remaining({ tenant: 'a' })).toBe(13)
    clock.advance(HOUR / 2 - 1)
    expect(remaining({ tenant: 'a' })).toBe(13)
    clock.advance(1)
    expect(remaining({ tenant: 'a' })).toBe(3)
  })

  it('finds composite keys, addresses and keys of any length', () => {
    const long = 'x'.repeat(200)
    const some = [{ quota: 50 }]
    const { ask } = limiterFor(
      policy({
        name: 'pair',
        key: ['ip', 'attribute:tenant'],
        overrides: [{ key: ['192.0.2.1', long], limits: some }],
      }),
      policy({
        name: 'address',
        key: 'ip',
        overrides: [
          { key: '2001:db8:1::/56', limits: some },
          { key: '2001:DB8:2::9', limits: some },
        ],
      }),
      policy({
        name: 'long',
        overrides: [
          { key: long, limits: some },
          { key: 42, limits: some },
        ],
      }),
    )
    const remaining = (attributes: Record<string, unknown>, ip: string): number[] =>
      ask(attributes, { ip }).limits.map((each) => each.remaining)
    expect(remaining({ tenant: long }, '192.0.2.1')).toEqual([49, 9, 49])
    expect(remaining({ tenant: 42 }, '2001:db8:1:44::1')).toEqual([9, 49, 49])
    expect(remaining({ tenant: 'z' }, '2001:db8:2::1')).toEqual([9, 49, 9])
  })

  it('with another algorithm takes no options from the limit', () => {
    const bucket = [{ algorithm: 'tokenBucket', quota: 10, window: '1h', capacity: 40, refill: 'interval' }]
    const change = { algorithm: 'gcra', quota: 5, window: '1m' }
    const { rules, ask } = limiterFor(policy({ limits: bucket, overrides: [{ key: 'a', limits: [change] }] }))
    expect(ask({ tenant: 'a' }).limits[0]!.limit).toEqual({ ...change, window: 60_000, name: 'api' })
    expect(rules.current.policies).toHaveLength(1)
  })
})

describe('the cost of a policy', () => {
  it('is a number or an attribute; that of the call takes precedence', () => {
    const { limiter } = limiterFor(policy({ cost: 3 }), policy({ name: 'tokens', cost: 'tokens' }))
    const input = { attributes: { tenant: 'a', tokens: 4 } }
    expect(shownLimits(limiter.consume(input) as Decision)).toEqual(['api of a: 7', 'tokens of a: 6'])
    expect(shownLimits(limiter.consume(input, { cost: 1 }) as Decision)).toEqual(['api of a: 6', 'tokens of a: 5'])
  })

  it('is 1 without the attribute, with one warning; a wrong one is an error', async () => {
    const { ask } = limiterFor(policy({ cost: 'tokens' }))
    expect(await warningsOf(() => [ask({ tenant: 'a' }), ask({ tenant: 'a' })])).toEqual(['SLUICE_NO_COST'])
    expect(ask({ tenant: 'a', tokens: 0 }).remaining).toBe(Infinity)
    for (const tokens of [-1, 0.5, '3', Number.NaN])
      expect(codeOf(() => ask({ tenant: 'a', tokens }))).toBe('INVALID_COST')
  })
})

describe('a limiter with rules', () => {
  it('refunds, settles, waits and resets', async () => {
    const { limiter } = limiterFor(policy(), policy({ name: 'user', key: 'attribute:user' }))
    const input = { attributes: { tenant: 'a', user: 'u' } }
    const first = (await limiter.wait(input)) satisfies Decision
    void limiter.settle(first, 5)
    expect(shownLimits(limiter.peek(input, { cost: 0 }) as Decision)).toEqual(['api of a: 5', 'user of u: 5'])
    void limiter.refund(limiter.consume(input) as Decision)
    expect((limiter.peek(input, { cost: 0 }) as Decision).limits[0]!.remaining).toBe(5)
    void limiter.reset(input)
    expect(shownLimits(limiter.peek(input, { cost: 0 }) as Decision)).toEqual(['api of a: 10', 'user of u: 10'])
  })

  it('refuses keyer, limits and cost, and what is no rules', () => {
    const rules = createRules(document())
    for (const option of ['keyer', 'limits', 'cost'])
      expect(() => createLimiter({ rules, [option]: everyone } as never)).toThrow(
        `${option}: expected nothing together with`,
      )
    expect(() => createLimiter({ rules: document() } as never)).toThrow(/^rules: expected rules of sluice\/rules/)
  })

  it('shares its counts with another limiter of the same rules, and refuses one of other rules', () => {
    const store = memoryStore({ clock })
    const rules = createRules(document(policy()))
    const [one, other] = [createLimiter({ rules, store }), createLimiter({ rules, store })]
    void one.consume({ attributes: { tenant: 'a' } })
    expect((other.consume({ attributes: { tenant: 'a' } }) as Decision).remaining).toBe(8)
    const others = createRules(document(policy()))
    expect(codeOf(() => createLimiter({ rules: others, store }))).toBe('DUPLICATE_LIMITER')
    expect(() => createLimiter({ rules: others, store, name: 'second' })).not.toThrow()
  })
})

describe('an attribute that no request has', () => {
  const rules = createRules(
    document(
      policy({ name: 'typo', match: { attributes: { pln: 'free' } } }),
      policy({ name: 'paid', match: { attributes: { plan: 'paid' } }, key: 'attribute:tenent', cost: 'tokens' }),
    ),
  )
  const ask = (
    limiter: { consume(input: RulesInput): unknown },
    attributes: Record<string, unknown>,
    times: number,
  ): void => {
    for (let i = 0; i < times; i++) limiter.consume({ attributes })
  }
  const other = document(policy({ name: 'typo', match: { attributes: { pln: 'free', reigon: 'eu' } } }))

  it('is warned of once, after a thousand requests', async () => {
    const limiter = createLimiter({ rules, store: memoryStore({ clock }) })
    const attributes = { plan: 'free', tenant: 'a', pln: undefined, tenent: null }
    const messagesOf = async (times: number): Promise<readonly string[]> => {
      const { codes, messages, stop } = recordWarnings()
      ask(limiter, attributes, times)
      stop()
      expect(codes).toEqual(messages.map(() => 'SLUICE_ATTRIBUTE_MISSING'))
      return messages.map((each) => /had: (.*?)\. /.exec(each)![1]!)
    }
    expect(await messagesOf(999)).toEqual([])
    expect(await messagesOf(3000)).toEqual([
      '"pln" (policy "typo"), "tenent" (policy "paid"), "tokens" (policy "paid")',
    ])
    rules.replace(other)
    expect(await messagesOf(999)).toEqual([])
    expect(await messagesOf(3000)).toEqual(['"reigon" (policy "typo")'])
  })

  it('is not warned of if one request of the first thousand had it', async () => {
    const limiter = createLimiter({ rules: createRules(other), store: memoryStore({ clock }) })
    const codes = await warningsOf(() => {
      ask(limiter, {}, 998)
      ask(limiter, { pln: 'paid', reigon: 'eu', tenant: 'a' }, 1)
      ask(limiter, {}, 2000)
    })
    expect(codes).toEqual([])
  })
})
