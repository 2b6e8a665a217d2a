import { validateHeaderName } from 'node:http'
import { describe, expect, test } from 'vitest'
import type { HeaderNames, HeaderStyles } from '../../../src/http/headers/types.ts'
import { headerConfig, headerWriter, writtenHeaders } from '../../../src/http/headers/styles.ts'
import { codeOf } from '../../support/code-of.ts'
import { A1, D3, written } from '../decisions.ts'

const renamed = (headers: HeaderStyles, headerNames: HeaderNames) => written(headers, A1, { headerNames })

describe('headerNames', () => {
  test('rename the headers of github', () => {
    const headerNames = { limit: 'Rate-Limit-Total', reset: 'Rate-Limit-Reset', used: 'Used', resource: 'Of' }
    expect(written('github', D3, { headerNames })).toEqual({
      'Rate-Limit-Total': '1000',
      'x-ratelimit-remaining': '0',
      'Rate-Limit-Reset': '1767227400',
      Used: '1000',
      Of: 'hourly',
    })
  })

  test('keep the other names, and omit headers that are false', () => {
    expect(renamed('legacy', { reset: false })).toEqual({ 'X-RateLimit-Limit': '100', 'X-RateLimit-Remaining': '99' })
    expect(renamed('github', { used: false, resource: false })).toEqual({
      'x-ratelimit-limit': '100',
      'x-ratelimit-remaining': '99',
      'x-ratelimit-reset': '1767225660',
    })
    expect(renamed('legacy', {})).toEqual(written('legacy', A1))
  })

  test('do not change other styles', () => {
    expect(renamed(['standard', 'legacy'], { limit: 'X-Quota', remaining: false, reset: false })).toEqual({
      ...written('standard', A1),
      'X-Quota': '100',
    })
  })

  test('are exposed to scripts', () => {
    expect(
      writtenHeaders(
        headerConfig({ headers: ['standard', 'legacy'], headerNames: { limit: 'X-Quota', reset: false } }),
        [],
      ),
    ).toEqual(['RateLimit', 'RateLimit-Policy', 'X-Quota', 'X-RateLimit-Remaining'])
  })
})

describe('headerNames are refused', () => {
  const refused = (headers: HeaderStyles, headerNames: unknown, code = 'INVALID_OPTION') =>
    expect(() => headerWriter(headerConfig({ headers, headerNames } as never)), JSON.stringify(headerNames)).toThrow(
      expect.objectContaining({ code }),
    )

  test('if no header can have the name', () => {
    const injections = ['X-A: 1\r\nSet-Cookie', 'X\r\n', 'X\n', 'X Y', 'X:', 'é', 'X\0', '"X"', '(X)', 'x'.repeat(129)]
    for (const name of ['', ...injections, 5, null, true, {}, ['X']]) refused('legacy', { limit: name })
  })

  test('if they are not an object', () => {
    for (const names of [null, [], ['X-Quota'], 'X-Quota', 5]) refused('legacy', names)
  })

  test('if the name has another meaning', () => {
    for (const name of [
      'Retry-After',
      'retry-after',
      'Retry-After-Ms',
      'Content-Length',
      'Transfer-Encoding',
      'Set-Cookie',
    ])
      refused('legacy', { reset: name })
  })

  test('if two parts have the same name, in any case', () => {
    refused('legacy', { limit: 'X-Quota', reset: 'x-quota' })
    refused('legacy', { limit: 'X-RateLimit-Reset' })
    refused('github', { used: 'x-ratelimit-limit' })
  })

  test('if another style writes the header', () => {
    refused(['standard', 'legacy'], { limit: 'ratelimit' })
    refused(['draft-6', 'legacy'], { reset: 'RateLimit-Limit' })
    refused(['draft-6', 'legacy'], { remaining: 'RateLimit-Policy' })
  })

  test('if the style does not have the part', () => {
    refused('legacy', { used: 'X-Used' }, 'UNKNOWN_OPTION')
    refused('github', { total: 'X-Total' }, 'UNKNOWN_OPTION')
  })

  test('if no style has headers that can be renamed', () => {
    for (const headers of ['standard', 'draft-7', 'draft-6', false, []] as const) refused(headers, { limit: 'X-Quota' })
    for (const names of [null, 'X-Quota', 5]) refused('legacy', names)
  })

  test('exactly if Node refuses them', () => {
    const ascii = Array.from({ length: 128 }, (_, code) => `X${String.fromCharCode(code)}`)
    const differing = [...ascii, 'Xé', 'Xā', 'X💥'].filter((name) => {
      const code = codeOf(() => headerWriter(headerConfig({ headers: 'legacy', headerNames: { limit: name } })))
      return (code === 'none') !== isWritable(name)
    })
    expect(differing).toEqual([])
    expect(renamed('legacy', { limit: 'X!#$%&9' })).toMatchObject({ 'X!#$%&9': '100' })
  })
})

function isWritable(name: string): boolean {
  try {
    validateHeaderName(name)
    return true
  } catch {
    return false
  }
}
