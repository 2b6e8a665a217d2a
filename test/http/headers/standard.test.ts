import * as fc from 'fast-check'
import { type BareItem, parseList, serializeBareItem } from 'structured-headers'
import { describe, expect, test } from 'vitest'
import { structuredBytes, structuredString } from '../../../src/http/headers/structured.ts'
import { headerConfig } from '../../../src/http/headers/styles.ts'
import { A1, A2, D1, D2, D3, D4, decide, slots, status, windowed, written } from '../decisions.ts'
import { codeOf } from '../../support/code-of.ts'

test.each(['standard', 'draft-8'] as const)('writes the worked values of %s', (style) => {
  const one = '"default";q=100;w=60'
  const two = '"burst";q=10;w=1, "hourly";q=1000;w=3600'
  expect(written(style, A1)).toEqual({ 'RateLimit-Policy': one, RateLimit: '"default";r=99;t=60' })
  expect(written(style, D1)).toEqual({ 'RateLimit-Policy': one, RateLimit: '"default";r=0;t=13' })
  expect(written(style, A2)).toEqual({ 'RateLimit-Policy': two, RateLimit: '"burst";r=9;t=1, "hourly";r=650;t=1800' })
  expect(written(style, D2)).toEqual({ 'RateLimit-Policy': two, RateLimit: '"burst";r=0;t=1' })
  expect(written(style, D3)).toEqual({ 'RateLimit-Policy': two, RateLimit: '"hourly";r=0;t=1800' })
  expect(written(style, D4)).toEqual({ 'RateLimit-Policy': two, RateLimit: '"burst";r=0;t=1, "hourly";r=0;t=1800' })
})

test('writes the units and the seconds of each request, in any order', () => {
  const limit = windowed('n', 300, 3_600_000)
  const textOf = (left: number, seconds: number): unknown =>
    written('standard', decide([status(limit, { remaining: left, resetAfter: seconds * 1000 })]))['RateLimit']
  for (let round = 0; round < 2; round++) {
    for (let left = 1; left <= 150; left++) {
      for (const seconds of [1, 2, 65, 66, 129, 3600]) expect(textOf(left, seconds)).toBe(`"n";r=${left};t=${seconds}`)
    }
  }
})

test('numbers the second of two equal limits', () => {
  const decided = decide([
    status(windowed('n', 5, 1000), { remaining: 4 }),
    status(windowed('n', 5, 1000), { remaining: 3 }),
  ])
  expect(written('standard', decided)).toEqual({
    'RateLimit-Policy': '"n";q=5;w=1, "n:2";q=5;w=1',
    RateLimit: '"n";r=4;t=0, "n:2";r=3;t=0',
  })
})

describe('the options of the newest draft', () => {
  const two = decide([
    status(windowed('bytes', 65_535, 10_000), { key: '203.0.113.7', remaining: 5, resetAfter: 1000 }),
    status(windowed('n', 5, 1000), { key: 'other', remaining: 4, resetAfter: 1000 }),
  ])

  test('add quota units', () => {
    expect(written('standard', two, { unit: { bytes: 'content-bytes', n: 'requests' } })['RateLimit-Policy']).toBe(
      '"bytes";q=65535;qu="content-bytes";w=10, "n";q=5;w=1',
    )
    expect(written('standard', two, { unit: 'concurrent-requests' })['RateLimit-Policy']).toBe(
      '"bytes";q=65535;qu="concurrent-requests";w=10, "n";q=5;qu="concurrent-requests";w=1',
    )
    const inherited = decide([status(windowed('constructor', 5, 1000))])
    expect(written('standard', inherited, { unit: {} })['RateLimit-Policy']).toBe('"constructor";q=5;w=1')
    for (const unit of ['é', '', null, 5, ['requests']])
      expect(codeOf(() => headerConfig({ headers: 'standard', unit: unit as string }))).toBe('INVALID_OPTION')
    expect(codeOf(() => headerConfig({ headers: 'standard', unit: { n: '\n' } }))).toBe('INVALID_OPTION')
  })

  test('add partitions as a keyed hash', () => {
    const headers = written('standard', two, { partitionKey: { secret: 'test-secret' } })
    expect(headers['RateLimit-Policy']).toMatch(/^"bytes";q=65535;w=10;pk=:ZcHJA4zWGVZ\/1Ped:, "n";q=5;w=1;pk=:.{16}:$/)
    expect(headers['RateLimit']).toMatch(/^"bytes";r=5;t=1;pk=:ZcHJA4zWGVZ\/1Ped:, "n";r=4;t=1;pk=:.{16}:$/)
    const [first, second] = parseList(headers['RateLimit-Policy']!).map(([, parameters]) =>
      (parameters as Map<string, BareItem>).get('pk'),
    )
    expect(first).toBeInstanceOf(ArrayBuffer)
    expect((first as ArrayBuffer).byteLength).toBe(12)
    expect(new Uint8Array(second as ArrayBuffer)).not.toEqual(new Uint8Array(first as ArrayBuffer))
    expect(written('standard', two)['RateLimit']).not.toContain('pk')
  })

  test('add no partition of shadow limits, and on a denial only those of violated limits', () => {
    const decided = decide([
      status(windowed('ghost', 1, 1000, { shadow: true })),
      status(windowed('a', 1, 1000), { retryAfter: 100 }),
      status(windowed('b', 2, 1000), { remaining: 1 }),
    ])
    const headers = written('standard', decided, { partitionKey: { secret: 's' } })
    expect(parseList(headers['RateLimit-Policy']!).map(([name]) => name)).toEqual(['a', 'b'])
    expect(parseList(headers['RateLimit']!).map(([name]) => name)).toEqual(['a'])
  })
})

