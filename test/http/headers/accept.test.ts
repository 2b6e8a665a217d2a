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
])('whether Accept: %s allows text but no JSON: %s', (accept, text) => expect(prefersText(accept)).toBe(text))
