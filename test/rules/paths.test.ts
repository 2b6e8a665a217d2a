import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { canonicalPattern, isPathPattern, pathForms } from '../../src/rules/paths.ts'
import { compileRules } from '../../src/rules/compile.ts'
import { explainRules } from '../../src/rules/explain.ts'
import { Facts } from '../../src/rules/facts.ts'
import { matchingPolicies } from '../../src/rules/match.ts'
import { plainReader } from '../../src/limiter/rule-source.ts'

/** Returns whether a request path is limited by a policy with a path. */
function isLimited(pattern: string, path: string): boolean {
  const policy = { name: 'p', match: { path: pattern }, key: 'everyone', limits: [{ quota: 1, window: '1m' }] }
  const facts = new Facts(plainReader, { path }, {}) as Facts
  return matchingPolicies(compileRules({ policies: [policy] }), facts, 0).length > 0
}

/** Returns whether a request path passes uncounted by a policy with `allow`. */
function isExempt(path: string): boolean {
  const rules = compileRules({
    policies: [
      { name: 'open', match: { path: ['/api/health', '/api/open/*'] }, allow: true },
      { name: 'api', match: { path: '/api/*' }, key: 'everyone', limits: [{ quota: 1, window: '1m' }] },
    ],
  })
  const facts = new Facts(plainReader, { path }, {}) as Facts
  const isAllowed = matchingPolicies(rules, facts, 0).some(({ rule }) => rule.allow === true)
  expect(explainRules(rules, { path }, 0).allowedBy !== undefined).toBe(isAllowed)
  return isAllowed
}

describe('a path that a policy allows', () => {
  it.each([
    '/api/health',
    '/API/%68ealth',
    '/api/health?a',
    '/api/open',
    '/api/open/a/b',
    '/api/open/health',
    '/api/health/',
    '/api///health//',
  ])('%s passes uncounted', (path) => {
    expect(isExempt(path)).toBe(true)
  })

  it.each([
    '/api/secret/../health',
    '/api/secret/%2e%2E/health',
    '/api/open/../secret',
    '/api/health/../secret',
    '/api/health;/secret',
    '/api/secret\\..\\health',
    '/api/open\\..\\secret',
    '//host/api/health',
    'xapi/health',
    '/api/secret//../../api/health',
  ])('%s does not, since a router may see another path', (path) => {
    expect(isExempt(path)).toBe(false)
  })
})

describe('a path', () => {
  it.each([
    ['/login', '/login'],
    ['/login', '/login/'],
    ['/login', '/LOGIN'],
    ['/login', '/%6cogin'],
    ['/login', '/%6Cogin'],
    ['/login', '//login'],
    ['/login', '///login//'],
    ['/login', '/login?a=/b'],
    ['/login', '/login#top'],
    ['/login', '/./login'],
    ['/login', '/x/../login'],
    ['/login', '/x/%2e%2E/login'],
    ['/users/login', '/users//%2e%2e/login'],
    ['/a/b', '/a/b//..'],
    ['/login', '/login;session=1'],
    ['/login', 'http://example.com/login'],
    ['/login', 'https://example.com/login?next=/'],
    ['/Login/', '/login'],
    ['/caf%C3%A9', '/café'],
    ['/café', '/CAF%c3%89'],
    ['/', '/'],
    ['/', 'http://example.com'],
    ['/', '/?a'],
    ['/users/:id', '/users/42'],
    ['/users/:id', '/users/a%2Fb'],
    ['/users/:id', '/users/'],
    ['/users/:id/posts', '/users//posts'],
    ['/api/*', '/api'],
    ['/api/*', '/api/'],
    ['/api/*', '/api/a/b/c'],
    ['/api/*', '/api/../other'],
    ['/*', '/'],
    ['/*', '/a/b'],
    ['/c++', '/c%2b%2b'],
    ['/a.json', '/a.json'],
    ['/v1/items%3Abatch', '/v1/items:batch'],
    ['/100%', '/100%25'],
    ['/login', '/\\login'],
    ['/login', '/login\\#'],
    ['/api/login', '/api\\login'],
    ['/login', '/x\\..\\login'],
    ['/login', '/x/..\\login;session=1'],
    ['/login', 'http://example.com\\login'],
    ['/login', '*login'],
    ['/api/login', 'xapi/login?a=/b'],
    ['/login', '?login'],
    ['/', '*'],
    ['/login', '//localhost/login'],
    ['/login', '/\\localhost\\login'],
    ['/login', '///localhost/login'],
    ['/', 'http://example.com?a/b'],
    ['/', 'http://example.com#/a'],
  ])('of the policy %s matches %s', (pattern, path) => {
    expect(isLimited(pattern, path)).toBe(true)
  })

  it.each([
    ['/login', '/'],
    ['/login', '/logins'],
    ['/login', '/login/x'],
    ['/login', '/a/login'],
    ['/login', '/login%2f'],
    ['/', '/a'],
    ['/users/:id', '/users'],
    ['/users/:id', '/users/1/2'],
    ['/users/:id/:post', '/users/1'],
    ['/api/*', '/apis'],
    ['/api/*', '/'],
    ['/a/b', '/a%2Fb'],
    ['/a', ''],
    ['/a', '*'],
  ])('of the policy %s does not match %s', (pattern, path) => {
    expect(isLimited(pattern, path)).toBe(false)
  })

  it('has one spelling for most requests', () => {
    expect(pathForms('/users/42')).toEqual(['/users/42'])
    expect(pathForms('/')).toEqual(['/'])
  })

  it('is matched whatever it contains, in time that grows only with its length', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (path) => {
        expect(pathForms(path)[0]).toMatch(/^\//)
      }),
    )
    for (const part of ['/', '\\', '\\..;', '/.', '/..', ';', '/;', '%', '/%2e', '%00', '/a']) {
      const started = performance.now()
      isLimited('/a/:b/*', part.repeat(16_000 / part.length))
      expect(performance.now() - started).toBeLessThan(500)
    }
  })
})

describe('a pattern', () => {
  it.each([
    '/',
    '/a',
    '/a/',
    '/a/b.json',
    '/:id',
    '/a/:id_2/b',
    '/*',
    '/a/*',
    '/a/:b/*',
    '/~ann/@x/a-b_c',
    '/%2Fa',
    '/c++',
    '/.well-known/x',
  ])('can be %s', (pattern) => {
    expect(isPathPattern(pattern)).toBe(true)
  })

  it.each([
    '',
    'a',
    '*',
    '//',
    '/a//b',
    '/a*',
    '/*/a',
    '/**',
    '/:',
    '/:1',
    '/:a?',
    '/:a+',
    '/:a*',
    '/:a(\\d+)',
    '/a:b',
    '/(a+)+$',
    '/{a}',
    '/a?b',
    '/a#b',
    '/..',
    '/a/../b',
    '/a/.',
    '/%2e%2e/a',
    '/%2E',
    '/a b',
    '/a\\b',
    `/${'a'.repeat(1024)}`,
    7,
    null,
  ])('cannot be %j', (pattern) => {
    expect(isPathPattern(pattern)).toBe(false)
  })

  it('is the same as one that matches the same paths', () => {
    expect(canonicalPattern('/Users/:id/')).toBe(canonicalPattern('/users/:name'))
  })

  it('is checked in bounded time, whatever it contains', () => {
    for (const part of ['/', '/a', '/:a', ':', '%2e', '/.', '(a+)+', '/*']) {
      const started = performance.now()
      isPathPattern(part.repeat(100_000))
      expect(performance.now() - started).toBeLessThan(100)
    }
  })
})
