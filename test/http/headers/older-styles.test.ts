import * as fc from 'fast-check'
import { parseList } from 'structured-headers'
import { describe, expect, test } from 'vitest'
import type { Decision } from '../../../src/limiter/decision.ts'
import { A1, A2, D1, D2, D3, D4, decide, slots, status, windowed, written } from '../decisions.ts'

describe('the worked values', () => {
  test('are written in draft 7', () => {
    const two = '10;w=1, 1000;w=3600'
    const draft7 = (decision: Decision) => written('draft-7', decision)
    expect(draft7(A1)).toEqual({ 'RateLimit-Policy': '100;w=60', RateLimit: 'limit=100, remaining=99, reset=60' })
    expect(draft7(D1)).toEqual({ 'RateLimit-Policy': '100;w=60', RateLimit: 'limit=100, remaining=0, reset=13' })
    expect(draft7(A2)).toEqual({ 'RateLimit-Policy': two, RateLimit: 'limit=10, remaining=9, reset=1' })
    expect(draft7(D2)).toEqual({ 'RateLimit-Policy': two, RateLimit: 'limit=10, remaining=0, reset=1' })
    expect(draft7(D3)).toEqual({ 'RateLimit-Policy': two, RateLimit: 'limit=1000, remaining=0, reset=1800' })
    expect(draft7(D4)).toEqual({ 'RateLimit-Policy': two, RateLimit: 'limit=1000, remaining=0, reset=1800' })
  })

  test('are written in draft 6', () => {
    const headers = (policy: string, quota: string, remaining: string, reset: string) => ({
      'RateLimit-Policy': policy,
      'RateLimit-Limit': quota,
      'RateLimit-Remaining': remaining,
      'RateLimit-Reset': reset,
    })
    expect(written('draft-6', A1)).toEqual(headers('100;w=60', '100', '99', '60'))
    expect(written('draft-6', A2)).toEqual(headers('10;w=1, 1000;w=3600', '10', '9', '1'))
    expect(written('draft-6', D2)).toEqual(headers('10;w=1, 1000;w=3600', '10', '0', '1'))
    expect(written('draft-6', D3)).toEqual(headers('10;w=1, 1000;w=3600', '1000', '0', '1800'))
  })

  test('are written as X-RateLimit headers with seconds', () => {
    const headers = (quota: string, remaining: string, reset: string) => ({
      'X-RateLimit-Limit': quota,
      'X-RateLimit-Remaining': remaining,
      'X-RateLimit-Reset': reset,
    })
    expect(written('legacy', A1)).toEqual(headers('100', '99', '60'))
    expect(written('legacy', D2)).toEqual(headers('10', '0', '1'))
    expect(written('legacy', D3)).toEqual(headers('1000', '0', '1800'))
  })

  test('are written as the headers of GitHub with epoch seconds', () => {
    const headers = (quota: string, remaining: string, used: string, reset: string, resource: string) => ({
      'x-ratelimit-limit': quota,
      'x-ratelimit-remaining': remaining,
      'x-ratelimit-used': used,
      'x-ratelimit-reset': reset,
      'x-ratelimit-resource': resource,
    })
    expect(written('github', A1)).toEqual(headers('100', '99', '1', '1767225660', 'default'))
    expect(written('github', D3)).toEqual(headers('1000', '0', '1000', '1767227400', 'hourly'))
  })
})

describe('policies with the same quota', () => {
  const minute = windowed('minute', 100, 60_000)
  const hour = windowed('hour', 100, 3_600_000)
  const policy = (decided: Decision) => written('draft-6', decided)['RateLimit-Policy']

  test('list the one that is used up sooner when another limit is binding', () => {
    const small = status(windowed('small', 5, 1000), { remaining: 1 })
    expect(policy(decide([small, status(hour, { remaining: 40 }), status(minute, { remaining: 41 })]))).toBe(
      '5;w=1, 100;w=3600',
    )
    expect(policy(decide([status(hour, { remaining: 42 }), small, status(minute, { remaining: 41 })]))).toBe(
      '100;w=60, 5;w=1',
    )
    const equal = { remaining: 50 }
    const [soon, late] = [status(minute, { ...equal, resetAfter: 9 }), status(hour, { ...equal, resetAfter: 10 })]
    expect(policy(decide([small, soon, late]))).toBe('5;w=1, 100;w=3600')
    expect(policy(decide([small, late, soon]))).toBe('5;w=1, 100;w=3600')
  })

  test('do not list a shadow limit', () => {
    const ghost = status(windowed('ghost', 7, 1000, { shadow: true }))
    expect(policy(decide([status(minute, { remaining: 3 }), ghost, status(hour, { remaining: 2 })]))).toBe('100;w=3600')
  })

  test('list the violated one first', () => {
    const denied = status(minute, { remaining: 3, cost: 5, retryAfter: 100 })
    expect(policy(decide([status(hour, { remaining: 1 }), denied]))).toBe('100;w=60')
    const longer = status(windowed('small', 5, 1000), { retryAfter: 900 })
    expect(policy(decide([longer, status(hour, { remaining: 1 }), denied]))).toBe('5;w=1, 100;w=60')
    expect(policy(decide([longer, denied, status(hour, { remaining: 1 })]))).toBe('5;w=1, 100;w=60')
  })

  test('list each quota once for any limits', () => {
    const some = fc.array(
      fc.record({ quota: fc.integer({ min: 1, max: 3 }), window: fc.integer({ min: 1, max: 4 }), left: fc.nat(3) }),
    )
    fc.assert(
      fc.property(some, (list) => {
        const decided = decide(
          list.map(({ quota, window, left }, i) => status(windowed(`${i}`, quota, window * 1000), { remaining: left })),
        )
        if (list.length === 0) return
        const quotas = parseList(policy(decided)!).map(([quota]) => quota as number)
        expect(new Set(quotas).size).toBe(quotas.length)
        expect(new Set(quotas)).toEqual(new Set(list.map(({ quota }) => quota)))
        const bound = decided.binding!.limit
        expect(parseList(policy(decided)!)).toContainEqual([bound.quota, new Map([['w', bound.window / 1000]])])
      }),
    )
  })
})

test('a limit of slots has no window and no reset', () => {
  const decided = decide([
    status(windowed('n', 100, 60_000), { remaining: 99, resetAfter: 60_000 }),
    status(slots(10), { remaining: 7, resetAfter: 50_000 }),
  ])
  const policy = '100;w=60, 10;qu="concurrent-requests"'
  expect(written('draft-7', decided)).toEqual({ 'RateLimit-Policy': policy, RateLimit: 'limit=10, remaining=7' })
  expect(written('draft-6', decided)).toEqual({
    'RateLimit-Policy': policy,
    'RateLimit-Limit': '10',
    'RateLimit-Remaining': '7',
  })
  const denied = decide([status(slots(10), { retryAfter: 1000, resetAfter: 50_000 })])
  expect(written('legacy', denied)).toEqual({ 'X-RateLimit-Limit': '10', 'X-RateLimit-Remaining': '0' })
  expect(written('github', denied)).toEqual({
    'x-ratelimit-limit': '10',
    'x-ratelimit-remaining': '0',
    'x-ratelimit-used': '10',
    'x-ratelimit-resource': 'slots',
  })
})
