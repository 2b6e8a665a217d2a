// Hostile texts in everything that reaches a response: names, units, keys, secrets, and headers of the request.
import { validateHeaderName } from 'node:http'
import fc from 'fast-check'
import { parseList } from 'structured-headers'
import { expect, test } from 'vitest'
import { denial, rawResponse } from '../../src/http/denial.ts'
import { withNames } from '../../src/http/headers/cors.ts'
import { retryAfter } from '../../src/http/headers/retry-after.ts'
import { headerConfig, headerWriter } from '../../src/http/headers/styles.ts'
import { HEADER_STYLES } from '../../src/http/headers/types.ts'
import { createLimiter, type Decision, fixedWindow, memoryStore, SluiceError } from '../../src/index.ts'
import { virtualClock } from '../../src/testing.ts'
import { exactNames, forAll, limits } from '../support/harness.ts'

const PIECES = [
  '\r\n',
  '\r\nSet-Cookie: a=b',
  '\n\nHTTP/1.1 200 OK',
  '\0',
  '"',
  '\\',
  '";q=1, "x',
  ';pk=:AA==:',
  'é',
  '💥',
  '\u2028',
  '\uD800',
  '\x7f',
  '\t',
  '%0d%0a',
  '__proto__',
]
const piece = fc.oneof(fc.constantFrom(...PIECES), fc.string({ unit: 'binary' }), fc.string())
const hostile = fc.array(piece, { maxLength: 5 }).map((pieces) => pieces.join(''))
/** What a header can contain. */
const FIELD = /^[\x20-\x7e]*$/
const printable = fc.string({
  unit: fc.oneof(fc.constantFrom('"', '\\', ';', ','), fc.string({ minLength: 1, maxLength: 1 })),
  minLength: 1,
  maxLength: 40,
})

/** Returns the result of a function, or undefined when it throws an error of this package. */
function attempt<Made>(make: () => Made): Made | undefined {
  try {
    return make()
  } catch (error) {
    expect(error).toBeInstanceOf(SluiceError)
    return undefined
  }
}

/** Decisions about a hostile key under limits of any algorithm, after some requests. */
const decisions = fc
  .tuple(
    fc.array(
      fc.tuple(
        fc.constantFrom(...exactNames()).chain((name) => limits(name)),
        printable,
      ),
      { minLength: 1, maxLength: 2 },
    ),
    hostile,
    fc.array(fc.constantFrom(1, 2, 2 ** 52), { minLength: 1, maxLength: 3 }),
  )
  .map(([named, key, costs]) => {
    const own = named.map(([limit, name], i) => ({ ...limit, name: `${name}${i}` }))
    const limiter = attempt(() =>
      createLimiter({ keyer: () => `k${key}`, limits: own, store: memoryStore({ clock: virtualClock() }) }),
    )
    return costs.map((cost) => attempt(() => limiter?.consume({}, { cost }))).findLast((each) => each !== undefined)
  })
  .filter((each): each is Decision => each !== undefined)

test('a name or a unit that a header cannot contain is refused', () => {
  forAll(hostile, (text) => {
    const makers = [
      () => fixedWindow({ quota: 1, window: 1000, name: text }),
      () => headerWriter(headerConfig({ headers: 'standard', unit: text })),
      () => headerWriter(headerConfig({ headers: 'standard', unit: { [text]: text } })),
    ]
    for (const make of makers) if (attempt<unknown>(make) !== undefined) expect(text).toMatch(FIELD)
  })
})

test('names, keys, units and secrets leave the headers of every style valid', () => {
  forAll(decisions, printable, hostile, fc.constantFrom(...HEADER_STYLES), (decision, unit, secret, style) => {
    const headers = new Map<string, string>()
    const partition = secret === '' ? {} : { partitionKey: { secret } }
    const write = headerWriter(headerConfig({ headers: style, unit, ...(style === 'standard' && partition) }))
    write(decision, 0, (name, value) => headers.set(name, value))
    for (const [name, value] of headers) {
      validateHeaderName(name)
      expect(value).toMatch(FIELD)
      // Names and digests may contain anything.
      const numbers = value.replace(/"(?:[^"\\]|\\.)*"|:[\w+/=]*:/g, '')
      if (name !== 'x-ratelimit-resource') expect(numbers).not.toMatch(/NaN|Infinity|undefined|null|e\+/)
    }
    if (style !== 'standard') return
    const names = decision.limits.map(({ limit }) => limit.name)
    expect(parseList(headers.get('RateLimit-Policy')!).map(([item]) => item)).toEqual(names)
  })
})

test('keys, names and the Accept of a request leave the body and the headers of a denial valid', () => {
  forAll(decisions, hostile, fc.boolean(), (decision, accept, isClosed) => {
    const decided = isClosed ? { ...decision, degraded: 'closed' as const } : decision
    const { status, headers, body } = denial(decided, { accept, method: 'GET' })
    expect(status).toBe(isClosed ? 503 : 429)
    expect(body).toMatch(/^[\x20-\x7e]+\n?$/)
    if (body.startsWith('{')) JSON.parse(body)
    const lines = rawResponse({ status, headers, body }).split('\r\n\r\n', 1)[0]!.split('\r\n')
    expect(lines).toHaveLength(headers.length + 3)
    for (const line of lines) expect(line).toMatch(FIELD)
    const seconds = retryAfter(decision)
    if (seconds !== undefined) expect([Number.isInteger(seconds), seconds >= 1]).toEqual([true, true])
  })
})

test('any list of exposed headers stays valid, and has the names', () => {
  forAll(printable, (list) => {
    const exposed = withNames(list, ['RateLimit', 'Retry-After'])
    expect(exposed).toMatch(FIELD)
    expect(exposed).toMatch(/RateLimit[^]*Retry-After|Retry-After[^]*RateLimit/i)
  })
})
