import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { mergeRetryAfter, millisecondsBeside, retryAfter, retryAfterMs } from '../../../src/http/headers/retry-after.ts'
import { A1, A2, D1, D2, D3, D4, decide, NOW, status, windowed } from '../decisions.ts'

describe('Retry-After', () => {
  test('has the worked values', () => {
    expect([A1, A2, D1, D2, D3, D4].map(retryAfter)).toEqual([undefined, undefined, 13, 1, 1800, 1800])
  })

  test.each([
    [-5, 1, 1],
    [0, 1, 1],
    [0.001, 1, 1],
    [200, 1, 200],
    [200.3, 1, 201],
    [1000, 1, 1000],
    [1001, 2, 1001],
    [3000.0000000004, 3, 3000],
    [59_999.4, 60, 60_000],
  ])('of a denial with %d ms is %d, and retry-after-ms is %d', (ms, seconds, milliseconds) => {
    const denied = { ...D1, retryAfter: ms }
    expect([retryAfter(denied), retryAfterMs(denied)]).toEqual([seconds, milliseconds])
    if (ms > 0) expect(retryAfter(decide([status(windowed('n', 1, 1000), { retryAfter: ms })]))).toBe(seconds)
  })

  test('is 1 when the store does not answer', () => {
    expect(retryAfter({ ...D1, degraded: 'closed', retryAfter: Infinity })).toBe(1)
  })

  test('is omitted when the request is never admitted', () => {
    const never = status(windowed('n', 1, 1000), { retryAfter: Infinity })
    expect(retryAfter(decide([never]))).toBeUndefined()
    expect(retryAfter(decide([status(windowed('m', 1, 1000), { retryAfter: 5 }), never]))).toBeUndefined()
  })

  test('ignores shadow limits', () => {
    const shadow = status(windowed('s', 1, 1000, { shadow: true }), { retryAfter: 90_000 })
    expect(retryAfter(decide([shadow]))).toBeUndefined()
    expect(retryAfter(decide([shadow, status(windowed('n', 1, 1000), { retryAfter: 5 })]))).toBe(1)
  })
})

describe('retry-after-ms', () => {
  test('has the worked values', () => {
    expect([A1, A2].map(retryAfterMs)).toEqual([undefined, undefined])
    expect([D1, D2, D3, D4].map(retryAfterMs)).toEqual([12_200, 200, 1_800_000, 1_800_000])
  })

  test('is a second when the store does not answer, and is omitted when the request is never admitted', () => {
    for (const ms of [0, 5, Infinity]) expect(retryAfterMs({ ...D1, degraded: 'closed', retryAfter: ms })).toBe(1000)
    expect(retryAfterMs({ ...D1, degraded: 'closed', retryAfter: 2500 })).toBe(2500)
    expect(retryAfterMs({ ...D1, retryAfter: Infinity })).toBeUndefined()
  })

  test('is never longer than Retry-After, and never by a second or more shorter', () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: 1e12, noNaN: true }), (ms) => {
        const [seconds, milliseconds] = [
          retryAfter({ ...D1, retryAfter: ms })!,
          retryAfterMs({ ...D1, retryAfter: ms })!,
        ]
        expect(milliseconds).toBeGreaterThanOrEqual(ms - 1e-6)
        expect(seconds * 1000 - milliseconds).toBeGreaterThanOrEqual(0)
        expect(seconds * 1000 - milliseconds).toBeLessThan(1000)
      }),
    )
  })

  test('is that of a longer Retry-After of the application', () => {
    expect(millisecondsBeside(13, 13, 12_200)).toBe(12_200)
    expect(millisecondsBeside(120, 13, 12_200)).toBe(120_000)
    expect(millisecondsBeside(120, undefined, undefined)).toBe(120_000)
  })
})

describe('an existing Retry-After', () => {
  test.each<[unknown, number | undefined, number | undefined]>([
    [undefined, 13, 13],
    [undefined, undefined, undefined],
    ['120', 13, 120],
    [120, 13, 120],
    [' 5 ', 13, 13],
    ['1.5', 1, 2],
    ['0', undefined, 1],
    ['-7', 13, 13],
    ['-7', undefined, undefined],
    ['soon', 13, 13],
    ['', 13, 13],
    ['Infinity', 13, 13],
    ['0x10', 13, 13],
    ['1e9', 13, 13],
    ['9'.repeat(400), 13, 999_999_999_999_999],
    [['5', '60'], 13, 60],
    [{}, 13, 13],
    [new Date(NOW + 90_000).toUTCString(), 13, 90],
    [new Date(NOW + 5000).toUTCString(), 13, 13],
    [new Date(NOW - 5000).toUTCString(), undefined, 1],
    ['no date GMT', 13, 13],
    ['2030', 13, 2030],
  ])('of %o is merged with %o to %o', (existing, ours, merged) =>
    expect(mergeRetryAfter(existing, ours, NOW)).toBe(merged),
  )

  test('is merged to a whole number that is at least ours', () => {
    fc.assert(
      fc.property(fc.anything(), fc.integer({ min: 1, max: 1e6 }), (existing, ours) => {
        let text = existing
        try {
          String(existing)
        } catch {
          text = undefined
        }
        const merged = mergeRetryAfter(Array.isArray(text) ? text.join() : text, ours, NOW)!
        expect(Number.isSafeInteger(merged) && merged >= ours).toBe(true)
      }),
    )
  })
})
