import * as fc from 'fast-check'
import { type BareItem, parseDictionary, parseList } from 'structured-headers'
import { describe, expect, test } from 'vitest'
import { isPreflight, withNames } from '../../../src/http/headers/cors.ts'
import { HEADER_STYLES, type HeaderStyle } from '../../../src/http/headers/types.ts'
import { headerConfig, writtenHeaders } from '../../../src/http/headers/styles.ts'
import type { Decision } from '../../../src/limiter/decision.ts'
import { A1, A2, D1, decide, status, windowed, written } from '../decisions.ts'

describe('limits in headers', () => {
  test('no shadow limit is written', () => {
    const shadow = windowed('ghost', 1, 1000, { shadow: true })
    const decided = decide([
      status(shadow, { remaining: 0, retryAfter: 500, resetAfter: 500 }),
      status(windowed('n', 5, 1000), { remaining: 4, resetAfter: 1000 }),
      status(shadow, { remaining: 0 }),
    ])
    for (const style of HEADER_STYLES)
      expect(JSON.stringify(written(style, decided))).not.toMatch(/ghost|[lL]imit"?[=:]"?1\b|\b1;w/)
    expect(written('standard', decided)).toEqual({ 'RateLimit-Policy': '"n";q=5;w=1', RateLimit: '"n";r=4;t=1' })
    for (const style of HEADER_STYLES) expect(written(style, decide([status(shadow)]))).toEqual({})
  })

  test.each(HEADER_STYLES)('%s writes nothing without limits, and nothing when the store did not answer', (style) => {
    expect(written(style, decide([]))).toEqual({})
    expect(written(style, { ...A1, degraded: 'open' })).toEqual({})
    expect(written(style, { ...D1, degraded: 'closed' })).toEqual({})
    expect(written(style, { ...A1, degraded: 'local' })).toEqual(written(style, A1))
  })
})

describe('styles', () => {
  test('can be none', () => {
    expect(written(false, A1)).toEqual({})
    expect(written([], A1)).toEqual({})
  })

  test.each([['draft-9'], [['standard', 'draft-9']], [null], [{}], [true]])('%o are refused', (headers) => {
    expect(() => headerConfig({ headers } as never)).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
  })

  test.each<readonly HeaderStyle[]>([
    ['standard', 'draft-7'],
    ['standard', 'draft-6'],
    ['legacy', 'github'],
  ])('%s and %s together are refused', (...both) => {
    expect(() => headerConfig({ headers: both })).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
  })

  test('list the headers that they write', () => {
    expect(writtenHeaders(headerConfig({}), [])).toEqual(['RateLimit', 'RateLimit-Policy'])
    expect(writtenHeaders(headerConfig({ headers: false }), A2.limits)).toEqual([])
    for (const style of HEADER_STYLES) {
      const names = writtenHeaders(headerConfig({ headers: style }), A2.limits).map((name) => name.toLowerCase())
      expect(
        Object.keys(written(style, A2))
          .map((name) => name.toLowerCase())
          .toSorted(),
      ).toEqual(names.toSorted())
    }
  })
})

