import fc from 'fast-check'
import { casesHere } from '../parts.ts'
import { describe, expect, it } from 'vitest'
import { canonicalPattern, isPathPattern, pathKey, pathReadings } from '../../src/rules/paths.ts'
import { compileRules } from '../../src/rules/compile.ts'
import { explainRules, keyUnder as keyOf, matchingPolicies } from '../../src/rules/match.ts'
import { Facts, plainFacts, plainReader } from '../../src/rules/facts.ts'
import { matches, policy } from './matching.ts'

/** Returns the words of a text. */
function wordsIn(text: string): string[] {
  return text.trim().split(/\s+/)
}

/** Returns the pairs of a table: the first word of a row with each of the others. */
function pairsIn(table: string): [string, string][] {
  return table
    .trim()
    .split('\n')
    .map(wordsIn)
    .flatMap(([first, ...others]) => others.map((each): [string, string] => [first!, each]))
}

/** Returns the key of a request path under a policy that counts by path. */
function keyUnder(pattern: string | undefined, path: string): string | undefined {
  const match = pattern === undefined ? {} : { path: pattern }
  const policies = [policy('p', match, { key: 'path' })]
  return explainRules(compileRules({ policies }), { path }, 0).policies[0]!.key
}

/** Returns whether a request path passes uncounted by a policy with `allow`. */
function isExempt(path: string): boolean {
  const rules = compileRules({
    policies: [
      { name: 'open', match: { path: ['/api/health', '/api/open/*'] }, allow: true },
      policy('api', { path: '/api/*' }),
    ],
  })
  const facts = plainFacts({ path })
  const isAllowed = matchingPolicies(rules, facts, 0).some(({ rule }) => rule.allow === true)
  expect(explainRules(rules, { path }, 0).allowedBy !== undefined).toBe(isAllowed)
  return isAllowed
}

describe('a path that a policy allows', () => {
  it.each(
    wordsIn(`
    /api/health /API/%68ealth /api/health?a /api/open /api/open/a/b /api/open/health /api/health/ /api///health//
  `),
  )('%s passes uncounted', (path) => {
    expect(isExempt(path)).toBe(true)
  })

  it.each(
    wordsIn(String.raw`
    /api/secret/../health /api/secret/%2e%2E/health /api/open/../secret /api/health/../secret /api/health;/secret
    /api/secret\..\health /api/open\..\secret //host/api/health xapi/health /api/secret//../../api/health
    http:///api/health http:///secret/api/health http://host//api/health
  `),
  )('%s does not, since a router may see another path', (path) => {
    expect(isExempt(path)).toBe(false)
  })
})

