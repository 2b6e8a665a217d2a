import { describe, expect, test } from 'vitest'
import { A1, D2, D3, decide, slots, status, written } from '../decisions.ts'

describe('the worked values', () => {
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

test('a limit of slots has no reset', () => {
  const decided = decide([status(slots(10), { retryAfter: 1000, resetAfter: 50_000 })])
  expect(written('legacy', decided)).toEqual({ 'X-RateLimit-Limit': '10', 'X-RateLimit-Remaining': '0' })
  expect(written('github', decided)).toEqual({
    'x-ratelimit-limit': '10',
    'x-ratelimit-remaining': '0',
    'x-ratelimit-used': '10',
    'x-ratelimit-resource': 'slots',
  })
})