describe('every header can be parsed', () => {
  const name = fc.string({
    unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)),
    minLength: 1,
  })
  const figure = fc.oneof(fc.double(), fc.integer(), fc.constantFrom(0, -1, Infinity, NaN, 1e15, 1e300))
  const positive = fc.integer({ min: 1, max: 2 ** 51 })
  const one = fc.record({
    limit: fc
      .record({
        name,
        quota: positive,
        window: positive,
        capacity: fc.option(positive, { nil: undefined }),
        shadow: fc.boolean(),
      })
      // A bucket of any capacity can be counted exactly when its units are milliseconds.
      .map(({ name: as, quota, window, capacity, shadow }) =>
        capacity === undefined
          ? windowed(as, quota, window, { shadow })
          : windowed(as, quota, quota, { algorithm: 'tokenBucket', capacity, shadow }),
      ),
    key: fc.string(),
    cost: fc.nat(9),
    remaining: figure,
    resetAfter: figure,
    retryAfter: fc.oneof(fc.constant(0), fc.double({ min: 0.001, noNaN: true })),
  })
  const decision = fc
    .uniqueArray(one, { maxLength: 5, selector: ({ limit: { name: its } }) => its })
    .map((all) => decide(all.map(({ limit: of, ...said }) => status(of, said))))
  const enforced = (decided: Decision) => decided.limits.filter((each) => each.limit.shadow !== true)
  const inBounds = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) < 1e15

  test.each([{}, { partitionKey: { secret: 's' }, unit: 'a"b' }])('standard %o', (options) => {
    fc.assert(
      fc.property(decision, (decided) => {
        const headers = written('standard', decided, options)
        const policies = parseList(headers['RateLimit-Policy'] ?? '')
        const states = parseList(headers['RateLimit'] ?? '')
        const listed = enforced(decided).filter((each) => decided.allowed || !each.allowed)
        expect(new Set(policies.map(([as]) => as))).toEqual(new Set(enforced(decided).map(({ limit: of }) => of.name)))
        expect(states.map(([as]) => as)).toEqual(listed.map(({ limit: of }) => of.name))
        for (const [, p] of policies as [BareItem, Map<string, BareItem>][])
          expect(inBounds(p.get('q')) && inBounds(p.get('w')) && p.get('w') !== 0).toBe(true)
        for (const [, p] of states as [BareItem, Map<string, BareItem>][]) {
          expect(inBounds(p.get('r')) && inBounds(p.get('t'))).toBe(true)
          expect(p.get('r') === 0 && p.get('t') === 0).toBe(false)
        }
      }),
    )
  })

  test('draft-7', () => {
    fc.assert(
      fc.property(decision, (decided) => {
        const { RateLimit } = written('draft-7', decided)
        const said = parseDictionary(RateLimit ?? '')
        expect([...said.keys()]).toEqual(decided.binding === undefined ? [] : ['limit', 'remaining', 'reset'])
        for (const [value] of said.values()) expect(inBounds(value)).toBe(true)
      }),
    )
  })

  test('draft-6, legacy, github', () => {
    fc.assert(
      fc.property(decision, (decided) => {
        for (const style of ['draft-6', 'legacy', 'github'] as const) {
          for (const [header, value] of Object.entries(written(style, decided))) {
            if (header.endsWith('resource')) expect(value).toBe(decided.binding!.limit.name)
            else if (!header.endsWith('Policy')) expect(value).toMatch(/^\d+$/)
          }
        }
      }),
    )
  })
})

describe('CORS', () => {
  const names = ['Retry-After', 'RateLimit', 'RateLimit-Policy']

  test.each([
    ['X-Foo', 'X-Foo, Retry-After, RateLimit, RateLimit-Policy'],
    ['', 'Retry-After, RateLimit, RateLimit-Policy'],
    ['x-foo,ratelimit , RETRY-AFTER', 'x-foo, ratelimit, RETRY-AFTER, RateLimit-Policy'],
    ['*', '*, Retry-After, RateLimit, RateLimit-Policy'],
    [' * ', '*, Retry-After, RateLimit, RateLimit-Policy'],
    [', ,X-Foo,', 'X-Foo, Retry-After, RateLimit, RateLimit-Policy'],
  ])('turns %o into %o', (existing, merged) => {
    expect(withNames(existing, names)).toBe(merged)
    expect(withNames(merged, names)).toBe(merged)
  })

  test('recognizes a preflight by OPTIONS and two headers', () => {
    const both: Record<string, string> = { origin: 'https://a.example', 'access-control-request-method': 'PUT' }
    const having = (headers: Record<string, string>) => (name: string) => headers[name]
    expect(isPreflight('OPTIONS', having(both))).toBe(true)
    expect(isPreflight('GET', having(both))).toBe(false)
    expect(isPreflight('OPTIONS', having({ ...both, upgrade: 'websocket' }))).toBe(false)
    expect(isPreflight(undefined, having(both))).toBe(false)
    expect(isPreflight('OPTIONS', having({ origin: 'x' }))).toBe(false)
    expect(isPreflight('OPTIONS', having({ 'access-control-request-method': 'PUT' }))).toBe(false)
  })
})
