import { expect, test } from 'vitest'
import { prefersText } from '../../../src/http/headers/accept.ts'

test.each<[string | undefined, boolean]>([
  [undefined, false],
  ['', false],
  ['*/*', false],
  ['text/plain', true],
  ['TEXT/Plain;charset=utf-8', true],
  ['text/*', true],
  ['text/html', false],
  ['text/html, text/plain;q=0.5', true],
  ['text/plain;q=0', false],
  ['text/plain; q=0.000, text/*', false],
  ['text/plain, */*;q=0.1', false],
  ['text/plain, */*;q=0', true],
  ['text/plain, application/json', false],
  ['text/plain, application/*', false],
  ['text/plain, application/problem+json;q=0.1', false],
  ['text/plain, application/json;q=0', true],
  ['application/json;q=0, */*, text/plain', false],
  ['text/plain;a="x,application/json;"', true],
  ['text/plain;a="\\",*/*"', true],
  ['text/plain;q=banana', false],
  ['text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8', false],
  [',,;;,text/plain,', true],
  [`text/plain,${'"'.repeat(100_000)}`, false],
  ['text/plain;a="x,application/json', true],
])('whether Accept: %s allows text but no JSON: %s', (accept, text) => expect(prefersText(accept)).toBe(text))

test('reads a quote that is never closed in linear time', () => {
  // The longest header that is read, of escaped quotes. Each of them could begin a quote.
  const times = (text: string): number => {
    const began = performance.now()
    for (let i = 0; i < 300; i++) prefersText(text)
    return performance.now() - began
  }
  const header = (unit: string): string => `text/plain;a=${unit}`.padEnd(1022, unit.slice(-2)) + '\\'
  const closed = header('"xx')
  times(closed)
  times(header('"\\"'))
  const [fast, slow] = [Math.min(times(closed), times(closed)), Math.min(times(header('"\\"')), times(header('"\\"')))]
  expect(slow / fast).toBeLessThan(10)
})
