import { expect, test } from 'vitest'
import { acceptedFormat, type Format } from '../../../src/http/denial.ts'

test.each<[string | undefined, Format]>([
  [undefined, 'json'],
  ['', 'json'],
  ['*/*', 'json'],
  ['text/plain', 'text'],
  ['TEXT/Plain;charset=utf-8', 'text'],
  ['text/*', 'text'],
  ['text/html', 'html'],
  ['text/html, text/plain;q=0.5', 'html'],
  ['text/plain;q=0', 'json'],
  ['text/plain; q=0.000, text/*', 'json'],
  ['text/plain, */*;q=0.1', 'json'],
  ['text/plain, */*;q=0', 'text'],
  ['text/plain, application/json', 'json'],
  ['text/plain, application/*', 'json'],
  ['text/plain, application/problem+json;q=0.1', 'json'],
  ['text/plain, application/json;q=0', 'text'],
  ['application/json;q=0, */*, text/plain', 'json'],
  ['text/plain;a="x,application/json;"', 'text'],
  ['text/plain;a="\\",*/*"', 'text'],
  ['text/plain;q=banana', 'json'],
  ['text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8', 'html'],
  ['text/html, */*', 'html'],
  ['text/html, */*;q=0.5', 'html'],
  ['TEXT/HTML;level=1;q=0.9, application/*;q=0.8', 'html'],
  ['text/html, text/plain, text/css, */*;q=0.01', 'html'],
  ['text/plain, text/html;q=0.5', 'text'],
  ['text/html;q=0.9, */*', 'json'],
  ['text/html, application/json', 'json'],
  ['text/html, application/*', 'html'],
  ['text/html;q=0.5, application/problem+json;q=0.6', 'json'],
  ['text/html;q=0, text/plain', 'text'],
  ['text/html;q=0, */*;q=0', 'json'],
  ['*/*, text/*', 'json'],
  [`text/html,${' '.repeat(1024)}`, 'json'],
  [',,;;,text/plain,', 'text'],
  [`text/plain,${'"'.repeat(100_000)}`, 'json'],
  ['text/plain;a="x,application/json', 'text'],
])('Accept: %s asks for %s', (accept, format) => expect(acceptedFormat(accept)).toBe(format))

test('reads a quote that is never closed in linear time', () => {
  // The longest header that is read, of escaped quotes. Each of them could begin a quote.
  const times = (text: string): number => {
    const began = performance.now()
    for (let i = 0; i < 300; i++) acceptedFormat(text)
    return performance.now() - began
  }
  const header = (unit: string): string => `text/plain;a=${unit}`.padEnd(1022, unit.slice(-2)) + '\\'
  const closed = header('"xx')
  times(closed)
  times(header('"\\"'))
  const [fast, slow] = [Math.min(times(closed), times(closed)), Math.min(times(header('"\\"')), times(header('"\\"')))]
  expect(slow / fast).toBeLessThan(10)
})
