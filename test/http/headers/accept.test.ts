import { expect, test } from 'vitest'
import { acceptedFormat, type Format } from '../../../src/http/denial.ts'

test.each<[string | undefined, Format]>([
  [undefined, 'json'],
  ['', 'json'],
  ['*/*', 'json'],
  ['application/json, text/plain, */*', 'json'],
  ['application/problem+json', 'json'],
  ['text/plain', 'text'],
  ['TEXT/Plain;charset=utf-8', 'text'],
  ['text/*', 'text'],
  ['text/plain, */*;q=0.1', 'json'],
  ['text/plain, application/json', 'json'],
  ['text/plain, application/*', 'json'],
  ['text/html', 'html'],
  ['TEXT/HTML;level=1;q=0.9, application/*;q=0.8', 'html'],
  ['text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8', 'html'],
  ['text/html, text/plain, text/css, */*;q=0.01', 'html'],
  ['text/html, application/json;q=0.5', 'json'],
])('Accept: %s asks for %s', (accept, format) => expect(acceptedFormat(accept)).toBe(format))