describe('a path', () => {
  it.each(
    pairsIn(String.raw`
    /login            /login /login/ /LOGIN /%6cogin /%6Cogin //login ///login// /login?a=/b /login#top /./login
    /login            /x/../login /x/%2e%2E/login /login;session=1 http://example.com/login
    /login            https://example.com/login?next=/ /\login /login\# /x\..\login /x/..\login;session=1
    /login            http://example.com\login *login ?login //localhost/login /\localhost\login ///localhost/login
    /login            http:///x/login HTTP:////x/login?a http:\\x\login http:/login http:login other:///login *x/login
    /users/login      /users//%2e%2e/login
    /a/b              /a/b//..
    /Login/           /login
    /caf%C3%A9        /café
    /café             /CAF%c3%89
    /                 / http://example.com /?a * http://example.com?a/b http://example.com#/a
    /users/:id        /users/42 /users/a%2Fb /users/
    /users/:id/posts  /users//posts
    /api/*            /api /api/ /api/a/b/c /api/../other
    /*                / /a/b
    /c++              /c%2b%2b
    /a.json           /a.json
    /v1/items%3Abatch /v1/items:batch
    /100%             /100%25
    /api/login        /api\login xapi/login?a=/b
    /x/login          http:///x/login
    /café/:id         /caf%c3%a9/%ff
    /a/:id            /%61/%
    /a%ffb            /A%FFB
    /a%3ab            /a:b
    /a%2ab            /a*b
    /σας              /ΣΑΣ
    /a@b              /a%40b
    /:tenant/login    http://a:b/login http://:b/login http://u:p@a:b:80/login other://a:b/login http:\\a:b\login
    /%28a%29          /(a)
    /%3B              /%3b
  `),
  )('of the policy %s matches %s', (pattern, path) => {
    expect(matches({ path: pattern }, { path })).toBe(true)
  })

  it.each([
    ['/a', ''],
    ...pairsIn(`
      /login           / /logins /login/x /a/login /login%2f
      /                /a
      /users/:id       /users /users/1/2
      /users/:id/:post /users/1
      /api/*           /apis /
      /a/b             /a%2Fb
      /a               *
      /:tenant/login   http://a:80/login http://a:/login http://[::1]/login http://u:p@a/login
    `),
  ])('of the policy %s does not match %s', (pattern, path) => {
    expect(matches({ path: pattern }, { path })).toBe(false)
  })

  it('matches without a space at its end that is no ASCII, which some routers remove', () => {
    expect(matches({ path: '/login' }, { path: '/login\u00a0' })).toBe(true)
    expect(matches({ path: '/login' }, { path: '/login;a\ufeff' })).toBe(true)
    expect(isExempt('/api/health\u00a0')).toBe(false)
  })

  it('has one spelling for most requests', () => {
    expect(pathReadings('/users/42')).toEqual(['/users/42'])
    expect(pathReadings('/')).toEqual(['/'])
  })

  it('is matched whatever it contains', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (path) => {
        expect(pathReadings(path)[0]).toMatch(/^\//)
      }),
    )
  })
})

/** Texts that are expensive when they are repeated. */
const HOSTILE =
  '/ \\ \\..; /. /.. /a/.. ; /; /;/.. % /% /%ff /a% /%2e %2e%2e/ /%c3%89 %c3 /%c3%89/%ff /%00 /a a /é /ß /İ Σ * */ : ( // http:// /%41 /A'.split(
    ' ',
  )
const STARTS = ['', '/', '*', '//h/', 'http:///', '\\/']

const timed = compileRules({
  policies: [
    ...['/a/:b/*', '/*'].map((path) => policy(path, { path }, { key: 'path' })),
    { name: 'allow', match: { path: '/*' }, allow: true },
  ],
})

/** Returns the processor time of matching a text, and of its keys, in milliseconds. It does not count what other processes take. */
function timeOf(path: string): number {
  const started = process.cpuUsage()
  const facts = plainFacts({ path })
  for (const policy of matchingPolicies(timed, facts, 0)) keyOf(policy, facts)
  const { user, system } = process.cpuUsage(started)
  return (user + system) / 1000
}

const TIMED = casesHere(STARTS, () => false)

describe.each(TIMED.length > 0 ? ['the time that a path takes'] : [])('%s', () => {
  it.each(TIMED)(
    'is short and grows only with its length, whatever it contains after %j',
    { timeout: 120_000 },
    (start) => {
      for (const part of HOSTILE) {
        const ofLength = (length: number): string => start + part.repeat(length / part.length)
        let [short, long] = [Infinity, Infinity]
        // The first times are those of a cold program. Other work of the machine makes a time longer, and never shorter.
        for (let tries = 0; tries < 2 || (tries < 12 && !(short < 8 && long / short < 48)); tries++) {
          short = Math.min(short, timeOf(ofLength(16_000)))
          long = Math.min(long, timeOf(ofLength(128_000)))
        }
        // A client can send 16 kB. It takes less than a millisecond on a quiet machine; failing decoders took 40 and more.
        expect(short, part).toBeLessThan(8)
        // A quadratic search takes 64 times as long, a linear one 8 to 33 times: long texts leave the caches of the processor.
        expect(long / short, part).toBeLessThan(48)
      }
    },
  )
})