test('writes a limit of slots in its own unit, without a window and without a time of a reset', () => {
  const both = [status(windowed('n', 100, 60_000), { remaining: 99, resetAfter: 60_000 })]
  const taken = decide([...both, status(slots(10), { remaining: 7, resetAfter: 50_000 })])
  const policy = '"n";q=100;w=60, "slots";q=10;qu="concurrent-requests"'
  expect(written('standard', taken)).toEqual({ 'RateLimit-Policy': policy, RateLimit: '"n";r=99;t=60, "slots";r=7' })
  const denied = decide([...both, status(slots(10), { retryAfter: 1000, resetAfter: 60_000 })])
  expect(written('standard', denied)).toEqual({ 'RateLimit-Policy': policy, RateLimit: '"slots";r=0' })
  // The unit of the option is that of limits with a window.
  expect(written('standard', denied, { unit: 'tokens' })['RateLimit-Policy']).toBe(
    '"n";q=100;qu="tokens";w=60, "slots";q=10;qu="concurrent-requests"',
  )
  const closed = decide([status(slots(0), { retryAfter: Infinity })])
  expect(written('standard', closed)).toEqual({
    'RateLimit-Policy': '"slots";q=0;qu="concurrent-requests"',
    RateLimit: '"slots";r=0',
  })
})

test('a partition key needs a secret, which no message quotes', () => {
  expect(() => headerConfig({ headers: 'standard', partitionKey: { secret: '' } })).toThrow(
    expect.objectContaining({ code: 'INVALID_OPTION' }),
  )
  expect(() => headerConfig({ headers: 'standard', partitionKey: {} as { secret: string } })).toThrow(
    /partitionKey.secret/,
  )
  expect(() => headerConfig({ headers: 'standard', partitionKey: 'hunter2' as never })).toThrow(/, got a string \(/)
  expect(() => headerConfig({ headers: 'standard', partitionKey: null as never })).toThrow(
    /^partitionKey: expected options/,
  )
  expect(() => headerConfig({ headers: 'standard', partitionKey: { secret: 's', salt: 't' } as never })).toThrow(
    expect.objectContaining({ code: 'UNKNOWN_OPTION' }),
  )
})

const printable = fc
  .array(fc.integer({ min: 0x20, max: 0x7e }))
  .map((codes) => codes.map((code) => String.fromCodePoint(code)).join(''))

test('writes printable ASCII as a library for RFC 9651 does', () => {
  fc.assert(
    fc.property(printable, (text) => {
      expect(structuredString(text)).toBe(serializeBareItem(text))
    }),
  )
})

test('writes bytes as a library for RFC 9651 does', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 255 })), (list) => {
      const bytes = Uint8Array.from(list)
      expect(structuredBytes(bytes)).toBe(serializeBareItem(bytes))
    }),
  )
})
