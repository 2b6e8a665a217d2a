import { describe, expect, it } from 'vitest'
import { checkRules, createRules, type RulesDocument } from '../../src/rules/index.ts'
import { codeOf } from '../support/code-of.ts'

const limits = [{ quota: 5, window: '1m' }]
const api = { name: 'api', key: 'ip', limits }

/** Returns the mistakes of a document with one policy, as lines. They begin with the path in the policy. */
function mistakes(policy: unknown): string[] {
  return linesOf({ policies: [policy] }).map((line) => {
    expect(line).toMatch(/^policies\[0\][.[]/)
    return line.slice('policies[0]'.length).replace(/^\./, '')
  })
}

function linesOf(document: unknown): string[] {
  return checkRules(document).map(({ path, message }) => `${path}: ${message}`)
}

describe('a document', () => {
  it('reports all mistakes at once, each with its path', () => {
    const document = {
      polices: [],
      policies: [
        api,
        { ...api, limits: [{ quota: 5, window: '1 min' }] },
        { name: 'b', match: { path: 'login', ip: '1.2.3' }, limits: [{ quota: -1, window: '1m' }] },
        { name: 'c', key: 'ip', limits: [{ algorithm: 'gcrra', quota: 5, window: '1m' }], onOutage: 'lokal' },
      ],
    }
    expect(linesOf(document)).toEqual([
      'polices: is not known here; expected one of $schema, policies, otherwise. Did you mean "policies"?',
      'policies[1].name: expected another name, because policies[0] has "api"',
      'policies[1].limits[0].window: expected a duration such as "1m", got "1 min"',
      'policies[2].match.path: expected a path such as "/login", "/users/:id" or "/api/*", got "login"',
      'policies[2].match.ip: expected an address or a network such as "192.0.2.0/24", got "1.2.3"',
      'policies[2].limits[0].quota: expected a whole number from 0 to 9007199254740991, got -1',
      'policies[2].key: expected a value, got nothing',
      expect.stringMatching(
        /^policies\[3\]\.limits\[0\]\.algorithm: expected one of .*, got "gcrra"\. Did you mean "gcra"\?$/,
      ),
      'policies[3].onOutage: expected "local" or "open" or "closed", got "lokal"',
    ])
  })

  it.each([
    [undefined, ': expected a document such as { policies: […] }, got undefined'],
    [[], ': expected a document such as { policies: […] }, got an array of 0'],
    [{}, 'policies: expected a value, got nothing'],
    [{ policies: {} }, 'policies: expected a list of policies, got an object'],
    [{ policies: [null] }, 'policies[0]: expected a policy such as { name, match, key, limits }, got null'],
  ])('cannot be %j', (document, line) => {
    expect(linesOf(document)).toEqual([line])
  })
})

describe('a mistake has the path of', () => {
  const limited = (limit: object): object => ({ ...api, limits: [{ quota: 1, window: '1m', ...limit }] })
  const cases: readonly (readonly [string, object, string | RegExp])[] = [
    ['an unknown field', { ...api, limit: [] }, /^limit: is not known here; .* Did you mean "limits"\?$/],
    ['a missing limit', { name: 'a', key: 'ip' }, 'limits: expected a value, got nothing'],
    ['a header', { ...api, match: { header: { 'x-a': false } } }, 'match.header.x-a: expected true, got false'],
    ['the name of a header', { ...api, match: { header: { 'x a': 'b' } } }, /^match\.header\["x a"\]: expected/],
    [
      'an attribute',
      { ...api, match: { attributes: { plan: { a: 1 } } } },
      /^match\.attributes\.plan: expected a text/,
    ],
    [
      'a number that has another text',
      { ...api, match: { attributes: { id: 1e20 } } },
      /^match\.attributes\.id: expected a text of at most 1024 characters, a number from -9007199254740991 to 9007199254740991/,
    ],
    ['a condition in the plural', { ...api, match: { paths: '/a' } }, /^match\.paths: .* Did you mean "path"\?/],
    [
      'an end without a zone',
      { ...api, until: '2026-12-01T00:00:00' },
      /^until: expected a date and time with its zone/,
    ],
    ['an end on the 30th of February', { ...api, until: '2026-02-30T00:00:00Z' }, /^until: expected a date/],
    ['a key beside allow', { ...api, allow: true }, 'key: expected nothing together with allow, got "ip"'],
    ['an option of another algorithm', limited({ buckets: 3 }), /^limits\[0\]\.buckets: is not known here/],
    [
      'an option that fits no other',
      limited({ algorithm: 'slidingWindowBuckets', buckets: 7 }),
      /^limits\[0\]\.buckets: expected a divisor of the window/,
    ],
    [
      'a part of a block that fits no other',
      limited({ block: { for: '2h', factor: 2, upTo: '1h' } }),
      /^limits\[0\]\.block\.upTo: expected at least `for`/,
    ],
    [
      'a limit that cannot be exact',
      limited({ quota: 999_999_999_999, window: '365d' }),
      /^limits\[0\]: A quota of .* cannot be counted exactly/,
    ],
    [
      'a name twice',
      { ...api, limits: [...limits, { quota: 1, window: '1h', name: 'api' }] },
      'limits[1].name: expected a name that no other limit here has, got "api"',
    ],
    [
      'strict in shadow',
      { ...limited({ strict: true }), shadow: true },
      /^limits\[0\]\.strict: expected no strict together with shadow/,
    ],
  ]
  it.each(cases)('%s', (_title, policy, line) => {
    expect(mistakes(policy)).toContainEqual(typeof line === 'string' ? line : expect.stringMatching(line))
  })
})

describe('an attribute', () => {
  it('that stands beside the conditions is refused, with what to write', () => {
    const expected = 'is not known here; expected one of method, path, header, ip, attributes.'
    const application = 'For an attribute of the application, write attributes: { … }'
    expect(mistakes({ ...api, match: { methd: 'POST' } })).toEqual([
      `match.methd: ${expected} Did you mean "method"? ${application}`,
    ])
    expect(mistakes({ ...api, match: { 'a b': 'x' } })).toEqual([`match["a b"]: ${expected} ${application}`])
  })

  it('in a key without its prefix is refused, with what to write', () => {
    const expected = 'expected "ip", "everyone", "method", "path", "header:NAME" or "attribute:NAME", got'
    const application = 'For an attribute of the application, write'
    expect(
      ['tenant', 'pth', 'atribute:tenant', 'headr:x-a', 'header:', 'attribute:prototype'].map((key) =>
        mistakes({ ...api, key }),
      ),
    ).toEqual([
      [`key: ${expected} "tenant". ${application} "attribute:tenant"`],
      [`key: ${expected} "pth". Did you mean "path"? ${application} "attribute:pth"`],
      [`key: ${expected} "atribute:tenant". Did you mean "attribute:tenant"?`],
      [`key: ${expected} "headr:x-a". Did you mean "header:x-a"?`],
      [`key: ${expected} "header:"`],
      [`key: ${expected} "attribute:prototype"`],
    ])
  })
})

describe('a mistake in an override has the path of', () => {
  const daily = { quota: 100, window: '1d', name: 'daily' }
  const override = (...overrides: unknown[]): unknown => ({ ...api, limits: [...limits, daily], overrides })
  const change = { limits: [{ quota: 9 }] }
  const ofAddress = (...changes: object[]): unknown => override({ key: '1.2.3.4', limits: changes })
  const cases: readonly (readonly [string, unknown, string | RegExp])[] = [
    ['a key that is no address', override({ key: 'ann', ...change }), 'key: expected an address, got "ann"'],
    ['a list for one key', override({ key: ['1.2.3.4', 'a'], ...change }), /^key: expected one key, got/],
    [
      'an unknown limit',
      ofAddress({ name: 'dayly', quota: 1 }),
      'limits[0].name: expected the name of a limit of the policy ("api", "daily"), got "dayly". Did you mean "daily"?',
    ],
    ['too many limits', ofAddress({}, {}, { quota: 3 }), 'limits[2]: expected no more limits than the policy has, 2'],
    [
      'a limit twice',
      ofAddress({ quota: 1 }, { name: 'api', quota: 2 }),
      'limits[1]: expected one change of limit "api", got a second',
    ],
    ['an option that does not fit', ofAddress({ capacity: 3 }), /^limits\[0\]/],
  ]
  it.each(cases)('%s', (_title, policy, line) => {
    const [found, ...others] = mistakes(policy)
    expect(others).toEqual([])
    expect(found).toMatch(/^overrides\[0\]\./)
    const inOverride = found!.slice('overrides[0].'.length)
    expect(inOverride).toEqual(typeof line === 'string' ? line : expect.stringMatching(line))
  })

  it('a key that is there already', () => {
    expect(mistakes(override({ key: '1.2.3.4', ...change }, { key: '::ffff:1.2.3.4', ...change }))).toEqual([
      expect.stringMatching(/^overrides\[1\]\.key: expected a key without another override/),
    ])
  })

  it('a part of a composite key', () => {
    const policy = { ...api, key: ['ip', 'attribute:tenant'], overrides: [{ key: 'ann', limits: [{ quota: 1 }] }] }
    expect(mistakes(policy)).toEqual(['overrides[0].key: expected a list of 2: ip, attribute:tenant, got "ann"'])
  })
})

describe('a hostile document', () => {
  /** Checks a document in bounded time, and returns what is wrong. */
  function checked(document: unknown): readonly unknown[] {
    const started = performance.now()
    const problems = checkRules(document)
    expect(performance.now() - started).toBeLessThan(5000)
    return problems
  }

  it('with names of prototypes is refused and changes no prototype', () => {
    const match = JSON.parse('{ "__proto__": "a", "constructor": "b", "prototype": "c" }') as Record<string, unknown>
    const text = '{ "policies": [], "__proto__": { "isWrong": true } }'
    expect(mistakes({ ...api, match: { attributes: match } }).map((line) => line.split(':')[0])).toEqual(
      ['__proto__', 'constructor', 'prototype'].map((name) => `match.attributes.${name}`),
    )
    expect(checked(JSON.parse(text))).toMatchObject([{ path: '__proto__' }])
    expect(mistakes({ ...api, key: 'attribute:constructor' })).toHaveLength(1)
    expect(({} as Record<string, unknown>)['isWrong']).toBeUndefined()
  })

  it('that is deep is refused without recursion', () => {
    let deep: unknown = 'end'
    for (let i = 0; i < 100_000; i++) deep = i % 2 === 0 ? [deep] : { plan: deep }
    for (const policy of [
      deep,
      { ...api, match: deep },
      { ...api, match: { attributes: { plan: deep } } },
      { ...api, limits: deep },
    ])
      expect(checked({ policies: [policy] })).not.toEqual([])
  })

  it('that is large is refused, with a bounded number of mistakes', () => {
    const many = Array.from({ length: 1_000_000 }, () => 'x')
    expect(checked({ policies: many.slice(0, 20_000) })).toMatchObject([{ path: 'policies' }])
    expect(checked({ policies: many })).toMatchObject([
      { path: '', message: 'expected at most 1000000 values, got more' },
    ])
    expect(checked({ policies: many.slice(0, 10_000) })).toHaveLength(101)
    expect(checked({ policies: [{ ...api, match: { attributes: { plan: many.slice(0, 20_000) } } }] })).toMatchObject([
      { path: 'policies[0].match.attributes.plan' },
    ])
    expect(checked({ policies: [{ ...api, match: { path: 'x'.repeat(1e7) } }] })).toHaveLength(1)
    expect(checked({ policies: [{ ...api, ['x'.repeat(1e6)]: 1 }] })).toHaveLength(1)
    const fields = Object.fromEntries(many.slice(0, 100_000).map((_, i) => [`f${i}`, 1]))
    for (const match of [fields, { attributes: fields }])
      expect(checked({ policies: [{ ...api, match }] })).toHaveLength(1)
  })

  it('that has one object in many places is refused', () => {
    const match = { path: Array.from({ length: 10_000 }, (_, i) => `/${i}`) }
    const policies = Array.from({ length: 10_000 }, (_, i) => ({ ...api, name: `${i}`, match }))
    expect(checked({ policies })).toEqual([{ path: '', message: 'expected at most 1000000 values, got more' }])
  })

  it('is not checked further after a hundred mistakes', () => {
    let reads = 0
    const wrong = (): object => Object.defineProperty({}, 'key', { enumerable: true, get: () => ++reads })
    const overrides = Array.from({ length: 1000 }, wrong)
    const problems = checked({ policies: [{ ...api, overrides }] })
    expect(problems.at(-1)).toEqual({ path: '', message: 'and more: the first 100 mistakes are listed' })
    expect(problems).toHaveLength(101)
    const inPolicies = reads
    expect(inPolicies).toBeLessThan(1000 + 500)
    expect(() => createRules({ policies: [{ ...api, overrides }] } as never)).toThrow(
      /^The rules have more than 100 mistakes:\n/,
    )
  })
})

describe('createRules', () => {
  it('throws INVALID_RULES with every mistake, as text and as data', () => {
    const document = {
      policies: [
        { ...api, key: '' },
        { ...api, cost: 'a b' },
      ],
    } as unknown as RulesDocument
    expect(() => createRules(document)).toThrow(
      expect.objectContaining({
        code: 'INVALID_RULES',
        message: expect.stringMatching(/^The rules have 3 mistakes:\n {2}policies\[0\]\.key: .*\n {2}policies\[1\]/),
        cause: checkRules(document),
      }),
    )
  })

  it('copies the document: a later change of it has no effect', () => {
    const document = { policies: [{ name: 'api', key: 'ip', limits: [{ quota: 5, window: '1m' }] }] }
    const rules = createRules(document)
    document.policies[0]!.limits[0]!.quota = 7
    expect(rules.current.policies[0]!.limits![0]!.quota).toBe(5)
    expect(Object.isFrozen(rules.current.policies[0]!.limits![0])).toBe(true)
  })

  it('refuses unknown and wrong options', () => {
    const document = { policies: [] }
    expect(codeOf(() => createRules(document, { atributes: 1 } as never))).toBe('UNKNOWN_OPTION')
    expect(codeOf(() => createRules(document, { attributes: {} } as never))).toBe('INVALID_OPTION')
    expect(codeOf(() => createRules(document, { ipv6Subnet: 8 }))).toBe('INVALID_OPTION')
  })
})