describe('a path that a middleware has rewritten', () => {
  const matching = (path: string, allow: boolean): boolean => {
    const rule = allow ? { name: 'p', match: { path }, allow } : policy('p', { path })
    const rules = compileRules({ policies: [rule] })
    const facts = new Facts({ ...plainReader, path: () => ['/login', '/new/login'] }, {}, {})
    return matchingPolicies(rules, facts, 0).length > 0
  }

  it('is limited by a policy for either path, and exempt by one for both', () => {
    expect(['/login', '/new/*', '/other'].map((path) => matching(path, false))).toEqual([true, true, false])
    expect(['/login', '/new/*', '/*'].map((path) => matching(path, true))).toEqual([false, false, true])
  })
})

describe('a path as a key', () => {
  it.each(
    pairsIn(String.raw`
    /login     /login;7 /LOGIN;/7/.. *login /login/ //login /x/../login /%6cogin?7 //7/login \\7\login http://7/login
    /login     http:///7/login /7/;/../../login
    /users/:id /users/login;7 //7/users/login
    /users/*   //7/users/login;7
  `),
  )('is under the policy %s the same for %s as for the plain path', (pattern, path) => {
    expect(keyUnder(pattern, path)).toBe(pattern === '/login' ? '/login' : '/users/login')
  })

  it('is cut at a semicolon, and is one key for all paths that routers read in different ways', () => {
    expect(keyUnder(undefined, '/a/b;c/d')).toBe('/a/b')
    expect(keyUnder(undefined, '/a%3bc')).toBe('/a%3bc')
    expect(keyUnder(undefined, '/%C3%89/a//b/')).toBe('/%c3%a9/a/b')
    expect(keyUnder(undefined, '/')).toBe('/')
    expect(keyUnder(undefined, '')).toBe('/')
    for (const path of ['//7/login', '//8/login', 'http:///7/login', '/7;/../login', '/a//../7'])
      expect(keyUnder(undefined, path)).toBe('several paths')
  })

  it('takes at most one more value for a path of a router, however it is spelled', () => {
    const parts = ['/', '\\', ';', '/..', '%2e', '/a', 'b', '//', '*', 'http://', '%5c', '?', '%']
    const lists = Array.from({ length: 4 }).reduce<string[]>(
      (before) => ['', ...before.flatMap((start) => parts.map((part) => start + part))],
      [''],
    )
    const keys = new Map<string, Set<string>>()
    for (const target of lists) {
      const key = pathKey(pathReadings(target))
      for (const seen of pathsSeen(target)) {
        const known = keys.get(seen) ?? new Set()
        keys.set(seen, known)
        if (key !== 'several paths') known.add(key)
      }
    }
    expect([...keys].filter(([, { size }]) => size > 1)).toEqual([])
    expect(keys.size).toBeGreaterThan(1000)
  })
})

/** Returns what applications see of a target: the URL, or the target itself, and both until a semicolon. */
function pathsSeen(target: string): string[] {
  const urls = [target, ...(target.startsWith('http://') ? [] : [`http://localhost${target}`])].filter((url) =>
    URL.canParse(url, 'http://localhost'),
  )
  const paths = urls.map((url) => new URL(url, 'http://localhost').pathname)
  if (target.startsWith('/')) paths.push(target.split('?', 1)[0]!)
  return paths.flatMap((path) => [path, path.split(';', 1)[0]!])
}

describe('a pattern', () => {
  it.each(
    wordsIn(`
    / /a /a/ /a/b.json /:id /a/:id_2/b /* /a/* /a/:b/* /~ann/@x/a-b_c /%2Fa /c++ /.well-known/x
  `),
  )('can be %s', (pattern) => {
    expect(isPathPattern(pattern)).toBe(true)
  })

  it.each([
    ...wordsIn(String.raw`
      a * // /a//b /a* /*/a /** /: /:1 /:a? /:a+ /:a* /:a(\d+) /a:b /(a+)+$ /{a} /a?b /a#b /.. /a/../b /a/. /%2e%2e/a
      /%2E /a\b
    `),
    '',
    '/a b',
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
